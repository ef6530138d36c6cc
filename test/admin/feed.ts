import { sql } from "drizzle-orm"
import { feedReaches } from "../support/horizon.ts"
import { type AdminHarness, falsify, linesIn, openAdminHarness, send } from "./admin-harness.ts"

/** Readers of the event feed, in tests (D96). */

export interface Line {
  readonly id: string
  readonly type: string
  readonly subject: string
  readonly source: string
  readonly time: string
  readonly cursor: string
  readonly data: {
    readonly charge?: string
    readonly difference?: string
    readonly state?: string
    readonly amount?: string
    readonly effective_at?: string | null
    readonly created_at?: string
  }
}

export interface FeedAnswer {
  readonly status: number
  readonly lines: readonly Line[]
  readonly next: string | null
  readonly text: string
}

type FeedQuery = Readonly<Record<string, string | number>>

/** Asks for events, after the feed has everything that is written now. */
export async function readEvents(admin: AdminHarness, query: FeedQuery = {}): Promise<FeedAnswer> {
  if (query.wait === undefined) await feedReaches(admin.database)
  return askEvents(admin, query)
}

export async function askEvents({ app }: AdminHarness, query: FeedQuery): Promise<FeedAnswer> {
  const asked = new URLSearchParams(
    Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]),
  )
  const { status, headers, text } = await send(app, "GET", `/admin/events?${asked}`)
  const lines: Line[] = status === 200 ? linesIn(text) : []
  return { status, lines, next: headers.get("tollgate-next"), text }
}

/** Reads from a cursor to the end, as a consumer does: the lines in their order, and where it goes on. */
export async function readAll(admin: AdminHarness, after: string | null = null, limit = 7) {
  await feedReaches(admin.database)
  return readRest(admin, after, limit)
}

/** The same where nothing was written since the last reading, whose wait is enough. */
export async function readRest(admin: AdminHarness, after: string | null, limit = 7) {
  const lines: Line[] = []
  let next = after
  for (;;) {
    const answer = await askEvents(admin, { limit, ...(next !== null && { after: next }) })
    if (answer.status !== 200) throw new Error(answer.text)
    lines.push(...answer.lines)
    next = answer.next
    if (answer.lines.length === 0) return { ids: lines.map(({ id }) => id), lines, next: next ?? "" }
  }
}

/** A ledger with the rows of another, as a dump of it would bring them: its accounts, its feed and these tables. */
export async function restoredFrom(
  { database }: AdminHarness,
  tables: readonly string[],
): Promise<AdminHarness> {
  const restored = await openAdminHarness()
  for (const name of ["accounts", "feed_epochs", ...tables]) {
    const rows = await database.execute<{ row: string }>(
      sql`SELECT to_jsonb(x)::text AS row FROM tollgate.${sql.identifier(name)} x`,
    )
    const table = sql`tollgate.${sql.identifier(name)}`
    await falsify(
      restored.database,
      sql`DELETE FROM ${table}`,
      ...rows.map(
        ({ row }) =>
          sql`INSERT INTO ${table} SELECT * FROM jsonb_populate_record(null::${table}, ${row}::text::jsonb)`,
      ),
    )
  }
  return restored
}
