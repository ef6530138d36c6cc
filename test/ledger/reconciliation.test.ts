import { expect, test } from "bun:test"
import type { End } from "../../src/ledger/entries.ts"
import { writeAttempts } from "../../src/ledger/queue/attempts.ts"
import { reconciled, reconciledSums } from "../../src/ledger/reports/reconciliation.ts"
import { falsify, holdOf, idAt, released, settled, testGateway } from "./test-database.ts"

/** D98: the sums that a provider's report is compared with. */

const HOUR_MS = 3_600_000
const NINE_MS = Date.parse("2026-11-20T09:00:00Z")
/** What 3 tokens, one of them cached, and 2 of completion cost. */
const COST_NANO = 4_525n

const { db, connection, ask, end, endUnknown, expire } = await testGateway()
const account = await db.account(1_000_000n)

/** A call that began and ended at these minutes after nine. */
async function call(began: number, ended: number, endOf: ((id: string) => End) | "expired"): Promise<string> {
  const hold = holdOf(account, 1_000n, { id: idAt(NINE_MS + began * 60_000) })
  expect(await ask(hold)).toEqual([{ outcome: "held" }])
  if (endOf === "expired") await expire(hold)
  else await end(endOf(hold.id))
  const ended_at = new Date(NINE_MS + ended * 60_000)
  await falsify(db.sql, (tx) => tx`UPDATE tollgate.ends SET ended_at = ${ended_at} WHERE id = ${hold.id}`)
  return hold.id
}

test("D98 calls count when they ended, with their final tokens; those that a provider may count otherwise are told apart", async () => {
  const plain = (id: string) => settled(id, COST_NANO)
  await call(20, 21, plain)
  const attempted = await call(30, 31, (id) => settled(id, COST_NANO, { details: { key: "a" } }))
  await call(20, 21, (id) => settled(id, COST_NANO, { basis: "estimate" }))
  await call(20, 21, (id) => settled(id, COST_NANO, { ending: "client_left" }))
  await call(20, 21, (id) => released(id, { terms_id: 2, failure: "client_left", ending: "client_left" }))
  await call(20, 21, (id) => released(id, { terms_id: 2, failure: "upstream_unavailable" }))
  await call(58, 61, plain)
  await call(0.5, 20, plain)
  const late = await call(20, 21, "expired")
  await endUnknown(settled(late, COST_NANO))
  await call(20, 21, (id) => settled(id, COST_NANO, { terms_id: 1 }))
  const attempt = { account_id: account.account_id, upstream: "second", key: "a", ms: 1 }
  const ended_at = new Date(NINE_MS + 30 * 60_000).toISOString()
  await writeAttempts(connection, [
    { ...attempt, id: attempted, ordinal: 0, status: 503, ended_at },
    { ...attempt, id: attempted, ordinal: 1, status: 503, upstream: "first", ended_at },
  ])

  const range = { upstream: "second", from: new Date(NINE_MS), to: new Date(NINE_MS + 2 * HOUR_MS) }
  const found = await reconciled(db.database.operators, { ...range, step_ms: HOUR_MS })
  const none = { calls: 0, prompt_tokens: 0, completion_tokens: 0 }
  const sums = (calls: number) => ({ calls, prompt_tokens: 3 * calls, completion_tokens: 2 * calls })
  const row = (hour: number, upstream_key: string | null, calls: number) => ({
    from: new Date(NINE_MS + hour * HOUR_MS),
    model: "model",
    operation: "chat",
    upstream_key,
    ...sums(calls),
    cached_tokens: calls,
    cost_nano: BigInt(calls) * COST_NANO,
    input_pico: 250_000n,
    cached_input_pico: 25_000n,
    output_pico: 2_000_000n,
    attempts: 0,
    estimated: none,
    cut: none,
    boundary: none,
  })
  const nine = {
    ...row(0, null, 5),
    estimated: sums(1),
    cut: { ...sums(1), calls: 2 },
    boundary: sums(1),
  }
  const of_key = { ...row(0, "a", 1), attempts: 1 }
  const ten = { ...row(1, null, 1), boundary: sums(1) }

  const days = await reconciled(db.database.operators, { ...range, step_ms: 24 * HOUR_MS })
  expect(days.map(({ from, calls }) => [from.toISOString(), calls])).toEqual([
    ["2026-11-20T00:00:00.000Z", 1],
    ["2026-11-20T00:00:00.000Z", 6],
  ])
  expect(await reconciledSums.merge([[nine], [ten, nine]])).toEqual([
    {
      ...nine,
      ...sums(10),
      cached_tokens: 10,
      cost_nano: 10n * COST_NANO,
      estimated: sums(2),
      cut: { ...sums(2), calls: 4 },
      boundary: sums(2),
    },
    ten,
  ])
  const of_other = { ...nine, model: "another" }
  const in_order = [of_other, of_key, nine, ten]
  expect(await reconciledSums.merge([[nine, ten], [of_other], [of_key]])).toEqual(in_order)
  expect(found).toEqual([of_key, nine, ten])
})
