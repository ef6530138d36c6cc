import { readMigrationFiles } from "drizzle-orm/migrator"
import { type Address, connect } from "./address.ts"
import { FIRST_ANSWER_S, MIGRATIONS } from "./database.ts"

/**
 * How the tables of a database stand to the migrations of this code.
 * - `none`: there are no tables of Tollgate yet.
 * - `older`: some migrations are missing; the next start of a gateway applies them.
 * - `newer`: a newer Tollgate has changed them.
 */
export type Version = "none" | "older" | "same" | "newer"

/** Reads it, and changes nothing; rejects with the driver's error when the database cannot be reached. */
export async function readVersion(address: Address): Promise<Version> {
  const client = connect(address, { max: 1, connect_timeout: FIRST_ANSWER_S, onnotice: () => {} })
  try {
    const [found] = await client`SELECT to_regclass('drizzle.__drizzle_migrations') IS NOT NULL AS migrated`
    if (found?.migrated !== true) return "none"
    const rows = await client`SELECT created_at::text AS made FROM drizzle.__drizzle_migrations`
    return compare(rows.map(({ made }) => String(made)))
  } finally {
    await client.end({ timeout: 1 })
  }
}

/** A migration is known by the moment it was written at, as the migrator itself does. */
function compare(applied: readonly string[]): Version {
  const known = readMigrationFiles({ migrationsFolder: MIGRATIONS }).map(({ folderMillis }) =>
    String(folderMillis),
  )
  if (applied.length === 0) return "none"
  if (applied.some((made) => !known.includes(made))) return "newer"
  return known.every((made) => applied.includes(made)) ? "same" : "older"
}
