import type { Sql } from "postgres"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"

/** How test/run.ts tells the tests where its cluster is. */
export const CLUSTER_VARIABLE = "TOLLGATE_TEST_CLUSTER"

/** The URL of a database that is used instead of the cluster, by one test file after the other. */
export const URL_VARIABLE = "TOLLGATE_TEST_URL"
/** A file of statements that are run there once the tables are made. */
const SETUP_VARIABLE = "TOLLGATE_TEST_SETUP"

export interface FreshDatabase {
  readonly address: Address
  drop(): Promise<void>
}

/** A database of the cluster whose tables are made. Copying it takes a fifth of the time of making them. */
const TABLES = "tollgate_tables"
const USER = "tollgate"

/** Prepares the cluster for `freshDatabase`, once in a run. */
export async function makeTables(socket_path: string): Promise<void> {
  await tell({ socket_path, user: USER, database: USER }, `create database ${TABLES}`)
  const database = await openDatabase({ socket_path, user: USER, database: TABLES })
  // Otherwise each gateway makes them in its copy at its start, which takes a fifth of that.
  await addMonths(database.upkeep)
  await database.close()
}

/** A new database of the test run's cluster, with tables and nothing in them, as a gateway's first start leaves it. */
export function freshDatabase(): Promise<FreshDatabase> {
  // Copying files takes half the processor of writing the copy to the log.
  return createDatabase(`template ${TABLES} strategy file_copy`)
}

/** A new database of the test run's cluster without tables. */
export function emptyDatabase(): Promise<FreshDatabase> {
  return createDatabase("")
}

async function createDatabase(like: string): Promise<FreshDatabase> {
  const url = process.env[URL_VARIABLE]
  if (url !== undefined) return emptied({ url })
  const socket_path = process.env[CLUSTER_VARIABLE]
  if (socket_path === undefined) {
    throw new Error("this test needs the cluster of the test run: use `bun run test <files>`")
  }
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`
  maker ??= connect(
    { socket_path, user: USER, database: USER },
    { max: 1, idle_timeout: 2, onnotice: () => {} },
  )
  const { unsafe } = maker
  await unsafe(`create database ${name} ${like}`)
  return {
    address: { socket_path, user: USER, database: name },
    drop: async () => void (await unsafe(`drop database if exists ${name} with (force)`)),
  }
}

/** Makes and drops databases: a connection for each would take a quarter of their time. */
let maker: ReturnType<typeof connect> | undefined

/** The database of the URL, without what the test before left. */
async function emptied(address: Address): Promise<FreshDatabase> {
  const drop = () =>
    tell(address, "drop schema if exists tollgate cascade; drop schema if exists drizzle cascade")
  await drop()
  return { address, drop }
}

/** Ends all connections to a database of the test run's cluster, and refuses new ones until `admit`. */
export async function shutOut(address: Address): Promise<{ admit(): Promise<void> }> {
  if (!("database" in address)) throw new Error("the test cluster is reached by its socket")
  const { database } = address
  const client = connect({ ...address, database: "postgres" }, { max: 1, onnotice: () => {} })
  const open = (yes: boolean) => client.unsafe(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS ${yes}`)
  await open(false)
  await client`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database}`
  return {
    async admit() {
      await open(true)
      await client.end()
    },
  }
}

/** Called when the tables are made. */
export async function setUp(address: Address): Promise<void> {
  const path = process.env[SETUP_VARIABLE]
  if (path === undefined) return
  await tell(address, await Bun.file(path).text())
}

const tell = (address: Address, text: string) =>
  withSql(address, async (sql) => void (await sql.unsafe(text)))

/** Runs `work` with a connection of its own. */
export async function withSql<Result>(
  address: Address,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const sql = connect(address, { max: 1, onnotice: () => {} })
  return await work(sql).finally(() => sql.end())
}
