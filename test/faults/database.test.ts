import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import type { Sql } from "postgres"
import { connect } from "../../src/ledger/database/address.ts"
import { endExact } from "../../src/ledger/money/end-exact.ts"
import { holdExact } from "../../src/ledger/money/hold-exact.ts"
import { printUsd } from "../../src/money.ts"
import { beginStream, finishStream } from "../process/stream.ts"
import { takes } from "../support/fair-clock.ts"
import { chat, until, untilIs } from "../support/gateway.ts"
import { FAIR } from "../support/link.ts"
import { HELLO, type Provider } from "../support/provider.ts"
import { Scene, type Victim } from "./scene.ts"

/** D27: what happens to calls while the database cannot be written, for any reason. */

let scene: Scene
let victim: Victim
let provider: Provider
/** Of the database's owner, by another way than the gateway's. */
let sql: Sql
let account: { id: string; key: string }

/** Nobody is to die of an outage here. */
const LONG = { lease: { renew: "1s", expire: "60s" } }
const answers = HELLO
const CHARGE_NANO = 30_000n
const SETTLED = { state: "settled", basis: "usage", ending: "completed", charge: "0.00003", failure: null }
/** A call waits 2 s for the database; the rest is for a busy machine. */
const REFUSED_WITHIN_MS = 2_600

beforeAll(async () => {
  scene = await Scene.open()
  victim = await scene.victim(() => LONG)
  provider = scene.provider
  provider.reply(answers)
  sql = connect(scene.steady.address, { max: 2, onnotice: () => {} })
  account = await scene.steady.account("100")
  expect((await ask()).status).toBe(200)
})
afterEach(() => {
  for (const { database } of scene.victims) {
    database.admit()
    if (database.stalled) database.heal()
    database.weather = FAIR
  }
})
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await scene.close()
})

function ask(key = account.key, gateway = victim): Promise<Response> {
  return chat(gateway, key)
}

/** New calls are told that the database is away: soon, and never that something is wrong with their key or balance. */
async function expectRefusals(count: number, key = account.key): Promise<void> {
  const refusals = Promise.all(Array.from({ length: count }, () => ask(key)))
  for (const refusal of await takes(0, REFUSED_WITHIN_MS, refusals)) {
    expect([refusal.status, refusal.headers.get("retry-after")]).toEqual([503, "2"])
    expect(await refusal.json()).toMatchObject({ error: { code: "ledger_unavailable" } })
  }
}

async function expectServed(key = account.key): Promise<void> {
  await untilIs(() => ask(key), { status: 200 })
}

/** Streams of an account of their own, each with its first word delivered. */
async function streams(count: number, gateway = victim) {
  const { id, key } = await scene.steady.account("10")
  const begun: Awaited<ReturnType<typeof beginStream>>[] = []
  while (begun.length < count) begun.push(await beginStream(gateway, provider, key))
  return {
    /** Each goes on to its end, and its client has it whole. */
    async finish() {
      await Promise.all(
        begun.map(async ({ client, exchange }) => {
          await finishStream(exchange)
          await client.receives("data: [DONE]\n\n")
          client.leave()
        }),
      )
    },
    /** Every settlement arrives, once. */
    async settled(as: object = SETTLED) {
      await untilIs(() => scene.steady.balance(id), { held: "0" })
      const calls = await scene.steady.calls(`?account=${id}`)
      expect(calls).toMatchObject(begun.map(() => as))
    },
  }
}

const spooled = ({ place }: Victim) => {
  const folder = join(place.data_dir, "spool")
  return existsSync(folder) ? readdirSync(folder) : []
}

describe("D27 the database is gone while streams end", () => {
  test("100 of them: each has its end, new calls are refused, and every settlement arrives once they are back", async () => {
    const { finish, settled } = await streams(100)
    victim.database.refuse()
    const ended = finish()
    await expectRefusals(20)
    await ended
    expect(spooled(victim)).toHaveLength(1)
    victim.database.admit()
    await settled()
    await expectServed()
    await untilIs(() => spooled(victim).length, 0)
  })

  test.each([
    ["SIGKILL", (other: Victim) => other.kill()],
    ["SIGTERM", async (other: Victim) => expect(await other.stop()).toBe(0)],
  ])(
    "and %s comes: it ends without the database, and the next start settles what is in the spool",
    async (_, end) => {
      const other = await scene.victim(() => LONG)
      const { finish, settled } = await streams(20, other)
      other.database.refuse()
      await finish()
      await untilIs(async () => (await spoolLines(other)).length, 20)
      await end(other)
      expect(await spoolLines(other)).toHaveLength(20)
      other.database.admit()
      await other.start()
      await settled()
      await other.stop()
    },
  )

  async function spoolLines(from: Victim): Promise<string[]> {
    const texts = spooled(from).map((name) => Bun.file(join(from.place.data_dir, "spool", name)).text())
    return (await Promise.all(texts)).join("").split("\n").filter(Boolean)
  }
})

describe("D27 the database does not answer", () => {
  test("D32 and SIGKILL comes as soon as a client has its last byte: it is charged in full", async () => {
    const ROUNDS = 3
    const other = await scene.victim(() => LONG)
    const { id, key } = await scene.steady.account("1")
    for (let round = 0; round < ROUNDS; round++) {
      const { client, exchange } = await beginStream(other, provider, key)
      other.database.stall()
      await finishStream(exchange)
      await client.receives("data: [DONE]\n\n")
      await other.kill()
      other.database.heal()
      await other.start()
    }
    await untilIs(() => scene.steady.balance(id), { held: "0" })
    expect(await scene.steady.calls(`?account=${id}`)).toMatchObject(
      Array.from({ length: ROUNDS }, () => SETTLED),
    )
    await other.stop()
  })
})

describe("D43 a call with an Idempotency-Key that is refused because the database is away", () => {
  /** Asks under one key of an account's own, which has been served once. */
  async function repeating() {
    const { id, key } = await scene.steady.account("1")
    await expectServed(key)
    const asked = provider.requests.length
    const idempotency_key = crypto.randomUUID()
    const ask = async () => {
      const headers = {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "idempotency-key": idempotency_key,
      }
      const answer = await chat(victim, key, {}, { headers })
      const { error }: { error?: { code: string; call?: string } } = JSON.parse(await answer.text())
      const { status } = answer
      return { id: answer.headers.get("x-request-id"), status, code: error?.code, call: error?.call }
    }
    return {
      ask,
      /** The provider was asked once, that call alone was charged, and from now on the key stands for it. */
      async served(call: string | null) {
        expect(provider.requests.length).toBe(asked + 1)
        expect(await ask()).toMatchObject({ status: 400, code: "idempotency_key_used", call })
        const { balance } = await untilIs(() => scene.steady.balance(id), { held: "0" })
        expect(balance).toBe(printUsd(1_000_000_000n - 2n * CHARGE_NANO))
      },
    }
  }
  const REFUSED = { status: 503, code: "ledger_unavailable" }

  test.each<[string, () => void, () => void]>([
    ["it is gone", () => victim.database.refuse(), () => victim.database.admit()],
    ["it does not answer", () => victim.database.stall(), () => victim.database.heal()],
  ])("%s: the same key makes the call as soon as they are back", async (_, begin, end) => {
    const { ask, served } = await repeating()
    begin()
    expect(await takes(0, REFUSED_WITHIN_MS, ask())).toMatchObject(REFUSED)
    end()
    const met: unknown[] = []
    const { id } = await until(ask, (answer) => {
      if (answer.status !== 200) met.push(answer.code)
      return answer.status === 200
    })
    expect(met.filter((code) => code !== REFUSED.code)).toEqual([])
    await served(id)
  })

  test("they held it, and did not say so: while that is being released a repeat is a 503 too, never a 400", async () => {
    const { ask, served } = await repeating()
    const held = victim.database.meet(holdExact, "done")
    const releasing = victim.database.meet(endExact, "asked")
    const refused = takes(0, REFUSED_WITHIN_MS, ask())
    const { lose } = await held
    expect(await refused).toMatchObject(REFUSED)
    lose()
    const { pass } = await releasing
    const meanwhile = await ask()
    pass()
    expect(meanwhile).toMatchObject(REFUSED)
    const { id } = await untilIs(ask, { status: 200 })
    await served(id)
  })
})

describe("D27 the database refuses", () => {
  test("every write: the disk is full", async () => {
    const { finish, settled } = await streams(10)
    await sql.unsafe(`CREATE FUNCTION witness.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
      END $$`)
    // One table after the other: a transaction that locked both could wait for a statement that waits for it.
    for (const table of ["holds", "ends"])
      await sql.unsafe(
        `CREATE TRIGGER full_disk BEFORE INSERT ON tollgate.${table} FOR EACH ROW EXECUTE FUNCTION witness.full()`,
      )
    const ended = finish()
    await expectRefusals(10)
    await ended
    for (const table of ["holds", "ends"]) await sql.unsafe(`DROP TRIGGER full_disk ON tollgate.${table}`)
    await settled()
    await expectServed()
  })
})
