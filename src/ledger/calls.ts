import { and, desc, eq, gte, lt } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { floorId } from "../id.ts"
import type { Failure, State } from "../wire/call.ts"
import { type Listed, type Page, paged } from "./page.ts"
import { reservations } from "./schema.ts"

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

/** Calls, newest first. */
export async function listCalls(
  database: PostgresJsDatabase,
  filter: CallFilter,
  page: Page,
): Promise<Listed<CallRecord>> {
  const { account_id, key_id, model, state, failure, from, to } = filter
  const rows = await database
    .select()
    .from(reservations)
    .where(
      and(
        account_id === undefined ? undefined : eq(reservations.account_id, account_id),
        key_id === undefined ? undefined : eq(reservations.key_id, key_id),
        model === undefined ? undefined : eq(reservations.model, model),
        state === undefined ? undefined : eq(reservations.state, state),
        failure === undefined ? undefined : eq(reservations.failure, failure),
        from === undefined ? undefined : gte(reservations.id, floorId(from)),
        to === undefined ? undefined : lt(reservations.id, floorId(to)),
        page.after === null ? undefined : lt(reservations.id, page.after),
      ),
    )
    .orderBy(desc(reservations.id))
    .limit(page.limit + 1)
  return paged(rows, page)
}
