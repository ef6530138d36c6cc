import { describe, expect, test } from "bun:test"
import { floorId } from "../../src/id.ts"
import { addMonths, JOURNAL_TABLES } from "../../src/ledger/archive/months.ts"
import type { Statement } from "../../src/ledger/database/statement.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import {
  type EndOfHold,
  endBatch,
  endLean,
  endLimited,
  endOne,
  leanValues,
  oneValues,
} from "../../src/ledger/money/end.ts"
import { endExact } from "../../src/ledger/money/end-exact.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { holdExactly } from "../../src/ledger/money/hold-exact.ts"
import { thrown } from "../support/thrown.ts"
import {
  call,
  failureOf,
  holdOf,
  insertHold,
  lockWaiters,
  openTransaction,
  recording,
  settled,
  testGateway,
} from "./test-database.ts"

/** D71: the journal by months. */

const { db, connection, gateway_id, ask, end } = await testGateway()
const account = await db.account(1_000_000n)
await addMonths(db.database.upkeep)

/** The month that is `ahead` of the present one, as its first day. */
function monthAt(ahead: number): Date {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1))
}
const suffixOf = (month: Date) => month.toISOString().slice(0, 7).replace("-", "_")

async function partitionsOf(table: string): Promise<string[]> {
  const rows =
    await db.sql`SELECT 'tollgate.' || (SELECT relname FROM pg_class WHERE oid = relid) AS name FROM pg_partition_tree(${`tollgate.${table}`}::regclass)
    WHERE isleaf ORDER BY 1`
  return rows.map(({ name }) => String(name))
}

/** An end of the hold that charges 40 nano-USD. */
const endOf = (hold: Hold) => ({ end: settled(hold.id, 40n), hold })

/** Another id of the next month. */
const nextMonthId = () => `${floorId(monthAt(1)).slice(0, 13)}${crypto.randomUUID().slice(13)}`

describe("D71: partitions of months", () => {
  test("are there for this month and the next two, however many make them", async () => {
    await Promise.all([addMonths(db.database.upkeep), addMonths(db.database.operators)])
    for (const table of JOURNAL_TABLES)
      expect(await partitionsOf(table)).toEqual(
        [0, 1, 2].map((at) => `tollgate.${table}_${suffixOf(monthAt(at))}`),
      )
    const rows = await db.sql`SELECT month::text, from_id, to_id FROM tollgate.months ORDER BY month`
    expect([...rows]).toEqual(
      [0, 1, 2].map((at) => ({
        month: monthAt(at).toISOString().slice(0, 10),
        from_id: at === 0 ? null : floorId(monthAt(at)),
        to_id: floorId(monthAt(at + 1)),
      })),
    )
  })

  test("get a call by its id, and its end with it: to the last millisecond of a month and from the first of the next", async () => {
    const next_ms = monthAt(1).getTime()
    for (const [at_ms, month] of [
      [next_ms - 1, monthAt(0)],
      [next_ms, monthAt(1)],
    ] as const) {
      const hold = holdOf(account, 100n, {
        id: `${floorId(new Date(at_ms)).slice(0, 14)}7fff-8000-000000000001`,
      })
      expect(await ask(hold)).toEqual([{ outcome: "held" }])
      expect(await end(settled(hold.id, 40n))).toEqual(["applied"])
      for (const table of ["holds", "ends"]) {
        const [row] =
          await db.sql`SELECT 'tollgate.' || (SELECT relname FROM pg_class c WHERE c.oid = x.tableoid) AS name FROM ${db.sql(`tollgate.${table}`)} x WHERE id = ${hold.id}`
        expect(row?.name).toBe(`tollgate.${table}_${suffixOf(month)}`)
      }
      expect(await call(db.sql, hold.id)).toMatchObject({ state: "settled", charge_nano: "40" })
    }
  })

  test.each(JOURNAL_TABLES)("refuse changes of %s that name the partition", async (table) => {
    for (const partition of await partitionsOf(table)) {
      for (const change of [
        `DELETE FROM ${partition}`,
        `TRUNCATE ${partition}`,
        `UPDATE ${partition} SET id = id`,
      ])
        expect(String(await thrown(db.sql.unsafe(change).execute()))).toContain("added and never changed")
    }
  })

  test.each([
    ["a call", endOne, (hold: Hold) => oneValues(endOf(hold).end, 300)],
    ["calls", endLean, (hold: Hold) => leanValues([endOf(hold)], 300)],
  ])("are not opened to end %s of another month, by a plan that is kept", async (_, statement, valuesOf) => {
    const values: readonly (string | null)[] = valuesOf(holdOf(account, 100n, { id: floorId(monthAt(1)) }))
    const written = values.map((value) => (value === null ? "NULL" : `'${value}'`)).join(", ")
    const plan = await db.sql.begin(async (tx) => {
      await tx`SET LOCAL plan_cache_mode = force_generic_plan`
      await tx.unsafe(`PREPARE one AS ${statement.text}`)
      const rows = await tx.unsafe(`EXPLAIN EXECUTE one (${written})`)
      await tx`DEALLOCATE one`
      return rows.map((row) => row["QUERY PLAN"]).join("\n")
    })
    expect(plan).toContain("Subplans Removed: 2")
    expect(plan).not.toContain(`holds_${suffixOf(monthAt(0))}`)
  })

  /** When a row that a statement waited for has changed, PostgreSQL runs parts of the plan again (see `isItem`). */
  test.each<[what: string, expected: Statement, of: (ends: readonly EndOfHold[]) => readonly EndOfHold[]]>([
    ["a call", endOne, (ends) => ends.slice(0, 1)],
    ["calls of one account", endLean, (ends) => ends.slice(0, 2)],
    ["calls of two accounts", endLean, (ends) => ends.slice(1)],
    ["calls of a limited account", endLimited, (ends) => ends.slice(0, 2)],
    ["a call, by the exact statement", endExact, ([end]) => (end ? [{ ...end, hold: null }] : [])],
  ])("are found for %s when another transaction changes the account meanwhile", async (_, expected, of) => {
    const [account, other] = [await db.account(1_000n), await db.account(1_000n)]
    if (expected === endLimited)
      await db.sql`UPDATE tollgate.accounts SET is_limited = true WHERE id = ${account.account_id}`
    const holds = [account, account, other].map((payer) =>
      holdOf(payer, 100n, { id: nextMonthId(), is_limited: expected === endLimited }),
    )
    await holdBatch(connection, gateway_id, holds, 3_000)
    const { runner, asked } = recording(connection)
    const items = of(holds.map(endOf))
    const ending = await db.sql.begin(async (tx) => {
      await tx`UPDATE tollgate.accounts SET name = name WHERE id = ${account.account_id}`
      const ending = endBatch(runner, items, 3_000)
      await lockWaiters(db.sql, 1)
      return { ending }
    })
    expect(await ending.ending).toEqual(items.map(() => "applied"))
    expect(asked).toEqual([expected])
  })

  test("are found for a hold that is asked for twice when its account is changed meanwhile", async () => {
    const made = holdOf(account, 100n, { id: nextMonthId() })
    await holdBatch(connection, gateway_id, [made], 3_000)
    const asked = [made, holdOf(account, 100n)]
    const { holding } = await db.sql.begin(async (tx) => {
      await tx`UPDATE tollgate.accounts SET name = name WHERE id = ${account.account_id}`
      const holding = holdExactly(connection, gateway_id, asked, 3_000, 3_000)
      await lockWaiters(db.sql, 1)
      return { holding }
    })
    expect(await holding).toEqual(asked.map(() => ({ outcome: "held" })))
  })

  test("a batch may have calls of several", async () => {
    const holds = [0, 1, 2].map((at) =>
      holdOf(account, 100n, { id: `${floorId(monthAt(at)).slice(0, -1)}7` }),
    )
    expect(await ask(...holds)).toEqual(holds.map(() => ({ outcome: "held" })))
    const ends = holds.toReversed().map(({ id }) => settled(id, 40n))
    expect(await end(...ends)).toEqual(holds.map(() => "applied"))
    for (const { id } of holds)
      expect(await call(db.sql, id)).toMatchObject({ state: "settled", charge_nano: "40" })
  })

  test("an id beyond all months is refused, and no money moves", async () => {
    const before =
      await db.sql`SELECT balance_nano, held_nano FROM tollgate.accounts WHERE id = ${account.account_id}`
    const hold = holdOf(account, 100n, { id: floorId(monthAt(40)) })
    expect(await failureOf(ask(hold))).toBe("PostgresError")
    const after =
      await db.sql`SELECT balance_nano, held_nano FROM tollgate.accounts WHERE id = ${account.account_id}`
    expect([...after]).toEqual([...before])
  })

  test("are added while a call is being written, which does not wait either", async () => {
    const writing = await openTransaction(db.sql, (tx) => insertHold(tx, holdOf(account, 0n), gateway_id))
    await addMonths(db.database.upkeep, 3)
    expect(await partitionsOf("holds")).toHaveLength(4)
    await writing.commit()
  })
})

test("D71: the tables of a ledger without months become its first one, entries, indexes and all", async () => {
  const [row] = await db.sql`SELECT pg_get_expr(relpartbound, oid) AS bound FROM pg_class
    WHERE oid = ${`tollgate.holds_${suffixOf(monthAt(0))}`}::regclass`
  expect(row?.bound).toBe(`FOR VALUES FROM (MINVALUE) TO ('${floorId(monthAt(1))}')`)
  const names = async (table: string) => {
    const rows =
      await db.sql`SELECT pg_get_indexdef(indexrelid) AS made FROM pg_index WHERE indrelid = ${`tollgate.${table}`}::regclass`
    return rows.map(({ made }) => String(made).replace(/.* USING /, "")).sort()
  }
  for (const table of JOURNAL_TABLES) {
    const whole = await names(table)
    for (const at of [0, 1, 2]) expect(await names(`${table}_${suffixOf(monthAt(at))}`)).toEqual(whole)
  }
})
