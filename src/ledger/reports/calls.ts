import { and, desc, eq, gte, inArray, isNull, lt, type SQL, sql } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"
import { floorId, NIL_ID, parseId } from "../../id.ts"
import type { CallState, Failure, LostAttempt, OperationName, Tags } from "../../wire/call.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import type { Db } from "../database/statement.ts"
import { end_users, labels } from "../schema/labels.ts"
import { calls, gateways, holds, keys, terms } from "../schema/tables.ts"
import { withAttempts } from "./attempts.ts"
import { termsOf } from "./changes.ts"

/** Holds that one page reads, in some tenths of a second, however rare the matching calls are. */
const LOOK = 100_000
/** Calls of a page that are read in one turn of the event loop. */
const CALLS_AT_ONCE = 250

/** One call as the ledger has it: its hold, its end and its correction. */
export type CallRecord = typeof calls.$inferSelect & {
  /** Attempts that did not become the answer (D93); absent where they were not read, as for clients. */
  readonly attempts?: readonly LostAttempt[]
  /** The terms of the configuration in whose place those of a customer price are (D100); absent for others, and for clients. */
  readonly list_terms?: typeof terms.$inferSelect
}

/** Adds to calls at customer prices the terms of the configuration. */
export async function withListTerms<Found extends Pick<CallRecord, "list_terms_id">>(
  database: Db,
  found: readonly Found[],
): Promise<(Found & Pick<CallRecord, "list_terms">)[]> {
  const ids = new Set(found.flatMap(({ list_terms_id }) => list_terms_id ?? []))
  if (ids.size === 0) return [...found]
  const rows = await database
    .select()
    .from(terms)
    .where(inArray(terms.id, [...ids]))
  const by_id = new Map(rows.map((row) => [row.id, row]))
  return found.map((call) => {
    const list_terms = by_id.get(call.list_terms_id ?? 0)
    return list_terms === undefined ? call : { ...call, list_terms }
  })
}

/** An absent field does not filter. `from` is inclusive, `to` exclusive, by the time in the id (D48). */
export interface CallFilter {
  readonly account_id?: string | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
  readonly operation?: OperationName | undefined
  readonly session?: string | undefined
  /** Only calls that have all of these (D94). */
  readonly tags?: Tags | undefined
  /** Names or ids of end users, any of which will do (D94). */
  readonly end_users?: readonly string[] | undefined
  readonly state?: CallState | undefined
  readonly failure?: Failure | undefined
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

export async function getCall(database: Db, id: string): Promise<CallRecord | null> {
  const [call] = await withAttempts(database, await withListTerms(database, await find(database, id)))
  return call ?? null
}

function find(database: Db, id: string) {
  return database.select().from(calls).where(eq(calls.id, id))
}

export async function getCallOf(database: Db, account_id: string, id: string): Promise<CallRecord | null> {
  const [call] = await find(database, id)
  return call?.account_id === account_id ? call : null
}

/**
 * Calls with their attempts, newest first. An index finds the calls of an account, and those of a key, which are all its account's. Other filters
 * search `look` holds a page, so a page may be short or even empty, and yet have a next one (D48).
 */
export async function listCalls(
  database: Db,
  filter: CallFilter,
  { limit, after }: Page,
  look = LOOK,
): Promise<PageOf<CallRecord>> {
  const parts = Math.ceil(limit / CALLS_AT_ONCE)
  const data: CallRecord[] = []
  let next = after
  for (let part = 0; part < parts && (next !== null || part === 0); part++) {
    const most = Math.min(CALLS_AT_ONCE, limit - data.length)
    const some = await listSome(database, filter, { limit: most, after: next }, Math.ceil(look / parts))
    data.push(...some.data)
    next = some.next
  }
  return { data, next }
}

async function listSome(
  database: Db,
  filter: CallFilter,
  page: Page,
  look: number,
): Promise<PageOf<CallRecord>> {
  const { key_id, model, operation, session, state, failure } = filter
  const range = and(
    ownerOf(database, filter),
    session === undefined ? undefined : eq(holds.session_id, session),
    ...rangeOf(database, filter, page),
  )
  const seen = database
    .select({ id: holds.id, key_id: holds.key_id, terms_id: holds.terms_id, labels_id: holds.labels_id })
    .from(holds)
    .where(range)
    .orderBy(desc(holds.id))
    .limit(look)
    .as("seen")
  // Without a limit the planner would join all ends and corrections there are.
  const call = database.select().from(calls).where(eq(calls.id, seen.id)).limit(1).as("call")
  const rows = await database
    .select({ call: call._.selectedFields })
    .from(seen)
    .crossJoinLateral(call)
    .where(
      and(
        key_id === undefined ? undefined : eq(seen.key_id, key_id),
        model === undefined ? undefined : inArray(seen.terms_id, termsOf(model)),
        labelsIn(seen.labels_id, filter),
        operation === undefined ? undefined : eq(call.operation, operation),
        state === undefined ? undefined : eq(call.state, state),
        failure === undefined ? undefined : eq(call.failure, failure),
      ),
    )
    .orderBy(desc(seen.id))
    .limit(page.limit + 1)
  const { data, next } = paged(
    rows.map((row) => row.call),
    page,
  )
  const listed = { data: await withAttempts(database, await withListTerms(database, data)), next }
  if (listed.next !== null) return listed
  const end = await lastSeen(database, range, look)
  // Calls that came meanwhile have moved the end. They must not be listed twice.
  const last = listed.data.at(-1)?.id
  return { ...listed, next: end !== null && last !== undefined && last < end ? last : end }
}

/** The condition on a call's labels (D94), for each call looked at: not all accounts' labels for each page. */
function labelsIn(labels_id: SQL | PgColumn, { tags, end_users: wanted_users }: CallFilter): SQL | undefined {
  if (tags === undefined && wanted_users === undefined) return undefined
  const conditions = [
    ...(tags === undefined ? [] : [sql`l.tags @> ${JSON.stringify(tags)}::text::jsonb`]),
    ...(wanted_users === undefined
      ? []
      : [
          sql`(SELECT u.subject IN ${wanted_users} OR u.id::text IN ${wanted_users.map((one) => parseId(one) ?? "")}
            FROM ${end_users} u WHERE u.id = l.end_user_id)`,
        ]),
  ]
  return sql`(SELECT ${sql.join(conditions, sql` AND `)} FROM ${labels} l WHERE l.id = ${labels_id})`
}

function ownerOf(database: Db, { account_id, key_id }: CallFilter): SQL | undefined {
  if (account_id !== undefined) return eq(holds.account_id, account_id)
  if (key_id === undefined) return undefined
  const owner = database.select({ id: keys.account_id }).from(keys).where(eq(keys.id, key_id))
  return eq(holds.account_id, sql`(${owner})`)
}

/** The ids that can be on the page; open calls are above the floors of the gateways that may have some (D35). */
function rangeOf(database: Db, { state, from, to }: CallFilter, { after }: Page): SQL[] {
  const floor = database
    .select({ id: gateways.floor_id })
    .from(gateways)
    .where(isNull(gateways.swept_at))
    .orderBy(gateways.floor_id)
    .limit(1)
  return [
    ...(state === "open" ? [gte(holds.id, sql`coalesce((${floor}), ${NIL_ID}::uuid)`)] : []),
    ...(from === undefined ? [] : [gte(holds.id, floorId(from))]),
    ...(to === undefined ? [] : [lt(holds.id, floorId(to))]),
    ...(after === null ? [] : [lt(holds.id, after)]),
  ]
}

/** The last of the `look` holds that one page reads; null if there are fewer. */
async function lastSeen(database: Db, range: SQL | undefined, look: number) {
  const [last] = await database
    .select({ id: holds.id })
    .from(holds)
    .where(range)
    .orderBy(desc(holds.id))
    .offset(look - 1)
    .limit(1)
  return last?.id ?? null
}
