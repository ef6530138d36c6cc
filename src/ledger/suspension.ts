import { type SQL, sql } from "drizzle-orm"
import type { accounts, keys } from "./schema.ts"

/** What to write to a column that says since when something is suspended: a suspension that lasts keeps its beginning, and undefined stays what it is. */
export function suspension(
  column: typeof keys.suspended_at | typeof accounts.suspended_at,
  suspended: boolean | undefined,
): SQL | null | undefined {
  if (suspended === undefined) return undefined
  return suspended ? sql`coalesce(${column}, now())` : null
}
