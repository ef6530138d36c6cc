import { afterAll, describe, expect, test } from "bun:test"
import { beginStream, finishStream } from "../process/stream.ts"
import { databaseVariables, readLedger, Workplace } from "../process/workplace.ts"
import { takes } from "../support/fair-clock.ts"
import { chat, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { HELLO, startProvider } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { Postgres } from "./postgres.ts"
import { fault, Witness } from "./witness.ts"

/** D27: what happens to calls when the database server crashes, freezes, or gives way to another one. */

const place = new Workplace()

const SETTLED = { state: "settled", basis: "usage", ending: "completed", charge: "0.00003", failure: null }
const REFUSED_WITHIN_MS = 2_600

const provider = await startProvider()
provider.reply(HELLO)
const primary = await Postgres.make()
const standby = await primary.standby()
await primary.start()
await standby.start()
await untilIs(() => primary.tell("SELECT FROM pg_stat_replication WHERE state = 'streaming'"), { length: 1 })
// Nothing counts as written before the standby has it, too.
await primary.tell("ALTER SYSTEM SET synchronous_standby_names = '*'")
await primary.tell("SELECT pg_reload_conf()")
const database = await DatabaseProxy.start(primary.address)
place.configure(configFor(provider.url, { lease: { renew: "1s", expire: "60s" } }))
const gateway = await place.start(databaseVariables(database.address))
const operator = operatorOf(gateway.url)
const account = await operator.account("10")
afterAll(async () => {
  await place.clear()
  await database.stop()
  await provider.stop()
  await primary.clear()
  await standby.clear()
})

async function streams(count: number) {
  const begun: Awaited<ReturnType<typeof beginStream>>[] = []
  while (begun.length < count) begun.push(await beginStream(gateway, provider, account.key))
  return async () => {
    await Promise.all(
      begun.map(async ({ client, exchange }) => {
        await finishStream(exchange)
        await client.receives("data: [DONE]\n\n")
        client.leave()
      }),
    )
  }
}

async function expectRefusal(): Promise<void> {
  const refusal = await takes(0, REFUSED_WITHIN_MS, chat(gateway, account.key))
  expect(refusal.status).toBe(503)
  expect(await refusal.json()).toMatchObject({ error: { code: "ledger_unavailable" } })
}

/** Calls are served again, and each of `count` that were before is settled once. */
async function expectAllSettled(count: number): Promise<void> {
  await untilIs(async () => (await chat(gateway, account.key)).status, 200)
  await until(
    () => operator.balance(account.id).catch(() => null),
    (answer) => answer?.held === "0",
  )
  const calls = (await operator.calls(`?account=${account.id}&limit=1000`)).filter(({ stream }) => stream)
  expect(calls).toMatchObject(Array.from({ length: count }, () => SETTLED))
  expect((await operator.audit()).violations).toEqual([])
}

describe("D27 the database server", () => {
  test("freezes for 4 s: streams go on, new calls are refused within 2 s, nothing is lost", async () => {
    const finish = await streams(10)
    primary.freeze()
    const frozen_ms = performance.now()
    const ended = finish()
    await expectRefusal()
    await ended
    await Bun.sleep(frozen_ms + 4_000 - performance.now())
    primary.thaw()
    await expectAllSettled(10)
  })

  test("crashes and starts again: streams go on, nothing is lost", async () => {
    const finish = await streams(10)
    await primary.crash()
    const ended = finish()
    await expectRefusal()
    await ended
    await primary.start()
    await expectAllSettled(20)
  })

  test("crashes; its standby is promoted by hand, and the old one comes back read-only before the way leads to the new", async () => {
    const witness = await Witness.of(primary.address)
    await witness.end()
    const finish = await streams(10)
    // Until the very crash, calls are held and settled.
    const asked = Array.from({ length: 20 }, () => chat(gateway, account.key).catch(() => null))
    await provider.exchange(provider.exchanges.length + 1)
    await primary.crash()
    const ended = finish()
    await expectRefusal()

    await standby.tell("SELECT pg_promote()")
    await primary.start()
    await primary.tell("ALTER SYSTEM SET default_transaction_read_only = on")
    await primary.tell("SELECT pg_reload_conf()")
    database.cut()
    await expectRefusal()
    await ended
    for (const answer of await Promise.all(asked)) expect([200, 503]).toContain(answer?.status ?? 0)

    database.leadTo(standby.address)
    await expectAllSettled(30)
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    const { calls, ...told } = await readLedger(standby.address)
    expect(told).toEqual({ open_holds: 0, violations: [] })
    const delivered = (await Promise.all(asked)).filter((answer) => answer?.status === 200)
    for (const answer of delivered) {
      const id = answer?.headers.get("x-request-id")
      expect(calls.find((call) => call.id === id)).toMatchObject({ state: "settled", basis: "usage" })
    }
    const after = Witness.reopen(standby.address)
    expect((await after.stories()).map(fault).filter((found) => found !== null)).toEqual([])
    await after.end()
  })
})
