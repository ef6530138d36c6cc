import { and, desc, eq, isNull, type SQL, sql } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"
import { type Page, type PageOf, paged } from "../database/page.ts"
import type { Db } from "../database/statement.ts"
import { budget_crossings, budget_entries, budgets } from "../schema/budgets.ts"
import { accounts } from "../schema/tables.ts"
import { crossingId } from "./feed-entries.ts"
import { crossingFields, type FeedEvent } from "./feed-events.ts"

export interface BudgetLogEvent {
  /** Its place in the log: its time in microseconds, and the id of its entry. */
  readonly id: string
  readonly at: Date
  readonly event: Extract<FeedEvent, { readonly entry: unknown } | { readonly crossing: unknown }>
}

const UUID_LENGTH = 36

/** Changes and reached thresholds of a budget, newest first (D97). Null if unknown or in another shard. */
export async function listBudgetLog(
  database: Db,
  budget_id: string,
  page: Page,
): Promise<PageOf<BudgetLogEvent> | null> {
  // Entries have no index by budget, so a budget that exists names its account itself.
  const owner = sql`(SELECT account_id FROM ${budgets} WHERE id = ${budget_id}::uuid
    UNION ALL SELECT account_id FROM ${budget_entries} WHERE budget_id = ${budget_id}::uuid LIMIT 1)`
  const [account] = await database
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(eq(accounts.id, owner), isNull(accounts.moved_to)))
  if (account === undefined) return null
  const account_id = account.id
  const [entries, crossings] = await Promise.all([
    database
      .select({ id: placeAt(budget_entries.made_at, budget_entries.id), entry: budget_entries })
      .from(budget_entries)
      .where(
        and(
          eq(budget_entries.account_id, account_id),
          eq(budget_entries.budget_id, budget_id),
          isBefore(page, budget_entries.made_at, budget_entries.id),
        ),
      )
      .orderBy(desc(budget_entries.made_at), desc(budget_entries.id))
      .limit(page.limit + 1),
    database
      .select({ id: placeAt(budget_crossings.crossed_at, crossing_id), crossing: crossingFields })
      .from(budget_crossings)
      .where(
        and(
          eq(budget_crossings.account_id, account_id),
          eq(budget_crossings.budget_id, budget_id),
          isBefore(page, budget_crossings.crossed_at, crossing_id),
        ),
      )
      .orderBy(desc(budget_crossings.crossed_at), desc(crossing_id))
      .limit(page.limit + 1),
  ])
  const rows: BudgetLogEvent[] = [
    ...entries.map(({ id, entry }) => ({
      id,
      at: entry.made_at,
      event: { type: `tollgate.budget.${entry.change}` as const, entry, account_id },
    })),
    ...crossings.map(({ id, crossing }) => ({
      id,
      at: crossing.crossed_at,
      event: { type: "tollgate.budget.threshold_reached" as const, crossing, account_id },
    })),
  ]
  return paged(
    rows.sort((one, other) => (one.id < other.id ? 1 : -1)),
    page,
  )
}

const crossing_id = crossingId("budget_crossings")

function placeAt(time: PgColumn, id: PgColumn | SQL) {
  return sql<string>`(extract(epoch FROM ${time}) * 1000000)::bigint || '-' || ${id}::text`
}

function isBefore({ after }: Page, time: PgColumn, id: PgColumn | SQL): SQL | undefined {
  if (after === null) return undefined
  const [microseconds, last_id] = [after.slice(0, -UUID_LENGTH - 1), after.slice(-UUID_LENGTH)]
  return sql`(${time}, ${id}) < (timestamptz 'epoch' + ${microseconds}::text::bigint * interval '1 microsecond', ${last_id}::uuid)`
}
