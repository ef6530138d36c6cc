import { readMigrationFiles } from "drizzle-orm/migrator"
import type { Sql } from "postgres"
import { MIGRATIONS } from "../../src/ledger/database/migration.ts"

/** The number of migrations that version 0.1 had. */
const VERSION_0_1 = 4
/** Those of version 0.2.0. */
export const VERSION_0_2 = 5
/** Those before operators and the log of their changes. */
export const BEFORE_OPERATORS = 32

/** The tables after so many migrations: as the migrator would make them, but not to the end. */
export async function createOldLedger(sql: Sql, count = VERSION_0_1): Promise<void> {
  await sql.unsafe(`CREATE SCHEMA drizzle;
    CREATE TABLE drizzle.__drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at bigint)`)
  const migrations = readMigrationFiles({ migrationsFolder: MIGRATIONS }).slice(0, count)
  for (const { sql: statements, hash, folderMillis } of migrations) {
    await sql.begin(async (tx) => {
      for (const statement of statements) await tx.unsafe(statement)
      await tx`INSERT INTO drizzle.__drizzle_migrations (hash, created_at) VALUES (${hash}, ${folderMillis})`
    })
  }
}
