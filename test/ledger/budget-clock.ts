import { sql } from "drizzle-orm"
import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import { statement } from "../../src/ledger/database/statement.ts"
import { idAt, PatientConnection, type TestDatabase } from "./test-database.ts"

/** Sets the offset of the clock of a session, in milliseconds. */
const wind = statement("hold", sql`SELECT set_config('ahead.ms', $1, false)`)

/** Functions that hide those of `pg_catalog` in the sessions below, so that their clock can be wound. */
export async function makeClock({ sql }: TestDatabase): Promise<void> {
  for (const name of ["now", "statement_timestamp"])
    await sql.unsafe(`CREATE SCHEMA IF NOT EXISTS ahead; CREATE FUNCTION ahead.${name}() RETURNS timestamptz LANGUAGE sql STABLE
      RETURN pg_catalog.${name}() + coalesce(nullif(current_setting('ahead.ms', true), ''), '0')::float8 * interval '1 millisecond'`)
}

/** Lets the clock of these sessions stand where it was wound to: `wind` takes the time itself. */
export async function stopClock({ sql }: TestDatabase): Promise<void> {
  for (const name of ["now", "statement_timestamp"])
    await sql.unsafe(`CREATE OR REPLACE FUNCTION ahead.${name}() RETURNS timestamptz LANGUAGE sql STABLE
      RETURN to_timestamp(current_setting('ahead.ms')::float8 / 1000)`)
}

/** Sessions on a database with a clock of their own. */
export class WoundSession {
  readonly connection: DatabaseConnection
  readonly database: PostgresJsDatabase
  ahead_ms = 0
  readonly #pool: ReturnType<typeof connect>

  constructor(address: Address) {
    const wound = { ...address, settings: { search_path: "ahead, pg_catalog" } }
    this.connection = new PatientConnection(wound)
    this.#pool = connect(wound, { max: 1, onnotice: () => {} })
    this.database = drizzle(this.#pool)
  }

  async wind(ahead_ms: number): Promise<void> {
    this.ahead_ms = ahead_ms
    await this.connection.run(wind, [String(ahead_ms)], 1_000, 1)
    await this.database.execute(sql`SELECT set_config('ahead.ms', ${String(ahead_ms)}, false)`)
  }

  nextId(): string {
    return idAt(Date.now() + this.ahead_ms)
  }

  async close(): Promise<void> {
    await this.connection.end()
    await this.#pool.end({ timeout: 1 })
  }
}
