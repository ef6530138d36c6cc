import { afterAll, describe, expect, test } from "bun:test"
import { connect } from "../../src/ledger/database/address.ts"
import { parseUsd, printUsd } from "../../src/money.ts"
import { beginStream, finishStream, text } from "../process/stream.ts"
import { within } from "../support/fair-clock.ts"
import { until } from "../support/gateway.ts"
import { Scene } from "./scene.ts"

/** D57: what a gateway that dies has written down of its running calls. */

/** Nobody renews or dies by chance here; checkpoints do not wait for a renewal. */
const SLOW_LEASE = { lease: { renew: "1s", expire: "4s" } }
const STREAMS = 20
/** Eight bytes: two tokens, at 4,000 nano-USD each. */
const EVENT = "eight by"
const EVENT_NANO = 8_000n
const EVENT_MS = 50
const KILLED_AFTER_MS = 1_500
/** From a call's first output, or its last, until its checkpoint is written or gone. */
const WITHIN_MS = 1_000

const scene = await Scene.open()
const victim = await scene.victim(() => SLOW_LEASE)
afterAll(() => scene.close())

/** Streams of an account of their own, each with its first word delivered. */
async function streams(count: number) {
  const { id, key } = await scene.steady.account("10")
  const begun: Awaited<ReturnType<typeof beginStream>>[] = []
  while (begun.length < count) begun.push(await beginStream(victim, scene.provider, key))
  return { account_id: id, begun }
}

/** What is written down of the calls of an account, in nano-USD. */
async function checkpointsOf(account_id: string): Promise<bigint[]> {
  const sql = connect(scene.steady.address, { max: 1, onnotice: () => {} })
  const rows = await sql<{ charge: string }[]>`
    SELECT c.charge_nano::text AS charge FROM tollgate.checkpoints c JOIN tollgate.holds h USING (id)
    WHERE h.account_id = ${account_id}`
  await sql.end()
  return rows.map(({ charge }) => BigInt(charge))
}

describe("D57 checkpoints", () => {
  test("are written within a second of the first output, and are gone within a second of the end", async () => {
    const { account_id, begun } = await streams(3)
    const written = until(
      () => checkpointsOf(account_id),
      (found) => found.length === 3,
    )
    expect(await within(WITHIN_MS, written)).toBe(true)
    // "first" is five bytes, one token.
    expect(await written).toEqual([4_000n, 4_000n, 4_000n])
    const [one, ...others] = begun
    await one?.exchange.chunk(text("and more of it"))
    const moved = until(
      () => checkpointsOf(account_id),
      (found) => found.some((charge) => charge > 4_000n),
    )
    expect(await within(WITHIN_MS, moved)).toBe(true)

    for (const { client, exchange } of others) {
      await finishStream(exchange)
      await client.receives("data: [DONE]\n\n")
    }
    one?.client.leave()
    const gone = until(
      () => checkpointsOf(account_id),
      (found) => found.length === 0,
    )
    expect(await within(WITHIN_MS, gone)).toBe(true)
    const calls = await scene.steady.calls(`?account=${account_id}`)
    expect(calls.map(({ state }) => state)).toEqual(["settled", "settled", "settled"])
  })

  test("charge the streams of a gateway that is killed 1.5 s after their first event: none is free, none costs more than it said", async () => {
    const { account_id, begun } = await streams(STREAMS)
    const began_ms = performance.now()
    let said = 0
    /** What had been said for longer than a second when the gateway died, and the way of a statement. */
    let due = 0
    for (let now_ms = 0; now_ms < KILLED_AFTER_MS; now_ms = performance.now() - began_ms) {
      await Promise.all(begun.map(({ exchange }) => exchange.chunk(text(EVENT))))
      said += 1
      if (now_ms < KILLED_AFTER_MS - WITHIN_MS - 200) due = said
      await Bun.sleep(EVENT_MS)
    }
    expect(said).toBeLessThan(36)
    await victim.kill()
    await scene.quiet()
    const calls = await scene.steady.calls(`?account=${account_id}`)
    expect(calls).toMatchObject(
      Array.from({ length: STREAMS }, () => ({
        state: "expired",
        basis: "estimate",
        ending: "gateway_lost",
        failure: "gateway_lost",
      })),
    )
    const charges = calls.map(({ charge }) => parseUsd(String(charge)) ?? 0n)
    expect(due).toBeGreaterThan(1)
    const least = EVENT_NANO * BigInt(due)
    // The first word is five bytes: a token more, or two with what was left of the others.
    const most = EVENT_NANO * BigInt(said) + 8_000n
    expect(charges.filter((charge) => charge < least || charge > most)).toEqual([])
    const total = charges.reduce((sum, charge) => sum + charge, 0n)
    expect(await scene.steady.balance(account_id)).toMatchObject({
      balance: printUsd(10_000_000_000n - total),
      held: "0",
    })
  })
})
