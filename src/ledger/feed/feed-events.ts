import { eq, getTableColumns, inArray, type SQL, sql } from "drizzle-orm"
import { type AlertType, alertEvents } from "../../wire/alerts.ts"
import type { BudgetSettings } from "../../wire/budget.ts"
import type { AttemptFailure } from "../../wire/call.ts"
import { budgetEvents, type EventType, grantEvents } from "../../wire/events.ts"
import type { Credit } from "../accounts/credits.ts"
import { type ChangeRecord, changesWith } from "../accounts/operator-log.ts"
import { arrayOf, type Db } from "../database/statement.ts"
import { failureOf } from "../reports/attempts.ts"
import { type CallRecord, withListTerms } from "../reports/calls.ts"
import { alerts } from "../schema/alerts.ts"
import { attempts } from "../schema/attempts.ts"
import { budget_crossings, budget_entries } from "../schema/budgets.ts"
import { grant_entries } from "../schema/grants.ts"
import { end_users } from "../schema/labels.ts"
import { accounts, calls, corrections, credits, ends, terms } from "../schema/tables.ts"
import { attemptId, crossingId, type Entry } from "./feed-entries.ts"

/** The events of entries of the journal (D96). */

type EventContent =
  | { readonly type: "tollgate.call.ended"; readonly call: CallRecord }
  | { readonly type: "tollgate.call.corrected"; readonly call: CallRecord; readonly difference_nano: bigint }
  | { readonly type: "tollgate.attempt.failed"; readonly attempt: AttemptOfEvent }
  | { readonly type: "tollgate.credit.added"; readonly credit: Credit }
  | { readonly type: (typeof grantEvents)[number]; readonly change: typeof grant_entries.$inferSelect }
  | { readonly type: (typeof budgetEvents)[number]; readonly entry: typeof budget_entries.$inferSelect }
  | { readonly type: "tollgate.budget.threshold_reached"; readonly crossing: Crossing }
  | { readonly type: AlertType; readonly alert: typeof alerts.$inferSelect }
  | { readonly type: "tollgate.end_user.forgotten"; readonly end_user_id: string }
  | { readonly type: "tollgate.operator.changed"; readonly changed: ChangeRecord }

/** Without an account for an alert about an upstream and a change by an operator. */
export type FeedEvent = EventContent & { readonly account_id: string | null }

interface AttemptOfEvent extends Omit<typeof attempts.$inferSelect, "failure"> {
  readonly failure: AttemptFailure | null
}

/** A threshold that a budget reached, with the budget as it was then. */
interface Crossing extends Omit<typeof budget_crossings.$inferSelect, "xid"> {
  readonly settings: BudgetSettings
}

export const keyOf = ({ type, id }: Pick<Entry, "type" | "id">) => `${type} ${id}`

/** The events of entries, by type and id. A call of an event that was corrected since is as it was at its end. */
export async function recordsOf(
  database: Db,
  entries: readonly Entry[],
): Promise<ReadonlyMap<string, FeedEvent>> {
  const of_type = Map.groupBy(entries, ({ type }) => type)
  const of = (...types: readonly EventType[]) => types.flatMap((type) => of_type.get(type) ?? [])
  const idsOf = (...types: readonly EventType[]) => of(...types).map(({ id }) => id)
  const records = new Map<string, FeedEvent>()
  const add = (id: string, account_id: string | null, content: EventContent) =>
    records.set(keyOf({ type: content.type, id }), { ...content, account_id })
  /** Adds the event of each row that is found for some entries; reads nothing where there are none. */
  const addEach = async <Item, Row extends { readonly id: string; readonly account_id?: string | null }>(
    items: readonly Item[],
    read: (items: Item[]) => PromiseLike<readonly Row[]>,
    contentOf: (row: Row) => EventContent,
  ) => {
    if (items.length === 0) return
    for (const row of await read([...items])) add(row.id, row.account_id ?? null, contentOf(row))
  }
  await Promise.all([
    addCalls(database, idsOf("tollgate.call.ended"), idsOf("tollgate.call.corrected"), add),
    addEach(
      idsOf("tollgate.credit.added"),
      (ids) => database.select().from(credits).where(inArray(credits.id, ids)),
      (credit) => ({ type: "tollgate.credit.added", credit }),
    ),
    addEach(
      idsOf(...grantEvents),
      (ids) => database.select().from(grant_entries).where(inArray(grant_entries.id, ids)),
      (change) => ({ type: `tollgate.credit.${change.change}`, change }),
    ),
    addEach(
      idsOf(...budgetEvents),
      (ids) => database.select().from(budget_entries).where(inArray(budget_entries.id, ids)),
      (entry) => ({ type: `tollgate.budget.${entry.change}`, entry }),
    ),
    addEach(
      of("tollgate.budget.threshold_reached"),
      (entries) =>
        database
          .select({ ...crossingFields, id: sql<string>`${crossingId("budget_crossings")}` })
          .from(budget_crossings)
          .where(writtenBy(sql.raw("budget_crossings"), entries)),
      ({ id: _, ...crossing }) => ({ type: "tollgate.budget.threshold_reached", crossing }),
    ),
    addEach(
      of("tollgate.attempt.failed"),
      (entries) =>
        database
          .select({
            ...getTableColumns(attempts),
            call_id: attempts.id,
            id: sql<string>`${attemptId("attempts")}`,
          })
          .from(attempts)
          .where(writtenBy(sql.raw("attempts"), entries)),
      ({ call_id: id, failure, ...attempt }) => ({
        type: "tollgate.attempt.failed",
        attempt: { ...attempt, id, failure: failureOf(failure) },
      }),
    ),
    addEach(
      idsOf(...alertEvents),
      (ids) => database.select().from(alerts).where(inArray(alerts.id, ids)),
      (alert) => ({ type: alert.type, alert }),
    ),
    addEach(
      idsOf("tollgate.operator.changed"),
      (ids) => changesWith(database, ids),
      ({ id: _, ...changed }) => ({ type: "tollgate.operator.changed", changed }),
    ),
    addEach(
      idsOf("tollgate.end_user.forgotten"),
      (ids) =>
        database
          .select({ id: end_users.id, account_id: end_users.account_id })
          .from(end_users)
          .where(inArray(end_users.id, ids)),
      ({ id }) => ({ type: "tollgate.end_user.forgotten", end_user_id: id }),
    ),
  ])
  return records
}

type Add = (id: string, account_id: string | null, content: EventContent) => void

async function addCalls(
  database: Db,
  ended_ids: readonly string[],
  corrected_ids: readonly string[],
  add: Add,
): Promise<void> {
  const [found, ended, corrected] = await Promise.all([
    callsOf(database, [...ended_ids, ...corrected_ids]),
    correctedEnds(database, ended_ids),
    differences(database, corrected_ids),
  ])
  const at_end = [...found.values()].map((call) => ({ ...call, ...ended.get(call.id) }))
  for (const call of await withListTerms(database, at_end))
    add(call.id, call.account_id, { type: "tollgate.call.ended", call })
  for (const call of await withListTerms(database, [...found.values()])) {
    const difference_nano = corrected.get(call.id)
    if (difference_nano !== undefined)
      add(call.id, call.account_id, { type: "tollgate.call.corrected", call, difference_nano })
  }
}

async function callsOf(database: Db, ids: readonly string[]) {
  if (ids.length === 0) return new Map()
  const seen = sql`unnest(${sql.param(arrayOf(ids, (id) => id))}::text::uuid[]) AS seen (id)`
  // Without a limit the planner would join all ends and corrections there are.
  const call = database.select().from(calls).where(eq(calls.id, sql`seen.id`)).limit(1).as("call")
  const rows = await database.select({ call: call._.selectedFields }).from(seen).crossJoinLateral(call)
  return new Map(rows.map(({ call }) => [call.id, call]))
}

/** The fields of calls that their corrections have changed, as they were at the end. */
async function correctedEnds(database: Db, ids: readonly string[]) {
  if (ids.length === 0) return new Map<string, Partial<CallRecord>>()
  const rows = await database
    .select({ end: ends, terms })
    .from(corrections)
    .innerJoin(ends, eq(ends.id, corrections.id))
    .innerJoin(terms, eq(terms.id, ends.terms_id))
    .where(inArray(corrections.id, [...ids]))
  return new Map(
    rows.map(({ end, terms }): [string, Partial<CallRecord>] => [
      end.id,
      { ...terms, ...end, state: end.outcome, notes: end.notes ?? [] },
    ]),
  )
}

async function differences(database: Db, ids: readonly string[]) {
  if (ids.length === 0) return new Map<string, bigint>()
  const { id, difference_nano } = getTableColumns(corrections)
  const rows = await database
    .select({ id, difference_nano })
    .from(corrections)
    .where(inArray(id, [...ids]))
  return new Map(rows.map((row) => [row.id, row.difference_nano]))
}

/** Entries whose ids are derived are found by their transactions. */
const writtenBy = (table: SQL, entries: readonly Entry[]) =>
  sql`${table}.xid = ANY (${arrayOf([...new Set(entries.map(({ xid }) => xid))], (xid) => xid)}::text::xid8[])`

const { xid: _, ...crossing_columns } = getTableColumns(budget_crossings)
/** Selects a `Crossing`: the settings are those of the last change before; of the first, if the crossing's transaction began before it. */
export const crossingFields = {
  ...crossing_columns,
  settings: sql<BudgetSettings>`(SELECT n.settings FROM ${budget_entries} n
    WHERE n.account_id = ${budget_crossings.account_id} AND n.budget_id = ${budget_crossings.budget_id}
    ORDER BY n.made_at > ${budget_crossings.crossed_at}, abs(extract(epoch FROM n.made_at - ${budget_crossings.crossed_at})) LIMIT 1)`,
}

/** The external ids of the accounts of events, by their ids: those that they have now. */
export async function subjectsOf(
  database: Db,
  events: readonly FeedEvent[],
): Promise<ReadonlyMap<string, string>> {
  if (events.length === 0) return new Map()
  const ids = [...new Set(events.flatMap(({ account_id }) => account_id ?? []))]
  const rows = await database
    .select({ id: accounts.id, external_id: accounts.external_id })
    .from(accounts)
    .where(inArray(accounts.id, ids))
  return new Map(rows.map(({ id, external_id }) => [id, external_id ?? id]))
}
