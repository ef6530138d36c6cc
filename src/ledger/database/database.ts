import { fileURLToPath } from "node:url"
import { sql } from "drizzle-orm"
import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { migrate } from "drizzle-orm/postgres-js/migrator"
import { alignIds } from "../../id.ts"
import { type Address, connect } from "./address.ts"
import { Connection, type Watch } from "./connection.ts"
import { Pool, type PoolOptions } from "./pool.ts"

/** Connections for operators' queries, apart from those of the calls. */
const OPERATOR_CONNECTIONS = 4
/** Connections for what clients read of their own books, apart from those of the operators; they are closed when nobody reads. */
const RECEIPT_CONNECTIONS = 2
const SUM_CONNECTIONS = 1
const UNUSED_S = 60
/** Any number will do, as long as every gateway takes the same. */
const MIGRATION_LOCK = 7_061_980
/** The migrations that come with this code. */
export const MIGRATIONS = fileURLToPath(new URL("../../../drizzle", import.meta.url))
/** How long a start waits for a server that lets it in but does not speak. */
export const FIRST_ANSWER_S = 4

/** The database of the ledger, migrated. */
export class Database {
  readonly #address: Address
  readonly #pools: Pool[] = []
  /** For the operators' queries. */
  readonly operators: PostgresJsDatabase
  /** For what clients read of their own books: single lines of it, and sums. */
  readonly receipts: PostgresJsDatabase
  readonly sums: PostgresJsDatabase

  constructor(address: Address) {
    this.#address = address
    this.operators = this.#pool({ max: OPERATOR_CONNECTIONS })
    this.receipts = this.#pool({ max: RECEIPT_CONNECTIONS, idle_timeout: UNUSED_S })
    this.sums = this.#pool({ max: SUM_CONNECTIONS, idle_timeout: UNUSED_S })
  }

  /** A connection of its own for one who sends one statement at a time. */
  connection(watch?: Watch): Connection {
    return new Connection(this.#address, watch)
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()))
  }

  #pool(options: PoolOptions): PostgresJsDatabase {
    const pool = new Pool(this.#address, options)
    this.#pools.push(pool)
    return pool.database
  }
}

/** Opens the database and brings its tables up to date; rejects with the driver's error when it cannot be reached. */
export async function openDatabase(address: Address): Promise<Database> {
  await migrateDatabase(address)
  return connectDatabase(address)
}

/** The database, whose tables are up to date. From then on ids follow its clock (D58): none is made before. */
export async function connectDatabase(address: Address): Promise<Database> {
  const database = new Database(address)
  const asked_ms = Date.now()
  const [row] = await database.operators.execute<{ now_ms: number }>(
    sql`SELECT extract(epoch FROM now())::float8 * 1000 AS now_ms`,
  )
  if (row !== undefined) alignIds(row.now_ms, asked_ms)
  return database
}

/**
 * Applies what is missing of `drizzle/`. Gateways that start together wait for one another: the lock is a
 * transaction's, held on a second connection, so that it holds through a transaction pooler too.
 */
async function migrateDatabase(address: Address): Promise<void> {
  const options = { max: 1, connect_timeout: FIRST_ANSWER_S, onnotice: () => {} }
  const client = connect(address, options)
  const guard = connect(address, options)
  try {
    await guard.begin(async (transaction) => {
      await transaction`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`
      await migrate(drizzle(client), { migrationsFolder: MIGRATIONS })
    })
  } finally {
    await Promise.all([client.end({ timeout: 1 }), guard.end({ timeout: 1 })])
  }
}
