import { sql } from "drizzle-orm"
import { alignIds } from "../../id.ts"
import { type Address, askAlone, FIRST_ANSWER_S } from "./address.ts"
import { DatabaseConnection, type Watch } from "./connection.ts"
import { errorCode } from "./database-errors.ts"
import { withDeadline } from "./deadline.ts"
import { readUnfit } from "./fitness.ts"
import { migrate } from "./migration.ts"
import { openPool } from "./pool.ts"

/** Connections for operators' queries, separate from those of the calls. */
const OPERATOR_CONNECTIONS = 4
/** Connections for clients that read their own account, separate from those for operators. Closed when unused. */
export const RECEIPT_CONNECTIONS = 2
export const SUM_CONNECTIONS = 1
const UPKEEP_CONNECTIONS = 1
const UNUSED_S = 60
/** SQLSTATE by which a pooler refuses an unknown setting. */
const SETTING_REFUSED = "08P01"

export type Database = ReturnType<typeof databaseAt>

function databaseAt(address: Address) {
  const operators = openPool(address, { max: OPERATOR_CONNECTIONS })
  const receipts = openPool(address, { max: RECEIPT_CONNECTIONS, idle_timeout: UNUSED_S })
  const sums = openPool(address, { max: SUM_CONNECTIONS, idle_timeout: UNUSED_S })
  const upkeep = openPool(address, { max: UPKEEP_CONNECTIONS, idle_timeout: UNUSED_S })
  return {
    operators: operators.database,
    /** For clients that read their own account: receipts, and sums of usage. */
    receipts: receipts.database,
    sums: sums.database,
    /** For background work that takes long. */
    upkeep: upkeep.database,
    /** A connection for a caller that sends one statement at a time. */
    connection: (watch?: Watch) => new DatabaseConnection(address, watch),
    async close(): Promise<void> {
      await Promise.all([operators, receipts, sums, upkeep].map((pool) => pool.end()))
    },
  }
}

/** Opens the database and brings its tables up to date; rejects with the driver's error when it cannot be reached. */
export async function openDatabase(address: Address): Promise<Database> {
  await migrate(address)
  return connectDatabase(address)
}

/**
 * Connects to a database whose tables are up to date. Ids follow its clock from here on (D58), so none may be made before.
 * Sessions have `jit` off, because compiling one of these statements takes longer than running it; unless a pooler refuses
 * the setting: then it is the role's (docs/deploying.md).
 */
export async function connectDatabase(address: Address): Promise<Database> {
  const known = { ...address, names_clash: await namesClash(address) }
  try {
    return await alignedDatabase({ ...known, settings: { jit: "off" } })
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null
    if (errorCode(cause) !== SETTING_REFUSED) throw error
    return alignedDatabase(known)
  }
}

/**
 * True if two connections may give different statements the same name: Bun's driver calls the first one of each `P0`, and a
 * transaction pooler may run one for the other. A pooler shows by its cancellation key, which does not begin with the number of
 * the server process. The embedded database has no pooler.
 */
async function namesClash(address: Address): Promise<boolean> {
  if (!("url" in address)) return false
  return askAlone(address, async (client) => {
    const result = await client<{ pid: number; names: string[] }[]>`
      SELECT pg_backend_pid() AS pid, (SELECT coalesce(json_agg(name), '[]') FROM pg_prepared_statements) AS names`
    const [row] = result
    return row !== undefined && row.pid !== result.state.pid && row.names.includes(result.statement.name)
  })
}

async function alignedDatabase(address: Address): Promise<Database> {
  const database = databaseAt(address)
  try {
    const sent_ms = Date.now()
    const [row] = await database.operators.execute<{ now_ms: number }>(
      sql`SELECT extract(epoch FROM now())::float8 * 1000 AS now_ms`,
    )
    if (row !== undefined) alignIds(row.now_ms, sent_ms)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** `openDatabase` for a start: rejects with a sentence that has the driver's reason, without the statement. */
export async function openLedgerDatabase(address: Address): Promise<Database> {
  try {
    const unfit = await readUnfit(address)
    if (unfit !== null) throw new Error(unfit.join(". "))
    return await openDatabase(address)
  } catch (error) {
    throw new Error(`cannot use the database: ${databaseReason(error)}`, { cause: error })
  }
}

/** Awaits an answer of the database for a running gateway. Rejects with a sentence: its reason, or that it did not answer. */
export async function databaseAnswer<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await withDeadline(answer, FIRST_ANSWER_S * 1_000, () => {
      throw new Error(`it did not answer within ${FIRST_ANSWER_S} s`)
    })
  } catch (error) {
    throw new Error(`cannot use the database: ${databaseReason(error)}`, { cause: error })
  }
}

export function databaseReason(error: unknown): string {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (errorCode(reason) === "CONNECT_TIMEOUT") return `it did not answer within ${FIRST_ANSWER_S} s`
  return reason instanceof Error ? reason.message : String(reason)
}
