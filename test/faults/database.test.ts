import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Sql } from "postgres"
import { connect } from "../../src/ledger/database/address.ts"
import { endOne } from "../../src/ledger/money/end.ts"
import { holdOneKey } from "../../src/ledger/money/hold.ts"
import { holdExact } from "../../src/ledger/money/hold-exact.ts"
import { tombstone } from "../../src/ledger/money/tombstone.ts"
import { printUsd } from "../../src/money.ts"
import { beginStream, finishStream } from "../process/stream.ts"
import { takes } from "../support/fair-clock.ts"
import { chat, until, untilIs } from "../support/gateway.ts"
import { FAIR } from "../support/link.ts"
import { HELLO, type Provider } from "../support/provider.ts"
import { Disk } from "./disk.ts"
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

  test("and SIGKILL comes: the next start settles what is in the spool", async () => {
    const other = await scene.victim(() => LONG)
    const { finish, settled } = await streams(20, other)
    other.database.refuse()
    await finish()
    await untilIs(async () => (await spoolLines(other)).length, 20)
    await other.kill()
    other.database.admit()
    await other.start()
    await settled()
    await other.stop()
  })

  test("and SIGTERM comes: it ends without the database, and the next start settles what is in the spool", async () => {
    const other = await scene.victim(() => LONG)
    const { finish, settled } = await streams(20, other)
    other.database.refuse()
    await finish()
    expect(await other.stop()).toBe(0)
    expect(await spoolLines(other)).toHaveLength(20)
    other.database.admit()
    await other.start()
    await settled()
    await other.stop()
  })

  test("and the disk does not take the spool: they wait in memory, and the spool is written again when it can be", async () => {
    const other = await scene.victim(() => LONG)
    const folder = join(other.place.data_dir, "spool")
    mkdirSync(other.place.data_dir, { recursive: true })
    writeFileSync(folder, "in the way")
    const { finish, settled } = await streams(5, other)
    other.database.refuse()
    await finish()
    await other.gateway.prints("the spool cannot be written")
    other.database.admit()
    await settled()

    rmSync(folder)
    const later = await streams(5, other)
    other.database.refuse()
    await later.finish()
    await untilIs(async () => (await spoolLines(other)).length, 5)
    await other.kill()
    other.database.admit()
    await other.start()
    await later.settled()
    await other.stop()
  })

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

  test("nothing passes, as on a cable that was pulled", async () => {
    const { finish, settled } = await streams(20)
    victim.database.stall()
    const ended = finish()
    await expectRefusals(10)
    await ended
    victim.database.heal()
    await settled()
    await expectServed()
  })

  test("they are slow by 200 ms: calls are slower, and served", async () => {
    victim.database.weather = { ...FAIR, delay_ms: 100 }
    const { finish, settled } = await streams(5)
    await finish()
    await settled()
    const asked = Promise.all(Array.from({ length: 20 }, async () => (await ask()).status))
    const statuses = await takes(400, 2_000, asked)
    expect(statuses).toEqual(statuses.map(() => 200))
    victim.database.weather = FAIR
  })

  test("their replies are lost after the commit: each call is held once and charged once", async () => {
    const { id, key } = await scene.steady.account("1")
    const LOST = 5
    for (let done = 0; done < LOST * 4; done++) {
      const lost = done < LOST ? [holdOneKey, endOne].map((each) => victim.database.loseReply(each)) : []
      expect((await ask(key)).status).toBe(200)
      await Promise.all(lost)
    }
    await untilIs(() => scene.steady.balance(id), { held: "0" })
    const calls = await scene.steady.calls(`?account=${id}`)
    expect(calls).toHaveLength(LOST * 4)
    expect(calls).toMatchObject(calls.map(() => SETTLED))
    expect((await scene.steady.balance(id)).balance).toBe(
      printUsd(1_000_000_000n - CHARGE_NANO * BigInt(LOST * 4)),
    )
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
    const releasing = victim.database.meet(tombstone, "asked")
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
  test("connections: there are too many", async () => {
    const clerk = `clerk_${crypto.randomUUID().slice(0, 8)}`
    const [{ name } = { name: "" }] = await sql<{ name: string }[]>`SELECT current_database() AS name`
    await sql.unsafe(`CREATE ROLE ${clerk} LOGIN; GRANT ALL ON DATABASE ${name} TO ${clerk};
      GRANT ALL ON SCHEMA tollgate, drizzle, witness TO ${clerk};
      GRANT ALL ON ALL TABLES IN SCHEMA tollgate, drizzle, witness TO ${clerk};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA drizzle, witness TO ${clerk}; GRANT pg_read_all_stats TO ${clerk}`)
    const other = await scene.victim(() => LONG, clerk)
    const { finish, settled } = await streams(10, other)
    await sql.unsafe(`ALTER ROLE ${clerk} CONNECTION LIMIT 0`)
    await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${clerk}`
    const ended = finish()
    const refusal = await takes(0, REFUSED_WITHIN_MS, ask(account.key, other))
    expect(await refusal.json()).toMatchObject({ error: { code: "ledger_unavailable" } })
    await ended
    await sql.unsafe(`ALTER ROLE ${clerk} CONNECTION LIMIT -1`)
    await settled()
    expect((await ask(account.key, other)).status).toBe(200)
    expect(await other.stop()).toBe(0)
    await sql.unsafe(`DROP OWNED BY ${clerk}; DROP ROLE ${clerk}`)
  })

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

  async function moveEntries(tablespace: string): Promise<void> {
    const tables = await sql<{ name: string }[]>`
      SELECT relid::text AS name FROM pg_partition_tree('tollgate.holds') WHERE isleaf
      UNION ALL SELECT relid::text FROM pg_partition_tree('tollgate.ends') WHERE isleaf`
    for (const { name } of tables) await sql.unsafe(`ALTER TABLE ${name} SET TABLESPACE ${tablespace}`)
  }

  test.skipIf(!Disk.possible())("every new page: the disk is really full (only as root)", async () => {
    if (!("socket_path" in scene.steady.address)) throw new Error("the test cluster is reached by its socket")
    const small = Disk.mount(scene.steady.address.socket_path)
    if (small === null) throw new Error("no disk was mounted")
    const name = `small_${crypto.randomUUID().slice(0, 8)}`
    try {
      await sql.unsafe(`CREATE TABLESPACE ${name} LOCATION '${small.folder}'`)
      await moveEntries(name)
      const { finish, settled } = await streams(20)
      small.fill()
      const from = victim.gateway.printed.length
      // There is room in the last pages still.
      const refused = await until(
        async () => (await Promise.all(Array.from({ length: 20 }, () => ask()))).find(({ ok }) => !ok),
        (answer) => answer !== undefined,
      )
      expect(refused?.status).toBe(503)
      expect(await refused?.json()).toMatchObject({ error: { code: "ledger_unavailable" } })
      // Its output can arrive after its answer, and the first answer can be that the server is slow.
      await until(
        async () => {
          await (await ask()).text()
          return victim.gateway.printed.slice(from)
        },
        (text) => text.includes("53100"),
      )
      await finish()
      small.makeRoom()
      await settled()
      await expectServed()
    } finally {
      await moveEntries("pg_default")
      await sql.unsafe(`DROP TABLESPACE ${name}`)
      small.unmount()
    }
  })

  test("one account, whose row is locked for 5 s: its calls are refused or wait, others do not notice", async () => {
    const locked = await scene.steady.account("1")
    await expectServed(locked.key)
    const { client, exchange } = await beginStream(victim, provider, locked.key)
    const until_ms = performance.now() + 5_000
    const taken = Promise.withResolvers<void>()
    const unlocked = sql.begin(async (transaction) => {
      await transaction`SELECT FROM tollgate.accounts WHERE id = ${locked.id} FOR UPDATE`
      taken.resolve()
      await Bun.sleep(until_ms - performance.now())
    })
    await taken.promise
    await finishStream(exchange)
    await client.receives("data: [DONE]\n\n")
    const refused = expectRefusals(5, locked.key)
    const waits_ms: number[] = []
    while (performance.now() < until_ms - 100) {
      const { key } = await scene.steady.account("1")
      const asked_ms = performance.now()
      expect((await ask(key)).status).toBe(200)
      waits_ms.push(performance.now() - asked_ms)
    }
    await refused
    await unlocked
    // Who waited for the lock would wait for most of its 5 s; a busy machine takes some of the rest.
    expect(waits_ms.sort((a, b) => a - b)[Math.floor(waits_ms.length * 0.9)]).toBeLessThan(2_000)
    await untilIs(() => scene.steady.balance(locked.id), { held: "0" })
    expect((await scene.steady.calls(`?account=${locked.id}&state=settled`)).length).toBe(2)
    await expectServed(locked.key)
  })
})
