import { afterAll, afterEach, beforeAll, expect, spyOn } from "bun:test"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Sql, TransactionSql } from "postgres"
import { floorId, nextId } from "../../src/id.ts"
import type { Violation } from "../../src/ledger/archive/violations.ts"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import { BatchQueue } from "../../src/ledger/database/batch-queue.ts"
import { DatabaseConnection, type Runner } from "../../src/ledger/database/connection.ts"
import { type Database, openDatabase } from "../../src/ledger/database/database.ts"
import type { Statement } from "../../src/ledger/database/statement.ts"
import {
  type DatabaseLedger,
  type DatabaseLedgerOptions,
  openDatabaseLedger,
} from "../../src/ledger/database-ledger.ts"
import type { Checkpoint, End, Hold, PriceTerms } from "../../src/ledger/entries.ts"
import { checkpointsOn } from "../../src/ledger/money/checkpoints.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { leaseOn } from "../../src/ledger/money/lease.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { operatorLedger } from "../../src/ledger/operators.ts"
import { holdSweeper } from "../../src/ledger/queue/sweep.ts"
import { sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { freshDatabase, setUp } from "../support/database.ts"
import { priceOf } from "../support/price.ts"

export const HASH = "0".repeat(64)
/** A lease whose background tasks run all the time. */
export const RENEWING = { renew_ms: 20, expire_ms: 60_000 }
/** A lease that nothing in a test waits for. */
export const LONG_LEASE = { renew_ms: 60_000, expire_ms: 240_000 }
const PRICE = priceOf(250_000n, 25_000n, 2_000_000n)
/** What `openTestDatabase` registers first on its fresh database, so that their numbers are 1, 2 and 3. */
const TERMS: readonly PriceTerms[] = [
  { family: "chat", model: "model", upstream: "first", price: PRICE },
  { family: "chat", model: "model", upstream: "second", price: PRICE },
  { family: "chat", model: "other", upstream: "first", price: PRICE },
]
export const FIRST = 1
export const SECOND = 2
export const OTHER_MODEL = 3

export interface Account {
  readonly account_id: string
  readonly key_id: string
}

/** Waits longer for an answer than a gateway does, whose callers would be refused: a busy machine may let nothing run for seconds. */
export class PatientConnection extends DatabaseConnection {
  override run(
    ...[statement, values, within_ms, size]: Parameters<Runner["run"]>
  ): ReturnType<Runner["run"]> {
    return super.run(statement, values, 20 * within_ms, size)
  }
}

/** For tests that are not about how late an answer may come: calls wait a minute longer for the ledger, until it is restored. */
export function patience() {
  const { add } = BatchQueue.prototype
  return spyOn(BatchQueue.prototype, "add").mockImplementation(function (
    this: BatchQueue<unknown, unknown>,
    ...[item, until_ms = Number.POSITIVE_INFINITY, ...rest]: Parameters<typeof add>
  ) {
    return add.call(this, item, until_ms + 60_000, ...rest)
  })
}

/** The same for all tests of a block. */
export function patiently(): void {
  let spy: Disposable | undefined
  beforeAll(() => {
    spy = patience()
  })
  afterAll(() => spy?.[Symbol.dispose]())
}

/** A fresh database for one test file, and helpers on it. */
export interface TestDatabase {
  readonly address: Address
  readonly database: Database
  /** For looking at the tables, and for locking what a test wants locked. */
  readonly sql: Sql
  /** A connection for one statement at a time; `close` ends it. Only one to a given address keeps the deadlines of statements. */
  readonly connection: (address?: Address) => DatabaseConnection
  /** A gateway's row under which holds can be made; its lease runs for `expire_ms`. */
  gateway(expire_ms?: number): Promise<string>
  /** A ledger on this database, with its own data directory unless the options name one; `close` stops it. */
  ledger(options?: Partial<DatabaseLedgerOptions>): Promise<DatabaseLedger>
  /** An account with that much on it, and a key that may do everything. */
  account(balance_nano: bigint): Promise<Account>
  folder(): Promise<string>
  close(): Promise<void>
}

/** The database of a test file, closed after its last test. `audited`: each test must leave a journal that adds up. */
export async function testDatabase({ audited = false } = {}): Promise<TestDatabase> {
  const db = await openTestDatabase()
  afterAll(() => db.close())
  if (audited)
    afterEach(async () => {
      expect(await violations(db.sql)).toEqual([])
    })
  return db
}

/** The same, with connections, and a gateway under whose row they hold. */
export async function testGateway(options = {}) {
  const db = await testDatabase(options)
  const gateway_id = await db.gateway()
  const connection = db.connection()
  const connections = [connection, ...[1, 2, 3].map(() => db.connection())]
  return { db, connection, connections, gateway_id, ...statementsOf(connection, gateway_id) }
}

/** The statements that hold and end, as the queues of a gateway ask them. */
export function statementsOf(connection: DatabaseConnection, gateway_id: string) {
  const LOCK_MS = 300
  const asked = new Map<string, Hold>()
  const ask = (...holds: readonly Hold[]) => {
    for (const hold of holds) asked.set(hold.id, hold)
    return holdBatch(connection, gateway_id, holds, LOCK_MS)
  }
  /** An end with the hold that was asked for here, so that it may go by the lean statement. */
  const itemOf = (end: End) => ({ end, hold: asked.get(end.id) ?? null })
  return {
    ask,
    itemOf,
    outcomes: async (...holds: readonly Hold[]) => (await ask(...holds)).map(({ outcome }) => outcome),
    end: (...ends: readonly End[]) => endBatch(connection, ends.map(itemOf), LOCK_MS),
    /** As another process ends them. */
    endUnknown: (...ends: readonly End[]) =>
      endBatch(
        connection,
        ends.map((end) => ({ end, hold: null })),
        LOCK_MS,
      ),
    expire: (...holds: Parameters<typeof expireBatch>[1]) => expireBatch(connection, holds, LOCK_MS),
  }
}

export async function openTestDatabase(): Promise<TestDatabase> {
  const { address, drop } = await freshDatabase()
  const database = await openDatabase(address)
  await setUp(address)
  await registerTerms(database.operators, TERMS)
  const sql: Sql = connect(address, { max: 4, onnotice: () => {} })
  const connections: DatabaseConnection[] = []
  const ledgers: DatabaseLedger[] = []
  const folders: string[] = []

  const connection = (to?: Address) => {
    const made = to === undefined ? new PatientConnection(address) : new DatabaseConnection(to)
    connections.push(made)
    return made
  }
  const folder = async () => {
    const made = await mkdtemp(join(tmpdir(), "tollgate-ledger-"))
    folders.push(made)
    return made
  }

  return {
    address,
    database,
    sql,
    connection,
    folder,
    async gateway(expire_ms = LONG_LEASE.expire_ms) {
      const lease = leaseOn(connection(), { renew_ms: expire_ms, expire_ms })
      await lease.acquire(nextId())
      return lease.gateway_id
    },
    async ledger(options = {}) {
      const data_dir = options.data_dir ?? (await folder())
      const ledger = await openDatabaseLedger({
        database,
        lease: LONG_LEASE,
        log: silent,
        checkpoints: () => [],
        ...options,
        data_dir,
      })
      ledgers.push(ledger)
      return ledger
    },
    async account(balance_nano) {
      const account_id = crypto.randomUUID()
      const key_id = crypto.randomUUID()
      await sql`
        WITH account AS (
          INSERT INTO tollgate.accounts (id, name, balance_nano) VALUES (${account_id}, 'a', ${balance_nano.toString()})
        ), key AS (
          INSERT INTO tollgate.keys (id, account_id, hash, prefix) VALUES (${key_id}, ${account_id}, ${key_id}, 'tg')
        )
        INSERT INTO tollgate.credits (id, account_id, amount_nano)
        VALUES (${crypto.randomUUID()}, ${account_id}, ${balance_nano.toString()})`
      return { account_id, key_id }
    },
    async close() {
      await Promise.all(ledgers.map((ledger) => ledger.stop()))
      await Promise.all(connections.map((made) => made.end()))
      await sql.end({ timeout: 1 })
      await database.close()
      await drop()
      for (const made of folders) await rm(made, { recursive: true, force: true })
    },
  }
}

/** A ledger on this database through another address, such as a proxy's. */
export async function ledgerAt(
  db: TestDatabase,
  address: Address,
  options: Partial<DatabaseLedgerOptions> = {},
): Promise<DatabaseLedger> {
  const database = await openDatabase(address)
  const ledger = await db.ledger({ ...options, database })
  await database.close()
  return ledger
}

export const silent = { info: () => {}, warn: () => {}, error: () => {} }

/** A log, and the errors that were logged, with their fields. */
export function listening() {
  const errors: string[] = []
  const fields: object[] = []
  const error = (one: object, message: string) => {
    errors.push(message)
    fields.push(one)
  }
  return { errors, fields, log: { ...silent, error } }
}

/** An end in the form of a line of the spool. */
export const spooledEnd = (end: End, account_id = "a", hold: Hold | null = null) => ({
  account_id,
  end,
  hold,
})

/** The files of the spool in a data directory. */
export const filesIn = (data_dir: string) => readdir(join(data_dir, "spool")).catch(() => [])

export function holdOf(account: Account, amount_nano: bigint, changes: Partial<Hold> = {}): Hold {
  return {
    id: nextId(),
    ...account,
    amount_nano,
    terms_id: FIRST,
    stream: true,
    idempotency: null,
    ...changes,
  }
}

/** An id of a call that began at this time. */
export function idAt(at: Date | number): string {
  return `${floorId(new Date(at)).slice(0, 14)}7${nextId().slice(15)}`
}

export function checkpointOf(id: string, charge_nano: bigint, changes: Partial<Checkpoint> = {}): Checkpoint {
  return { id, charge_nano, basis: "estimate", usage: null, terms_id: null, ...changes }
}

export const writeCheckpoints = (
  connection: DatabaseConnection,
  gateway_id: string,
  ...seen: readonly Checkpoint[]
) =>
  checkpointsOn(
    connection,
    () => gateway_id,
    () => false,
  ).write(seen)

/** An id of a call that began at this time, with a number instead of random bits. */
export function numberedId(at: Date | number, number: number): string {
  const time = Number(at).toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${number.toString(16).padStart(12, "0")}`
}

/** Its tokens do not cost `charge_nano`, which an audit would find. */
export function settled(id: string, charge_nano: bigint, changes: Partial<End> = {}): End {
  return {
    id,
    outcome: "settled",
    charge_nano,
    basis: "usage",
    ending: "completed",
    failure: null,
    notes: [],
    usage: { prompt_tokens: 3, cached_tokens: 1, completion_tokens: 2 },
    terms_id: SECOND,
    ttft_ms: 12,
    duration_ms: 34,
    freed_key_hash: null,
    ...changes,
  }
}

export function released(id: string, changes: Partial<End> = {}): End {
  return settled(id, 0n, {
    outcome: "released",
    basis: "none",
    ending: null,
    failure: "upstream_error",
    usage: null,
    terms_id: null,
    ttft_ms: null,
    ...changes,
  })
}

/** What an account's row says, and what its journal says instead, in one snapshot. */
export interface Standings {
  readonly account_id: string
  readonly balance_nano: bigint
  readonly held_nano: bigint
  readonly journal_balance_nano: bigint
  readonly journal_held_nano: bigint
}

export async function standings(sql: Sql): Promise<Standings[]> {
  const rows = await sql`
    SELECT a.id AS account_id, a.balance_nano, a.held_nano,
      (SELECT coalesce(sum(c.amount_nano), 0) FROM tollgate.credits c
        WHERE c.account_id = a.id AND (c.effective_at > c.created_at) IS NOT TRUE)
      + (SELECT coalesce(sum(CASE n.change WHEN 'started' THEN n.amount_nano ELSE -n.amount_nano END), 0)
        FROM tollgate.grant_entries n WHERE n.account_id = a.id AND n.change IN ('started', 'expired', 'voided'))
      - (SELECT coalesce(sum(x.charge_nano), 0) FROM tollgate.calls x WHERE x.account_id = a.id) AS journal_balance_nano,
      (SELECT coalesce(sum(x.amount_nano), 0) FROM tollgate.calls x WHERE x.account_id = a.id AND x.state = 'open')
        AS journal_held_nano
    FROM tollgate.accounts a ORDER BY a.id`
  return rows.map((row) => ({
    account_id: String(row.account_id),
    balance_nano: BigInt(row.balance_nano),
    held_nano: BigInt(row.held_nano),
    journal_balance_nano: BigInt(row.journal_balance_nano),
    journal_held_nano: BigInt(row.journal_held_nano),
  }))
}

/**
 * What is wrong with the ledger at this instant; empty if nothing is. `overdrawn`: whether a balance may be below
 * what is held.
 */
export async function violations(sql: Sql, { overdrawn = false } = {}): Promise<string[]> {
  return (await standings(sql)).flatMap((at) => {
    const wrong: string[] = []
    if (at.balance_nano !== at.journal_balance_nano) {
      wrong.push(`balance ${at.balance_nano}, journal ${at.journal_balance_nano}`)
    }
    if (at.held_nano !== at.journal_held_nano)
      wrong.push(`held ${at.held_nano}, journal ${at.journal_held_nano}`)
    if (!overdrawn && at.balance_nano < at.held_nano)
      wrong.push(`balance ${at.balance_nano}, held ${at.held_nano}`)
    return wrong
  })
}

/** A call as the view `calls` shows it: its hold, its end and its correction. */
export async function call(sql: Sql, id: string) {
  const [row] = await sql`SELECT * FROM tollgate.calls WHERE id = ${id}`
  return row ?? null
}

/** Changes entries of the journal, which the triggers refuse to everybody else (D55): none of them fires here. */
export async function falsify(sql: Sql, change: (tx: TransactionSql) => Promise<unknown>): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`SET LOCAL session_replication_role = replica`
    await change(tx)
  })
}

export async function keyOf(sql: Sql, { account_id }: Account, change: string): Promise<Account> {
  const key_id = crypto.randomUUID()
  await sql`INSERT INTO tollgate.keys (id, account_id, hash, prefix) VALUES (${key_id}, ${account_id}, ${key_id}, 'tg')`
  await sql.unsafe(`UPDATE tollgate.keys SET ${change} WHERE id = '${key_id}'`)
  return { account_id, key_id }
}

/** Resolves when `count` statements on this database wait for a lock. */
export async function lockWaiters(sql: Sql, count: number): Promise<void> {
  for (;;) {
    const [row] = await sql`SELECT count(*)::int AS waiting FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`
    if (row?.waiting >= count) return
    await Bun.sleep(2)
  }
}

/** The connection, and which statements it was asked for. */
export function recording(connection: DatabaseConnection): {
  readonly runner: Runner
  readonly asked: Statement[]
} {
  const asked: Statement[] = []
  const run: Runner["run"] = (statement, ...rest) => {
    asked.push(statement)
    return connection.run(statement, ...rest)
  }
  return { runner: { run }, asked }
}

/** What a promise was rejected with, by the name of the error's class. */
export function failureOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "nothing failed",
    (error: unknown) => (error instanceof Error ? error.name : String(error)),
  )
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5))
}

export function nth<Item>(list: readonly Item[], at: number): Item {
  const item = list[at]
  if (item === undefined) throw new Error(`there is no ${at}`)
  return item
}

/** Begins a transaction, which stays open until `commit`. `last` runs in it just before the commit. */
export async function openTransaction(
  sql: Sql,
  begin: (tx: TransactionSql) => Promise<unknown>,
  last: (tx: TransactionSql) => Promise<unknown> = async () => {},
): Promise<AsyncDisposable & { commit(): Promise<void> }> {
  const begun = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const transaction = sql.begin(async (tx) => {
    await begin(tx)
    begun.resolve()
    await released.promise
    await last(tx)
  })
  await Promise.race([begun.promise, transaction])
  const commit = async () => {
    released.resolve()
    await transaction
  }
  return { commit, [Symbol.asyncDispose]: commit }
}

/** Holds an account's row in a transaction of its own until `unlock` is called. */
export async function lockAccount(sql: Sql, account_id: string) {
  const { commit, ...lock } = await openTransaction(
    sql,
    (tx) => tx`SELECT FROM tollgate.accounts WHERE id = ${account_id} FOR UPDATE`,
  )
  return { ...lock, unlock: commit }
}

/** Writes a hold without the statement that checks it. */
export const insertHold = (
  tx: TransactionSql,
  { id, account_id, key_id, amount_nano, terms_id, stream }: Hold,
  gateway_id: string,
) => tx`INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, amount_nano, terms_id, stream)
  VALUES (${id}, ${account_id}, ${key_id}, ${gateway_id}, ${String(amount_nano)}, ${terms_id}, ${stream})`

/** Sweeps once as a new gateway. `onExpired` receives the number of expired calls. */
export async function sweepOnce(
  connection: DatabaseConnection,
  onExpired: (count: number) => void = () => {},
): Promise<void> {
  const lease = leaseOn(connection, LONG_LEASE)
  await lease.acquire(nextId())
  const sweeper = holdSweeper(connection, lease, onExpired, 0)
  await sweeper.run()
  sweeper.stop()
}

/** Deletes all sums (D72), and sums the hours again that had ended at this time; null for none. */
export async function sumAnew({ sql, database }: TestDatabase, until_ms: number | null): Promise<void> {
  for (const table of ["hours", "days", "hour_latencies", "day_latencies", "label_days"])
    await sql.unsafe(`TRUNCATE tollgate.${table}`)
  await sql`UPDATE tollgate.summed SET hours_until = NULL, days_until = NULL, labels_until = NULL`
  // The hours that end after that are not over yet.
  if (until_ms !== null) await sumHours(database.upkeep, () => false, Date.now() - until_ms - 1_800_000)
}

/** A process that runs a file of this folder, and reads its standard input. */
export const spawnFile = (name: string, told: object) =>
  Bun.spawn({
    cmd: [process.execPath, join(import.meta.dir, name)],
    stdin: new Blob([JSON.stringify(told)]),
    stdout: "pipe",
    stderr: "inherit",
  })

/** The settlements without a hold that an audit by this ledger lists (D13). */
export async function unheldIn(ledger: DatabaseLedger): Promise<readonly Violation[]> {
  const { violations } = await operatorLedger([ledger.operated]).audit({})
  return violations.filter(({ kind }) => kind === "unheld")
}
