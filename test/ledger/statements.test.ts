import { afterAll, beforeAll, expect, test } from "bun:test"
import fc from "fast-check"
import { openClientReports } from "../../src/ledger/reports/client.ts"
import {
  type AccountStatement,
  accountStatement,
  addStatements,
  addTrialBalances,
  trialBalance,
} from "../../src/ledger/reports/statement.ts"
import { sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { plantCalls } from "../admin/admin-harness.ts"
import { falsify, numberedId, openTestDatabase, type TestDatabase } from "./test-database.ts"

/** D106: statements and trial balances of random journals in two shards, compared with sums made without the ledger. */

const RUNS = Number(process.env.STATEMENT_JOURNALS ?? 5)
const DAY_MS = 86_400_000
const FIRST_MS = Date.parse("2026-02-25T00:00:00Z")
const DAYS = 8
const at = (ms: number) => new Date(FIRST_MS + ms)
const OWNERS = 3

let shards: readonly [TestDatabase, TestDatabase]
beforeAll(async () => {
  shards = [await openTestDatabase(), await openTestDatabase()]
})
afterAll(async () => {
  for (const db of shards) await db.close()
})

const time = fc.nat(DAYS * DAY_MS - 1)
const owner = fc.nat(OWNERS - 1)
const shard = fc.nat(1)
const journals = fc.record({
  calls: fc.array(
    fc.record({
      ...{ owner, shard, at_ms: time, nano: fc.nat(4_000) },
      model: fc.constantFrom("small", "large"),
      tokens: fc.nat(50),
      late_ms: fc.option(fc.nat(2 * DAY_MS), { nil: null, freq: 2 }),
      more: fc.integer({ min: -500, max: 500 }),
    }),
    { maxLength: 40 },
  ),
  credits: fc.array(
    fc.record({
      ...{ owner, shard, at_ms: time },
      nano: fc.integer({ min: -3_000, max: 9_000 }).filter((nano) => nano !== 0),
      kind: fc.constantFrom("payment", "promotion", "plan", "refund", "correction", null),
      starts_in_ms: fc.option(fc.integer({ min: 1, max: 2 * DAY_MS }), { nil: null, freq: 2 }),
      over: fc.option(
        fc.record({ as: fc.constantFrom("expired", "voided"), in_ms: fc.nat(DAY_MS), share: fc.nat(10) }),
        {
          nil: null,
          freq: 2,
        },
      ),
    }),
    { maxLength: 25 },
  ),
  moves: fc.array(fc.record({ owner, shard, at_ms: time, nano: fc.integer({ min: -900, max: 900 }) }), {
    maxLength: 4,
  }),
  closed_ms: fc.option(time, { nil: null }),
  cuts: fc.tuple(time, time),
})
type Journal = typeof journals extends fc.Arbitrary<infer J> ? J : never

/** A change of a balance. */
interface Change {
  readonly owner: number
  readonly at_ms: number
  readonly line: string
  readonly nano: number
}

function changesOf({ calls, credits, moves }: Journal): Change[] {
  return [
    ...calls.flatMap(({ owner, at_ms, model, nano, late_ms, more }) => [
      { owner, at_ms, line: model, nano: -nano },
      ...(late_ms === null
        ? []
        : [{ owner, at_ms: at_ms + late_ms, line: model, nano: nano - Math.max(0, nano + more) }]),
    ]),
    ...credits.flatMap(({ owner, at_ms, nano, kind, starts_in_ms, over }) => {
      const line = kind ?? (nano < 0 ? "correction" : "payment")
      const start_ms = at_ms + (nano > 0 ? (starts_in_ms ?? 0) : 0)
      const lost = nano > 0 && over !== null ? Math.floor((nano * over.share) / 10) : 0
      return [
        { owner, at_ms: start_ms, line, nano },
        ...(lost === 0
          ? []
          : [{ owner, at_ms: start_ms + (over?.in_ms ?? 0), line: over?.as ?? "", nano: -lost }]),
      ]
    }),
    ...moves.flatMap(({ owner, at_ms, nano }) => [
      { owner, at_ms, line: "moved", nano: -nano },
      { owner, at_ms: at_ms + 5, line: "moved", nano },
    ]),
  ]
}

const accountOf = (number: number) => `00000000-0000-7000-8000-00000000000${number}`

async function plant(journal: Journal): Promise<void> {
  for (const [place, db] of shards.entries()) {
    await falsify(db.sql, (tx) =>
      tx.unsafe(`TRUNCATE tollgate.holds, tollgate.ends, tollgate.corrections, tollgate.credits, tollgate.grant_entries,
        tollgate.accounts, tollgate.hours, tollgate.days, tollgate.hour_latencies, tollgate.day_latencies;
        UPDATE tollgate.summed SET hours_until = NULL, days_until = NULL, labels_until = NULL`),
    )
    await plantCalls(
      db.database.operators,
      journal.calls.flatMap((call, number) => {
        const { owner, at_ms, model, nano, tokens, late_ms, more } = call
        if (call.shard !== place) return []
        const usage = { prompt_tokens: tokens, cached_tokens: 0, completion_tokens: 1 }
        const corrected = { charge_nano: BigInt(Math.max(0, nano + more)), ...usage }
        return {
          id: numberedId(FIRST_MS + at_ms, number),
          ...{
            account_id: accountOf(owner),
            model,
            held_at: at(at_ms),
            ended_at: at(at_ms),
            amount_nano: 0n,
          },
          ...{ state: late_ms === null ? "settled" : "expired", charge_nano: BigInt(nano), ...usage },
          ...(late_ms !== null && { corrected: { ...corrected, corrected_at: at(at_ms + late_ms) } }),
        }
      }),
    )
    const rows = creditRows(journal, place)
    await falsify(db.sql, async (tx) => {
      if (rows.credits.length > 0) await tx`INSERT INTO tollgate.credits ${tx(rows.credits)}`
      if (rows.entries.length > 0) await tx`INSERT INTO tollgate.grant_entries ${tx(rows.entries)}`
    })
    await settleBalances(db)
    if (journal.closed_ms !== null)
      await sumHours(db.database.upkeep, () => false, Date.now() - FIRST_MS - journal.closed_ms)
  }
}

function creditRows({ credits, moves }: Journal, place: number) {
  const made = credits
    .filter((credit) => credit.shard === place)
    .map((credit) => {
      const { owner, at_ms, nano, kind, starts_in_ms, over } = credit
      const later_ms = nano > 0 ? starts_in_ms : null
      const id = crypto.randomUUID()
      const entry = { account_id: accountOf(owner), credit_id: id }
      const start_ms = at_ms + (later_ms ?? 0)
      const lost = nano > 0 && over !== null ? Math.floor((nano * over.share) / 10) : 0
      return {
        row: {
          ...{
            id,
            account_id: accountOf(owner),
            amount_nano: nano,
            kind,
            created_at: at(at_ms),
            moved_with: null,
          },
          effective_at: later_ms === null ? null : at(start_ms),
        },
        entries: [
          ...(later_ms === null
            ? []
            : [{ ...entry, change: "started", amount_nano: nano, at: at(start_ms) }]),
          { ...entry, change: "drawn", amount_nano: 1, at: at(start_ms) },
          ...(lost === 0
            ? []
            : [
                {
                  ...entry,
                  change: over?.as ?? "",
                  amount_nano: lost,
                  at: at(start_ms + (over?.in_ms ?? 0)),
                },
              ]),
        ],
      }
    })
  const moved = moves.map(({ owner, shard, at_ms, nano }) => {
    const left = shard === place
    return {
      ...{
        id: crypto.randomUUID(),
        account_id: accountOf(owner),
        amount_nano: left ? -nano : nano,
        effective_at: null,
      },
      ...{ kind: left ? "moved" : null, created_at: at(left ? at_ms : at_ms + 5) },
      moved_with: left ? null : crypto.randomUUID(),
    }
  })
  return {
    credits: [...made.map(({ row }) => row), ...moved],
    entries: made.flatMap(({ entries }) => entries),
  }
}

/** Every account in both shards, with the balance that its entries there make. */
async function settleBalances({ sql }: TestDatabase): Promise<void> {
  for (let number = 0; number < OWNERS; number++) {
    const id = accountOf(number)
    await sql`INSERT INTO tollgate.accounts (id, name, created_at, balance_nano) SELECT ${id}, 'a', ${at(0)},
      (SELECT coalesce(sum(amount_nano) FILTER (WHERE effective_at IS NULL), 0) FROM tollgate.credits WHERE account_id = ${id})
      + (SELECT coalesce(sum(CASE change WHEN 'started' THEN amount_nano WHEN 'drawn' THEN 0 ELSE -amount_nano END), 0)
        FROM tollgate.grant_entries WHERE account_id = ${id})
      - (SELECT coalesce(sum(charge_nano), 0) FROM tollgate.ends WHERE account_id = ${id})
      - (SELECT coalesce(sum(difference_nano), 0) FROM tollgate.corrections WHERE account_id = ${id})`
  }
}

function linesOf(statement: AccountStatement): Record<string, number> {
  const { credits, charges, expired_nano, voided_nano } = statement
  const lines = [
    ...credits.map(({ kind, amount_nano }) => [kind, Number(amount_nano)] as const),
    ...charges.map(({ model, charge_nano }) => [model, -Number(charge_nano)] as const),
    ["expired", -Number(expired_nano)] as const,
    ["voided", -Number(voided_nano)] as const,
  ]
  return Object.fromEntries(lines.filter(([, nano]) => nano !== 0))
}

function summed(changes: readonly Change[]): Record<string, number> {
  const lines: Record<string, number> = {}
  for (const { line, nano } of changes) lines[line] = (lines[line] ?? 0) + nano
  return Object.fromEntries(Object.entries(lines).filter(([, nano]) => nano !== 0))
}

const total = (changes: readonly Change[]) => changes.reduce((sum, { nano }) => sum + nano, 0)

async function expectStatements(journal: Journal, number: number): Promise<void> {
  const changes = changesOf(journal).filter(({ owner }) => owner === number)
  const [one = 0, other = 0] = journal.cuts.toSorted((left, right) => left - right)
  const bounds = [0, one, other, 5 * DAY_MS, 12 * DAY_MS].toSorted((left, right) => left - right)
  const own = openClientReports(shards.map(({ database }) => database))
  let before: bigint | null = null
  for (const [place, to_ms] of bounds.slice(1).entries()) {
    const span = { from: at(bounds[place] ?? 0), to: at(to_ms) }
    const parts = shards.map((db) => accountStatement(db.database.operators, accountOf(number), span))
    const statement = await addStatements(await Promise.all(parts))
    if (statement === null) throw new Error("the account is in both shards")
    // D104: the customer's is the same.
    expect(await own.statement(accountOf(number), span)).toEqual(statement)
    const within = changes.filter(({ at_ms }) => at(at_ms) >= span.from && at(at_ms) < span.to)
    expect(linesOf(statement)).toEqual(summed(within))
    expect(Number(statement.closing_nano)).toBe(total(changes.filter(({ at_ms }) => at(at_ms) < span.to)))
    expect(statement.opening_nano).toBe(before ?? 0n)
    before = statement.closing_nano
  }
}

async function expectTrialBalance(journal: Journal, at_ms: number): Promise<void> {
  const parts = shards.map((db) => trialBalance(db.database.operators, at(at_ms)))
  const found = await addTrialBalances(await Promise.all(parts))
  const past = changesOf(journal).filter((change) => change.at_ms < at_ms)
  const { positive_nano, negative_nano, charged_nano, expired_nano, voided_nano, credits } = found
  expect(Number(positive_nano + negative_nano)).toBe(total(past))
  const credited = credits.reduce((sum, { amount_nano }) => sum + amount_nano, 0n)
  expect(credited - charged_nano - expired_nano - voided_nano).toBe(positive_nano + negative_nano)
  const charged = total(past.filter(({ line }) => line === "small" || line === "large"))
  expect(Number(charged_nano)).toBe(0 - charged)
}

test(
  "D106 each statement adds up, line by line, and leads from one to the next; the trial balance too",
  async () => {
    await fc.assert(
      fc.asyncProperty(journals, async (journal) => {
        await plant(journal)
        for (let number = 0; number < OWNERS; number++) await expectStatements(journal, number)
        for (const cut of journal.cuts) await expectTrialBalance(journal, cut)
      }),
      { numRuns: RUNS, seed: 5 },
    )
  },
  60_000 + RUNS * 10_000,
)

test("D106 a statement that does not add up is an error, and no statement", async () => {
  const none = {
    credits: [],
    charges: [],
    expired_nano: 0n,
    voided_nano: 0n,
    opening_nano: 5n,
    closing_nano: 5n,
  }
  expect(await addStatements([none, null])).toMatchObject({ closing_nano: 5n })
  await expect(addStatements([{ ...none, closing_nano: 6n }])).rejects.toThrow("does not add up")
  expect(await addStatements([null, null])).toBeNull()
})
