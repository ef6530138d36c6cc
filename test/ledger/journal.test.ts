import { beforeAll, describe, expect, test } from "bun:test"
import { writeAttempts } from "../../src/ledger/queue/attempts.ts"
import type { Grouping } from "../../src/wire/usage-report.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  type Account,
  checkpointOf,
  falsify,
  holdOf,
  settled,
  testGateway,
  writeCheckpoints,
} from "./test-database.ts"

/** The journal: entries are added and never changed, not even to correct them (D13, D55). */

const DAY_MS = 86_400_000

const { db, connection, gateway_id, ask, endUnknown, expire } = await testGateway()

/** A hold of 100 that has expired by its checkpoint, and used 5, 4 and 3 tokens until then. */
async function expired(account: Account, charge_nano = 40n) {
  const hold = holdOf(account, 100n)
  await ask(hold)
  const usage = { prompt_tokens: 5, cached_tokens: 4, completion_tokens: 3 }
  await writeCheckpoints(
    connection,
    gateway_id,
    checkpointOf(hold.id, charge_nano, { basis: "partial", usage }),
  )
  await expire(hold)
  return hold
}

const settleLate = (id: string, charge_nano: bigint) => endUnknown(settled(id, charge_nano))

describe("D55 the database itself refuses to change entries", () => {
  const keys: Readonly<Record<string, string>> = {
    credits: "id",
    grant_entries: "id",
    terms: "id",
    labels: "id",
    holds: "id",
    ends: "id",
    corrections: "id",
    attempts: "id, ordinal",
    budget_entries: "id",
    customer_prices: "id",
    price_lists: "id",
    audits: "id",
    operator_changes: "id",
    operator_change_ends: "id",
    budget_crossings: "budget_id, member, since, percent",
  }
  const entries = Object.keys(keys)
  const changes: [change: string, of: (table: string) => string][] = [
    ["UPDATE", (table) => `UPDATE tollgate.${table} SET ${same(table)}`],
    ["UPDATE of no row", (table) => `UPDATE tollgate.${table} SET ${same(table)} WHERE false`],
    ["DELETE", (table) => `DELETE FROM tollgate.${table}`],
    ["DELETE of no row", (table) => `DELETE FROM tollgate.${table} WHERE false`],
    ["TRUNCATE", (table) => `TRUNCATE tollgate.${table}`],
    ["TRUNCATE of all", () => `TRUNCATE ${entries.map((table) => `tollgate.${table}`).join(", ")}`],
    [
      "INSERT that becomes an UPDATE",
      (table) => `INSERT INTO tollgate.${table} OVERRIDING SYSTEM VALUE SELECT * FROM tollgate.${table}
        ON CONFLICT (${primaryKeyOf(table)}) DO UPDATE SET ${same(table)}`,
    ],
  ]
  function primaryKeyOf(table: string): string {
    return keys[table] ?? "id"
  }
  function same(table: string): string {
    const others: Readonly<Record<string, string>> = {
      terms: "model",
      price_lists: "name",
      audits: "actor",
      operator_changes: "actor",
      operator_change_ends: "status",
    }
    const column = others[table] ?? "account_id"
    return `${column} = ${table}.${column}`
  }
  const rows = entries.flatMap((table) => changes.map(([change, of]) => [table, change, of(table)] as const))

  beforeAll(async () => {
    const { id, account_id } = await expired(await db.account(1_000n))
    await settleLate(id, 70n)
    await db.sql`INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano)
      VALUES (${crypto.randomUUID()}, ${crypto.randomUUID()}, 'drawn', 1)`
    await db.sql`INSERT INTO tollgate.budget_entries (id, budget_id, account_id, change, settings, actor)
      VALUES (${id}, ${id}, ${account_id}, 'reset', '{}', 'operator')`
    await db.sql`INSERT INTO tollgate.customer_prices (id, account_id, price_multiplier_bp, from_at, actor, made_at)
      VALUES (${id}, ${account_id}, 9000, now(), 'api', now())`
    await db.sql`INSERT INTO tollgate.price_lists (id, list_id, version, name, prices, actor, made_at)
      VALUES (${id}, ${id}, 1, 'list', '[]', 'api', now())`
    await db.sql`INSERT INTO tollgate.budget_crossings (budget_id, member, since, percent, account_id, spent, amount)
      VALUES (${id}, '', now(), 80, ${account_id}, 80, 100)`
    await db.sql`INSERT INTO tollgate.operator_changes (id, actor, role, method, route) VALUES (${id}, 'Ann', 'admin', 'POST', '/')`
    await db.sql`INSERT INTO tollgate.audits VALUES (${id}, 'Ann', false, now(), now(), 1, 0, 0, 'x', now())`
    await db.sql`INSERT INTO tollgate.operator_change_ends (id, status) VALUES (${id}, 200)`
    await db.sql`INSERT INTO tollgate.labels (id, account_id, tags) VALUES (1, ${crypto.randomUUID()}, '{}')`
    const attempt = {
      id,
      account_id,
      ordinal: 0,
      upstream: "first",
      status: 503,
      ms: 1,
      ended_at: "2026-11-26",
    }
    expect(await writeAttempts(connection, [attempt])).toEqual([true])
  })

  test.each(rows)("%s: %s", async (table, _, text) => {
    const all = () => db.sql.unsafe(`SELECT *, xmin FROM tollgate.${table} ORDER BY ${primaryKeyOf(table)}`)
    const before = await all()
    expect(before.length).toBeGreaterThan(0)
    const refused = await db.sql.unsafe(text).catch((error: unknown) => error)
    expect(refused).toMatchObject({
      code: "23001",
      message: expect.stringMatching(/^entries of tollgate\.\w+ are added and never changed$/),
    })
    expect([...(await all())]).toEqual([...before])
  })

  test("of every table that is made of entries, and of no other", async () => {
    const guarded = await db.sql`SELECT DISTINCT event_object_table AS name FROM (
        SELECT c.relname AS event_object_table FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE t.tgname = 'entries_stay' AND t.tgenabled = 'O' AND NOT c.relispartition) x ORDER BY 1`
    const seals = ["seals", "seal_hours", "seal_sums"]
    expect(guarded.map(({ name }) => name)).toEqual([...entries, ...seals].toSorted())
  })
})

describe("D13 a settlement that comes after expiry", () => {
  const rowOf = async (table: string, id: string) =>
    (await db.sql.unsafe(`SELECT *, xmin, ctid FROM tollgate.${table} WHERE id = '${id}'`))[0]

  test("adds a correction, and changes neither the hold nor its end", async () => {
    const account = await db.account(1_000n)
    const { id } = await expired(account)
    const before = [await rowOf("holds", id), await rowOf("ends", id)]
    expect(await settleLate(id, 70n)).toEqual(["applied"])
    expect(await settleLate(id, 71n)).toEqual(["closed"])
    expect([await rowOf("holds", id), await rowOf("ends", id)]).toEqual(before)
    expect(before[1]).toMatchObject({ outcome: "expired", charge_nano: "40", freed_nano: "100" })
    expect(await rowOf("corrections", id)).toMatchObject({
      ...account,
      charge_nano: "70",
      difference_nano: "30",
      basis: "usage",
      ending: "completed",
      failure: null,
      notes: ["settled_late"],
      prompt_tokens: 3,
      ttft_ms: 12,
      duration_ms: 34,
      terms_id: 2,
      corrected_at: expect.any(Date),
    })
  })

  test("D48 expiry and correction count each on its own day, and the day that is over does not change", async () => {
    const account = await db.account(1_000n)
    const { account_id } = account
    const { id } = await expired(account, 140n)
    const today = await dayOf("now()")
    const yesterday = new Date(today.getTime() - DAY_MS)
    await falsify(db.sql, async (tx) => {
      await tx`UPDATE tollgate.holds SET held_at = held_at - interval '1 day' WHERE id = ${id}`
      await tx`UPDATE tollgate.ends SET ended_at = ended_at - interval '1 day' WHERE id = ${id}`
    })
    const sums = (from: Date, to: Date, by: Grouping = "day") =>
      sumUsage(db.database.sums, { from, to, by, account_ids: [account_id] })
    const over = [await sums(yesterday, today), await sums(yesterday, today, "model")] as const
    expect(over[0].total).toMatchObject({
      calls: 1,
      charge_nano: 140n,
      prompt_tokens: 5,
      completion_tokens: 3,
    })

    await settleLate(id, 170n)
    expect([await sums(yesterday, today), await sums(yesterday, today, "model")]).toEqual([...over])
    const { groups, total } = await sums(yesterday, new Date(today.getTime() + DAY_MS))
    const differences = { prompt_tokens: -2, cached_tokens: -3, completion_tokens: -1 }
    expect(groups).toMatchObject([
      { values: [yesterday], calls: 1, charge_nano: 140n, overage_nano: 40n, cached_tokens: 4 },
      { values: [today], calls: 0, charge_nano: 30n, overage_nano: 30n, ...differences },
    ])
    // As the receipt says it.
    expect(total).toMatchObject({
      calls: 1,
      charge_nano: 170n,
      overage_nano: 70n,
      ...{ prompt_tokens: 3, cached_tokens: 1, completion_tokens: 2 },
    })
  })

  async function dayOf(moment: string): Promise<Date> {
    const [row] = await db.sql.unsafe(`SELECT date_trunc('day', ${moment}, 'UTC') AS day`)
    if (!(row?.day instanceof Date)) throw new Error("no day")
    return row.day
  }
})
