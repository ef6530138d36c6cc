import { and, desc, eq, getTableColumns, gte, inArray, or, sql } from "drizzle-orm"
import { floorId } from "../../id.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import type { Db } from "../database/statement.ts"
import { operator_changes as changes, operator_change_ends as ends } from "../schema/operators.ts"

/** The log of operators' changes (D102), in the first shard. */

export type NewChange = Omit<typeof changes.$inferSelect, "at">
type ChangeEnd = Pick<typeof ends.$inferSelect, "id" | "status" | "made_id" | "after">

/** A change with its outcome; null as long as there is none. */
export interface ChangeRecord {
  readonly change: typeof changes.$inferSelect
  readonly end: Omit<typeof ends.$inferSelect, "xid"> | null
}

/** Absent: all. */
interface LogFilter {
  readonly actor?: string | undefined
  readonly resource_id?: string | undefined
  readonly from?: Date | undefined
}

/** Time after which a change without an outcome has lost its gateway, because no request takes so long. */
const LOST = sql.raw("interval '10 minutes'")
const SEARCHED_MS = 7 * 86_400_000

export async function beginChange(database: Db, change: NewChange): Promise<void> {
  await database.insert(changes).values({
    ...change,
    request: asJson(change.request),
    before: asJson(change.before),
  })
}

export async function endChange(database: Db, end: ChangeEnd): Promise<void> {
  await database
    .insert(ends)
    .values({ ...end, after: asJson(end.after) })
    .onConflictDoNothing()
}

/** A parameter of type text, because the driver encodes one of type JSON itself. */
const asJson = (value: unknown) => (value === null ? null : sql`${JSON.stringify(value)}::text::json`)

type IdentifiedChange = ChangeRecord & { readonly id: string }

/** Changes with their outcomes, in no order. */
export function changesWith(database: Db, ids: readonly string[]): Promise<readonly IdentifiedChange[]> {
  return read(database).where(inArray(changes.id, [...ids]))
}

const { xid: _, ...outcome } = getTableColumns(ends)

function read(database: Db) {
  return database
    .select({ id: changes.id, change: changes, end: outcome })
    .from(changes)
    .leftJoin(ends, eq(ends.id, changes.id))
}

/** Newest first. */
export async function listChanges(
  database: Db,
  { actor, resource_id, from }: LogFilter,
  page: Page,
): Promise<PageOf<IdentifiedChange>> {
  const made = database
    .select({ id: ends.id })
    .from(ends)
    .where(eq(ends.made_id, sql`${resource_id}::uuid`))
  const found = read(database)
    .where(
      and(
        actor === undefined ? undefined : eq(changes.actor, actor),
        resource_id === undefined
          ? undefined
          : or(eq(changes.resource_id, resource_id), sql`${changes.id} IN ${made}`),
        from === undefined ? undefined : gte(changes.id, floorId(from)),
        isAfter(page, changes.id),
      ),
    )
    .orderBy(desc(changes.id))
  return pageOf(page, found)
}

/** Notes that the outcome of changes is unknown whose gateway has died, so that the event feed has each of them. */
export async function endLostChanges(database: Db): Promise<void> {
  await database.execute(sql`
    INSERT INTO ${ends} (id) SELECT c.id FROM ${changes} c
    WHERE c.id >= ${floorId(new Date(Date.now() - SEARCHED_MS))}::uuid AND c.at < now() - ${LOST}
      AND NOT EXISTS (SELECT FROM ${ends} e WHERE e.id = c.id)
    ON CONFLICT DO NOTHING`)
}
