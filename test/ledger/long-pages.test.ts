import { expect, test } from "bun:test"
import { drizzle } from "drizzle-orm/postgres-js"
import { connect } from "../../src/ledger/database/address.ts"
import type { Db } from "../../src/ledger/database/statement.ts"
import { readFeed } from "../../src/ledger/feed/feed.ts"
import { listCalls } from "../../src/ledger/reports/calls.ts"
import { type GroupSums, MAX_ALL_GROUPS, readUsage } from "../../src/ledger/reports/usage-sums.ts"
import { plantCalls } from "../admin/admin-harness.ts"
import { feedReaches } from "../support/horizon.ts"
import { numberedId, testDatabase } from "./test-database.ts"

/** D113: rows come from the database in parts, between which the event loop has turns. */

const CALLS = 1_200
const MADE_MS = Date.parse("2026-11-20T10:00:00Z")
const at = new Date(MADE_MS)

const db = await testDatabase()
const { account_id, key_id } = await db.account(0n)
const ids = Array.from({ length: CALLS }, (_, number) => numberedId(MADE_MS, number))
/** Postgres sorts these by their bytes, JavaScript by other numbers. */
const sessions = ids.map((_, number) => `${number % 2 === 0 ? "\u{1f418}" : "\uffe5"} ${CALLS - number}`)
await plantCalls(
  db.database.operators,
  ids.map((id, number) => ({
    id,
    account_id,
    key_id,
    session_id: sessions[number] ?? "",
    charge_nano: BigInt(number),
    state: "settled",
    held_at: at,
    ended_at: at,
  })),
)

/** The parameters of each statement of `ask`. */
async function parametersOf(ask: (database: Db) => Promise<unknown>): Promise<unknown[][]> {
  const all: unknown[][] = []
  const client = connect(db.address, { max: 1 })
  await ask(drizzle(client, { logger: { logQuery: (_, parameters) => void all.push(parameters) } }))
  await client.end()
  return all
}

test("D113 a usage report takes 1,000 groups at a time, all of them by their values", async () => {
  const span = { from: at, to: new Date(MADE_MS + 1), by: "session" } as const
  const pages: number[] = []
  const seen: unknown[] = []
  const take = async (groups: readonly GroupSums[]) => {
    pages.push(groups.length)
    seen.push(...groups.map(({ values: [session] }) => session))
  }
  const totals = await readUsage(db.database.sums, span, MAX_ALL_GROUPS, take)
  expect([pages, totals.left_out, totals.total.calls]).toEqual([[999, CALLS - 999], 0, CALLS])
  const bytes = (text: string) => Buffer.from(text)
  expect(seen).toEqual(sessions.toSorted((one, other) => Buffer.compare(bytes(one), bytes(other))))
  expect(seen).not.toEqual(sessions.toSorted())
})

test("D113 a long page of calls is read in parts, and has each call once", async () => {
  const found: string[] = []
  const all = await parametersOf(async (database) => {
    for (let after: string | null | undefined; after !== null; ) {
      const page = await listCalls(database, { account_id }, { limit: 1_000, after: after ?? null })
      found.push(...page.data.map(({ id }) => id))
      after = page.next
    }
  })
  expect(found).toEqual(ids.toReversed())
  const limits = all.map((parameters) => Number(parameters.at(-1))).filter((limit) => limit <= CALLS)
  expect(Math.max(...limits)).toBe(251)
})

test("D113 a page of calls looks at as many as before, however many parts it has", async () => {
  const { data, next } = await listCalls(
    db.database.sums,
    { model: "none" },
    { limit: 1_000, after: null },
    400,
  )
  expect([data.length, next]).toEqual([0, ids[CALLS - 400] ?? ""])
})

test("D113 long pages of events are read in parts", async () => {
  const query = { after: null, from: null, types: ["tollgate.call.ended"], limit: 1_000 } as const
  await feedReaches(db.database.operators)
  const all = await parametersOf(async (database) => {
    const { events } = await readFeed(database, "main", query)
    expect(events.map(({ event }) => "call" in event && event.call.id)).toEqual(ids.slice(0, 1_000))
  })
  expect(Math.max(...all.map(({ length }) => length))).toBe(250)
})
