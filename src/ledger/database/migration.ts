import { fileURLToPath } from "node:url"
import { readMigrationFiles } from "drizzle-orm/migrator"
import { type Address, connect } from "./address.ts"

/** Any number will do, as long as every gateway takes the same. */
const MIGRATION_LOCK = 7_061_980
/** The migrations that come with this code. */
export const MIGRATIONS = fileURLToPath(new URL("../../../drizzle", import.meta.url))
/** How long a start waits for a server that accepts the connection but does not answer. */
export const FIRST_ANSWER_S = 4

/**
 * How the tables of a database stand to the migrations of this code.
 * - `none`: there are no tables of Tollgate yet.
 * - `older`: some migrations are missing; the next start of a gateway applies them.
 * - `newer`: a newer Tollgate has changed them.
 */
export type Version = "none" | "older" | "same" | "newer"

/**
 * Applies the missing migrations in one transaction. It begins with the lock by which gateways that start together take
 * turns, so one connection is enough: a transaction pooler may have no second one to give. The table is drizzle's.
 */
export async function migrate(address: Address): Promise<void> {
  const client = connect(address, { max: 1, connect_timeout: FIRST_ANSWER_S, onnotice: () => {} })
  try {
    await client.begin(async (transaction) => {
      await transaction.unsafe(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
      await transaction.unsafe(`CREATE SCHEMA IF NOT EXISTS drizzle;
        CREATE TABLE IF NOT EXISTS drizzle.__drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at bigint)`)
      const [last] = await transaction.unsafe(
        "SELECT max(created_at)::text AS made FROM drizzle.__drizzle_migrations",
      )
      const applied = Number(last?.made ?? 0)
      for (const { sql, hash, folderMillis } of readMigrationFiles({ migrationsFolder: MIGRATIONS })) {
        if (folderMillis <= applied) continue
        for (const text of sql) await transaction.unsafe(text)
        await transaction.unsafe(
          `INSERT INTO drizzle.__drizzle_migrations (hash, created_at) VALUES ('${hash}', ${folderMillis})`,
        )
      }
    })
  } finally {
    await client.end({ timeout: 1 })
  }
}

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
