import { fileURLToPath } from "node:url"
import { readMigrationFiles } from "drizzle-orm/migrator"
import type { TransactionSql } from "postgres"
import { type Address, askAlone, inSchema, USUAL_SCHEMA } from "./address.ts"

/** Key of the advisory lock; the same in every gateway. */
const MIGRATION_LOCK = 7_061_980
export const MIGRATIONS = fileURLToPath(new URL("../../../drizzle", import.meta.url))

/** `older`: the next start applies the missing migrations. `newer`: a newer Tollgate has changed the tables. */
export type Version = "none" | "older" | "same" | "newer"

/** Applies the missing migrations in one transaction, which takes the lock: a pooler may have one connection. */
export async function migrate(address: Address): Promise<void> {
  const { schema, table } = appliedIn(address)
  await askAlone(address, (client) =>
    client.begin(async (transaction) => {
      await transaction.unsafe(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
      for (const name of new Set([schema, `"${address.schema ?? USUAL_SCHEMA}"`]))
        await createSchema(transaction, name)
      await transaction.unsafe(
        `CREATE TABLE IF NOT EXISTS ${table} (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at bigint)`,
      )
      const [last] = await transaction.unsafe(`SELECT max(created_at)::text AS made FROM ${table}`)
      const applied = Number(last?.made ?? 0)
      for (const { sql, hash, folderMillis } of readMigrationFiles({ migrationsFolder: MIGRATIONS })) {
        if (folderMillis <= applied) continue
        for (const text of sql)
          if (!text.startsWith("CREATE SCHEMA")) await transaction.unsafe(inSchema(text, address))
        await transaction.unsafe(
          `INSERT INTO ${table} (hash, created_at) VALUES ('${hash}', ${folderMillis})`,
        )
      }
    }),
  )
}

/** A role that may not create schemas can use those that an administrator made: `IF NOT EXISTS` would need the right first. */
async function createSchema(transaction: TransactionSql, name: string): Promise<void> {
  const [found] = await transaction.unsafe(`SELECT to_regnamespace('${name}') IS NOT NULL AS exists`)
  if (found?.exists !== true) await transaction.unsafe(`CREATE SCHEMA ${name}`)
}

/** The table of applied migrations: drizzle's, or in another schema one of its own (D74). */
function appliedIn({ schema = USUAL_SCHEMA }: Address): { readonly schema: string; readonly table: string } {
  const holder = schema === USUAL_SCHEMA ? "drizzle" : `"${schema}"`
  return { schema: holder, table: `${holder}.__drizzle_migrations` }
}

/** Reads it, and changes nothing; rejects with the driver's error when the database cannot be reached. */
export async function readVersion(address: Address): Promise<Version> {
  const { table } = appliedIn(address)
  return askAlone(address, async (client) => {
    const [found] = await client`SELECT to_regclass(${table}) IS NOT NULL AS migrated`
    if (found?.migrated !== true) return "none"
    const rows = await client.unsafe(`SELECT created_at::text AS made FROM ${table}`)
    return compare(rows.map(({ made }) => String(made)))
  })
}

/** Compares migrations by their timestamps, as drizzle's migrator does. */
function compare(applied: readonly string[]): Version {
  const known = readMigrationFiles({ migrationsFolder: MIGRATIONS }).map(({ folderMillis }) =>
    String(folderMillis),
  )
  if (applied.length === 0) return "none"
  if (applied.some((made) => !known.includes(made))) return "newer"
  return known.every((made) => applied.includes(made)) ? "same" : "older"
}
