import { and, desc, eq, gte, isNull, lt, type SQL, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { floorId } from "../id.ts"
import type { Failure, State } from "../wire/call.ts"
import { type Listed, type Page, paged } from "./page.ts"
import { gateways, reservations } from "./schema.ts"

/** How many calls one page looks at: so many take the books a tenth of a second, however rare what is looked for is. */
const LOOK = 100_000
const NIL = "00000000-0000-0000-0000-000000000000"

/** One call as the books have it: a hold while it is open, a line of the journal afterwards. */
export type CallRecord = typeof reservations.$inferSelect

/** Which calls to list; all of them without a filter. `from` is inclusive, `to` exclusive, both by the time in the id (D48). */
export interface CallFilter {
  readonly account_id?: string | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
  readonly state?: State | undefined
  readonly failure?: Failure | undefined
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

/** The call, or null when there is none. */
export async function getCall(database: PostgresJsDatabase, id: string): Promise<CallRecord | null> {
  const [call] = await database.select().from(reservations).where(eq(reservations.id, id))
  return call ?? null
}

/** The call, or null when the account has none of this id. */
export async function getCallOf(
  database: PostgresJsDatabase,
  account_id: string,
  id: string,
): Promise<CallRecord | null> {
  const call = await getCall(database, id)
  return call?.account_id === account_id ? call : null
}

/**
 * Calls, newest first. Accounts, keys, models and times are found by indexes, on what never changes; by its state or its failure a
 * call is looked for among those, `look` of them a page: a page may hold fewer calls than it could, even none, and yet have
 * a next one (D48).
 */
export async function listCalls(
  database: PostgresJsDatabase,
  filter: CallFilter,
  page: Page,
  look = LOOK,
): Promise<Listed<CallRecord>> {
  const range = and(...rangeOf(database, filter, page))
  const found = foundBy(filter)
  const path = await narrowest(database, found, range, look)
  const seen = database
    .select()
    .from(reservations)
    .where(and(path, range))
    .orderBy(desc(reservations.id))
    .limit(look)
    .as("seen")
  const rows = await database
    .select()
    .from(seen)
    .where(and(...matching(filter).map(([column, value]) => eq(seen[column], value))))
    .orderBy(desc(seen.id))
    .limit(page.limit + 1)
  const listed = paged(rows, page)
  if (listed.next !== null) return listed
  const end = await edge(database, path, range, look)
  // Calls that came meanwhile have moved the end: what is listed already is not listed again.
  const last = listed.data.at(-1)?.id
  return { ...listed, next: end !== null && last !== undefined && last < end ? last : end }
}

type Filtered = "account_id" | "key_id" | "model" | "state" | "failure"

/** What a call must be like, besides its time. */
function matching({ account_id, key_id, model, state, failure }: CallFilter): [Filtered, string][] {
  const wanted: [Filtered, string | undefined][] = [
    ["key_id", key_id],
    ["account_id", account_id],
    ["model", model],
    ["state", state],
    ["failure", failure],
  ]
  return wanted.flatMap(([column, value]) => (value === undefined ? [] : [[column, value]]))
}

/** The filters that an index answers in the order of the ids; a key's calls are all its account's. */
function foundBy({ account_id, key_id, model }: CallFilter): SQL[] {
  const found = matching(key_id === undefined ? { account_id, model } : { key_id, model })
  return found.map(([column, value]) => eq(reservations[column], value))
}

/** The ids that can be on the page; open calls are above the floors of the gateways that may have some (D35). */
function rangeOf(database: PostgresJsDatabase, { state, from, to }: CallFilter, { after }: Page): SQL[] {
  const floor = database
    .select({ id: gateways.floor_id })
    .from(gateways)
    .where(isNull(gateways.swept_at))
    .orderBy(gateways.floor_id)
    .limit(1)
  return [
    ...(state === "open" ? [gte(reservations.id, sql`coalesce((${floor}), ${NIL}::uuid)`)] : []),
    ...(from === undefined ? [] : [gte(reservations.id, floorId(from))]),
    ...(to === undefined ? [] : [lt(reservations.id, floorId(to))]),
    ...(after === null ? [] : [lt(reservations.id, after)]),
  ]
}

/** Of several ways to find calls the one that reaches back furthest within `look` of them; undefined: all calls are looked at. */
async function narrowest(
  database: PostgresJsDatabase,
  found: readonly SQL[],
  range: SQL | undefined,
  look: number,
): Promise<SQL | undefined> {
  let [best] = found
  if (found.length < 2) return best
  let reached: string | null = null
  for (const path of found) {
    const at = await edge(database, path, range, look)
    if (at === null) return path
    if (reached === null || at < reached) {
      reached = at
      best = path
    }
  }
  return best
}

/** The last of the `look` calls that one page looks at; null when there are not so many. */
async function edge(
  database: PostgresJsDatabase,
  path: SQL | undefined,
  range: SQL | undefined,
  look: number,
): Promise<string | null> {
  const [last] = await database
    .select({ id: reservations.id })
    .from(reservations)
    .where(and(path, range))
    .orderBy(desc(reservations.id))
    .offset(look - 1)
    .limit(1)
  return last?.id ?? null
}
