import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { errorCode } from "../../src/ledger/database/database-errors.ts"
import type { Checkpoint } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { bases, endings, failures, notes } from "../../src/wire/call.ts"
import {
  type Account,
  call,
  checkpointOf,
  falsify,
  holdOf,
  lockWaiters,
  openTransaction,
  released,
  settled,
  standings,
  testGateway,
  violations,
  writeCheckpoints,
} from "./test-database.ts"

/** How holds end, on a real Postgres: exactly once, and the money with them (D13). */

const { db, connection, connections, gateway_id, ask, end, endUnknown, expire, itemOf } = await testGateway()
const write = (seen: Checkpoint) => writeCheckpoints(connection, gateway_id, seen)
const exact = async () => expect(await violations(db.sql, { overdrawn: true })).toEqual([])

async function held(amount_nano: bigint, account?: Account) {
  const payer = account ?? (await db.account(1_000n))
  const hold = holdOf(payer, amount_nano)
  expect(await ask(hold)).toEqual([{ outcome: "held" }])
  return { ...hold, balance: () => balanceOf(payer) }
}

async function balanceOf({ account_id }: Account) {
  const at = (await standings(db.sql)).find((standing) => standing.account_id === account_id)
  return [at?.balance_nano, at?.held_nano]
}

const SEEN = { prompt_tokens: 5, cached_tokens: 4, completion_tokens: 3 }
async function expired(amount_nano: bigint, checkpoint_nano = 0n) {
  const call = await held(amount_nano)
  if (checkpoint_nano > 0n) {
    await write(checkpointOf(call.id, checkpoint_nano, { basis: "partial", usage: SEEN }))
  }
  expect(await expire(call)).toEqual([true])
  return call
}

describe("an open hold", () => {
  test("is settled: the charge leaves the balance, the hold is gone, the row says how", async () => {
    const { id, balance } = await held(100n)
    const said = { notes: ["cached_clamped", "usage_placeholder"] } as const
    expect(await end(settled(id, 70n, said))).toEqual(["applied"])
    expect(await balance()).toEqual([930n, 0n])
    expect(await call(db.sql, id)).toMatchObject({
      ...{ state: "settled", charge_nano: "70", basis: "usage", ending: "completed", failure: null, ...said },
      ...{ prompt_tokens: 3, cached_tokens: 1, completion_tokens: 2 },
      ...{ upstream: "second", ttft_ms: 12, duration_ms: 34, ended_at: expect.any(Date) },
    })
    await exact()
  })

  test("is released: nothing is charged, and the upstream that was tried first stays", async () => {
    const { id, balance } = await held(100n)
    expect(await end(released(id))).toEqual(["applied"])
    expect(await balance()).toEqual([1_000n, 0n])
    expect(await call(db.sql, id)).toMatchObject({
      ...{ state: "released", charge_nano: "0", basis: "none", ending: null, failure: "upstream_error" },
      ...{ prompt_tokens: null, upstream: "first", ttft_ms: null },
    })
    await exact()
  })

  test("every word there is can be written", async () => {
    for (const [at, failure] of failures.entries()) {
      const { id } = await held(1n)
      const basis = bases[at % bases.length] ?? "none"
      const ending = endings[at % endings.length] ?? null
      expect(await end(settled(id, 1n, { failure, basis, ending, notes: [...notes] }))).toEqual(["applied"])
      expect(await call(db.sql, id)).toMatchObject({ failure, basis, ending, notes })
    }
  })

  test("an end whose account is not found fails, and is written when the account is found again", async () => {
    const hold = await held(100n)
    const elsewhere = crypto.randomUUID()
    const rename = (from: string, to: string) =>
      falsify(db.sql, (tx) => tx`UPDATE tollgate.accounts SET id = ${to} WHERE id = ${from}`)
    await rename(hold.account_id, elsewhere)
    const failure = await end(settled(hold.id, 40n)).catch(errorCode)
    await rename(elsewhere, hold.account_id)
    expect(failure).toBe("22012")
    expect(await end(settled(hold.id, 40n))).toEqual(["applied"])
    await exact()
  })
})

describe("D13 expiry", () => {
  test.each([
    ["without a checkpoint it charges nothing", 0n, { basis: "none", notes: [] }],
    ["with a checkpoint it charges what that saw", 40n, { basis: "partial", ...SEEN, notes: [] }],
    ["with a checkpoint above the hold it notes the overage (D11)", 140n, { ...SEEN, notes: ["overage"] }],
  ])("%s", async (_, checkpoint_nano, recorded) => {
    const { id, balance } = await expired(100n, checkpoint_nano)
    expect(await balance()).toEqual([1_000n - checkpoint_nano, 0n])
    expect(await call(db.sql, id)).toMatchObject({
      ...{ state: "expired", charge_nano: String(checkpoint_nano), ...recorded },
      ...{ ending: "gateway_lost", failure: "gateway_lost" },
    })
    await exact()
  })

  test.each([0n, 40n, 400n])(
    "a late settlement corrects the checkpoint's %d once, and says so",
    async (checkpoint_nano) => {
      const { id, balance } = await expired(100n, checkpoint_nano)
      expect(await end(settled(id, 70n, { notes: ["overage"] }))).toEqual(["applied"])
      expect(await balance()).toEqual([930n, 0n])
      const row = await call(db.sql, id)
      expect(row).toMatchObject({
        ...{ state: "settled", charge_nano: "70", basis: "usage", ending: "completed", failure: null },
        notes: ["overage", "settled_late"],
      })
      expect(await end(settled(id, 71n))).toEqual(["closed"])
      expect(await call(db.sql, id)).toEqual(row)
      await exact()
    },
  )
})

test("D13 a settlement behind a release counts, if an expiry comes before both while they wait", async () => {
  const account = await db.account(1_000n)
  const { id } = await held(100n, account)
  const expiring = await openTransaction(
    db.sql,
    (tx) => tx`SELECT FROM tollgate.accounts WHERE id = ${account.account_id} FOR UPDATE`,
    async (tx) => {
      await tx`INSERT INTO tollgate.ends (id, account_id, key_id, terms_id, outcome, basis, charge_nano, freed_nano)
        SELECT id, account_id, key_id, terms_id, 'expired', 'none', 0, amount_nano FROM tollgate.holds WHERE id = ${id}`
      await tx`UPDATE tollgate.accounts SET held_nano = held_nano - 100 WHERE id = ${account.account_id}`
    },
  )
  const unknown = [released(id), settled(id, 9n)]
  const items = unknown.map((one) => ({ end: one, hold: null }))
  const ending = endBatch(db.connection(), items, 5_000)
  await lockWaiters(db.sql, 1)
  await expiring.commit()
  expect(await ending).toEqual(["conflict", "conflict"])
  expect(await endUnknown(...unknown)).toEqual(["closed", "applied"])
  expect(await balanceOf(account)).toEqual([991n, 0n])
  expect(await call(db.sql, id)).toMatchObject({ state: "settled", charge_nano: "9" })
})

test("D13 settle, settle otherwise, release and sweep at once: exactly one end, the money as it says", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3), { minLength: 6, maxLength: 16 }), async (moves) => {
      const account = await db.account(1_000n)
      const { id, account_id } = await held(100n, account)
      const ends = await Promise.all(
        moves.map(async (move, at): Promise<string> => {
          const own = connections[at % connections.length] ?? connection
          if (move === 3)
            return (await expireBatch(own, [{ id, account_id }], 3_000))[0] ? "expired" : "closed"
          const one = move === 2 ? released(id) : settled(id, 10n + BigInt(move))
          for (;;) {
            const [ended] = await endBatch(
              own,
              [at % 3 === 0 ? { end: one, hold: null } : itemOf(one)],
              3_000,
            )
            if (ended !== "conflict") return ended === "applied" ? one.outcome : "closed"
          }
        }),
      )
      const applied = ends.filter((end) => end !== "closed")
      const row = await call(db.sql, id)
      expect(row?.state).toBe(applied.includes("settled") ? "settled" : (applied[0] ?? "open"))
      // At most an expiry and the settlement that came late.
      expect(applied.filter((end) => end !== "expired").length).toBeLessThanOrEqual(1)
      expect(applied.filter((end) => end === "expired").length).toBeLessThanOrEqual(1)
      expect(row?.notes).toEqual(applied.length === 2 ? ["settled_late"] : [])
      expect(await balanceOf(account)).toEqual([1_000n - BigInt(row?.charge_nano), 0n])
    }),
    { numRuns: 12 },
  )
  await exact()
})
