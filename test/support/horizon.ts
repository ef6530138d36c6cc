import { sql } from "drizzle-orm"
import type { Db } from "../../src/ledger/database/statement.ts"
import { until } from "./gateway.ts"

/**
 * Waits until the event feed has everything that is written now (D96). Tests share a server, and a transaction of another test
 * that is open holds the feed back.
 */
export async function feedReaches(database: Db): Promise<void> {
  const [now] = await database.execute<{ xid: string }>(sql`SELECT pg_current_xact_id()::text AS xid`)
  await until(
    () =>
      database.execute<{ is_past: boolean }>(
        sql`SELECT pg_snapshot_xmin(pg_current_snapshot()) > ${now?.xid ?? ""}::xid8 AS is_past`,
      ),
    ([row]) => row?.is_past === true,
  )
}
