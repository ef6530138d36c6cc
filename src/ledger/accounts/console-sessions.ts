import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { console_sessions as sessions } from "../schema/sessions.ts"

/** The open sessions of the console (D50), by the hash of their secret. The ledger's clock ends them. */

/** Opens a session for `last_s` seconds, and deletes those that have expired. */
export async function openSession(database: PostgresJsDatabase, hash: string, last_s: number): Promise<void> {
  await database.execute(sql`
    WITH forgotten AS (DELETE FROM ${sessions} WHERE expires_at <= now())
    INSERT INTO ${sessions} (hash, expires_at) VALUES (${hash}, now() + make_interval(secs => ${last_s}))`)
}

export async function isOpenSession(database: PostgresJsDatabase, hash: string): Promise<boolean> {
  const found = await database.execute(
    sql`SELECT FROM ${sessions} WHERE hash = ${hash} AND expires_at > now()`,
  )
  return found.length > 0
}

export async function endSession(database: PostgresJsDatabase, hash: string): Promise<void> {
  await database.execute(sql`DELETE FROM ${sessions} WHERE hash = ${hash}`)
}
