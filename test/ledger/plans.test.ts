import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { nextId } from "../../src/id.ts"
import { type AccountFilter, listAccounts } from "../../src/ledger/accounts/accounts.ts"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { connect } from "../../src/ledger/database/address.ts"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import { connectDatabase } from "../../src/ledger/database/database.ts"
import { DAY_MS, HOUR_MS } from "../../src/ledger/database/span.ts"
import { statement } from "../../src/ledger/database/statement.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { checkpointsOn } from "../../src/ledger/money/checkpoints.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { endExactly } from "../../src/ledger/money/end-exact.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { holdExactly } from "../../src/ledger/money/hold-exact.ts"
import { forgetIdempotency, keptAnswers } from "../../src/ledger/money/idempotency-claims.ts"
import { LastUsed } from "../../src/ledger/money/last-used.ts"
import { type Lease, leaseOn } from "../../src/ledger/money/lease.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { readStandings } from "../../src/ledger/queue/standings.ts"
import { holdSweeper } from "../../src/ledger/queue/sweep.ts"
import { balanceAt } from "../../src/ledger/reports/balance.ts"
import { getCallOf, listCalls } from "../../src/ledger/reports/calls.ts"
import { latencies } from "../../src/ledger/reports/latency.ts"
import { outcomes } from "../../src/ledger/reports/outcomes.ts"
import { timelineCells } from "../../src/ledger/reports/timeline.ts"
import { accountSorts } from "../../src/wire/admin-query.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  type Account,
  checkpointOf,
  holdOf,
  LONG_LEASE,
  nth,
  openTestDatabase,
  released,
  settled,
  type TestDatabase,
} from "./test-database.ts"

/**
 * A statement is planned when a connection has run it some times, maybe on a new database; the plan stays while the
 * tables grow. So no plan may read a table of calls, accounts or keys from its beginning to its end.
 */

/** After five executions the server may keep a plan for all values. */
const EXECUTIONS = 12
const PLENTY = 20_000
/** No statement of some calls reads more rows of a table. */
const MANY = 100
/**
 * The same where rows change: versions of a row that a transaction in another database of the server keeps from being
 * removed are read, too: 5,548 beside one that was open for minutes. A bad plan reads all rows.
 */
const MANY_VERSIONS = PLENTY / 2
const CHANGING = /^(accounts|keys)/
const GROWING = ["holds", "ends", "corrections", "accounts", "keys", "idempotency"]

let db: TestDatabase
/** All statements go over this one, whose plans are kept. */
let connection: DatabaseConnection
let gateway_id: string
let accounts: Account[]
let limited: Account
let sweeper: ReturnType<typeof holdSweeper>
let swept = 0

const answers = () => keptAnswers(connection)

beforeAll(open)

async function open(): Promise<void> {
  db = await openTestDatabase()
  // What vacuum learns of a table makes plans anew, which would hide a bad one.
  await addMonths(db.database.upkeep)
  const tables =
    await db.sql`SELECT tablename FROM pg_tables JOIN pg_class c ON c.oid = (schemaname || '.' || tablename)::regclass
    WHERE schemaname = 'tollgate' AND c.relkind = 'r'`
  for (const { tablename } of tables)
    await db.sql.unsafe(`ALTER TABLE tollgate.${tablename} SET (autovacuum_enabled = false)`)
  connection = db.connection()
  gateway_id = await db.gateway()
  accounts = await Promise.all(Array.from({ length: 8 }, () => db.account(1_000_000_000n)))
  limited = await db.account(1_000_000_000n)
  await changeKey(db.database.operators, limited.key_id, { spending })
}

/** A lease that has been renewed without a gap for as long as it lasts, so that others may be declared dead by it. */
async function steadyLease(): Promise<Lease> {
  const steady = leaseOn(connection, { renew_ms: 10, expire_ms: 100 })
  await steady.acquire(nextId())
  while (!steady.steady) await steady.renew(nextId())
  await db.sql`UPDATE tollgate.gateways SET lease_until = now() + interval '1 hour' WHERE id = ${steady.gateway_id}`
  return steady
}
afterAll(() => db.close())

const spending = { limit_nano: 900_000_000n, period: "month" } as const

let made = 0
const claim = () => ({ key_hash: (++made).toString(16).padStart(64, "0"), body_hash: "0".repeat(64) })
const account = (at: number) => nth(accounts, at % accounts.length)

async function held(holds: readonly Hold[], under = gateway_id): Promise<readonly Hold[]> {
  const results = await holdBatch(connection, under, holds, 300)
  expect(results.map(({ outcome }) => outcome)).toEqual(holds.map(() => "held"))
  return holds
}
async function ended(holds: readonly Hold[]): Promise<void> {
  const items = holds.map((hold) => ({ end: settled(hold.id, 4n), hold }))
  await endBatch(connection, items, 300)
}
const several = () => [0, 1, 2, 2, 3].map((at) => holdOf(account(at), 10n))
const ofLimited = () => [1, 2].map(() => holdOf(limited, 10n, { is_limited: true }))
const ofOneKey = () => [1, 2, 3].map(() => holdOf(account(0), 10n))

/** Everything that is asked by statements whose plans are kept. */
const work: Record<string, () => Promise<unknown>> = {
  "hold one": () => held([holdOf(account(0), 10n)]),
  "hold several": () => held(several()),
  "hold several of one key": () => held(ofOneKey()),
  "hold exactly": () =>
    held([
      ...several().map((hold) => ({ ...hold, idempotency: claim() })),
      holdOf(limited, 10n),
      { ...holdOf(limited, 10n), idempotency: claim() },
    ]),
  "hold limited": () => held(ofLimited()),
  "hold again": async () => {
    const holds = await held(several())
    await holdExactly(connection, gateway_id, holds, 300, 1_000)
    return holdBatch(connection, gateway_id, holds, 300)
  },
  "end one": async () => ended(await held([holdOf(account(1), 10n)])),
  "end several": async () => ended(await held(several())),
  "end several of one account": async () => ended(await held(ofOneKey())),
  "end limited": async () => ended(await held(ofLimited())),
  "end exactly": async () => {
    const claims = several().map((hold) => ({ ...hold, idempotency: claim() }))
    const holds = await held([...claims, holdOf(limited, 10n)])
    const ends = holds.map(({ id, idempotency }) =>
      idempotency === null ? settled(id, 4n) : released(id, { freed_key_hash: idempotency.key_hash }),
    )
    await endExactly(connection, [...ends, released(nextId())], 300, 5_000)
  },
  "expire, and correct": async () => {
    const holds = await held([...several(), holdOf(limited, 10n)])
    await expireBatch(connection, holds, 300)
    await endExactly(
      connection,
      holds.map(({ id }) => settled(id, 4n)),
      300,
      5_000,
    )
  },
  restore: () => restoreBatch(connection, gateway_id, several(), 300),
  checkpoint: async () => {
    const checkpoints = checkpointsOn(
      connection,
      () => gateway_id,
      () => false,
    )
    const running = several().map(({ id }) => checkpointOf(id, 1n))
    await checkpoints.write(running)
    await checkpoints.write([])
  },
  lease: async () => {
    const lease = leaseOn(connection, LONG_LEASE)
    await lease.acquire(nextId())
    await lease.renew(nextId())
    await lease.release()
  },
  sweep: async () => {
    const dead = leaseOn(connection, LONG_LEASE)
    await dead.acquire(nextId())
    const holds = await held(several(), dead.gateway_id)
    await db.sql`UPDATE tollgate.gateways SET lease_until = now() - interval '1 s' WHERE id = ${dead.gateway_id}`
    const before = swept
    await sweeper.run()
    expect(swept - before).toBe(holds.length)
  },
  standing: () =>
    readStandings(
      connection,
      accounts.map(({ key_id }) => key_id),
      0,
    ),
  "last used": async () => {
    const used = new LastUsed()
    for (const { key_id } of accounts) used.note(key_id)
    await used.write(connection)
  },
  answers: async () => {
    const kept = answers()
    const call_id = nextId()
    await kept.keep({ call_id, body: "{}", keep_ms: 60_000 })
    expect(await kept.find(call_id)).toBe("{}")
    kept.stop()
    await forgetIdempotency(connection)
  },
}

const flush = statement("sweep", sql`SELECT pg_stat_force_next_flush()`)

/** Rows of the table that were read so far: from its beginning on, and by its indexes. */
async function readOf(): Promise<Map<string, number>> {
  await connection.run(flush, [], 1_000)
  const rows = await db.sql`SELECT t.relname,
      (t.seq_tup_read + coalesce((SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0))::int AS read
    FROM pg_stat_user_tables t WHERE t.schemaname = 'tollgate' AND t.relname ~ ${`^(${GROWING.join("|")})`}`
  return new Map(rows.map(({ relname, read }) => [String(relname), Number(read)]))
}

/** What of all this reads more than the rows of its calls: of which table, and how many. */
async function excessive(): Promise<string[]> {
  const found: string[] = []
  for (const [name, run] of Object.entries(work)) {
    // What another session read before can be reported meanwhile, but only once: a bad plan reads as much again.
    const first = await readBy(run)
    const rows = first.length > 0 ? await readBy(run) : []
    found.push(...rows.map((table) => `${name}: ${table}`))
  }
  return found
}

async function readBy(run: () => Promise<unknown>): Promise<string[]> {
  const before = await readOf()
  await run()
  return [...(await readOf())].flatMap(([table, read]) => {
    const rows = read - (before.get(table) ?? 0)
    return rows > (CHANGING.test(table) ? MANY_VERSIONS : MANY) ? [`${rows} of ${table}`] : []
  })
}

const onExpired = (count: number) => {
  swept += count
}

/** Plans of its own for every statement, made now. */
async function makePlans(): Promise<void> {
  connection = db.connection()
  sweeper = holdSweeper(connection, await steadyLease(), onExpired, 0)
  for (let times = 0; times < EXECUTIONS; times++) for (const run of Object.values(work)) await run()
}

async function fill(): Promise<void> {
  const uuid = (offset: number) =>
    `(lpad(to_hex(1700000000000 + n), 12, '0') || '7000' || '8000' || lpad(to_hex(n + ${offset}), 12, '0'))::uuid`
  await db.sql.unsafe(`
    INSERT INTO tollgate.accounts (id, name) SELECT ${uuid(1)}, 'a' FROM generate_series(1, ${PLENTY}) n;
    INSERT INTO tollgate.keys (id, account_id, hash, prefix)
      SELECT ${uuid(2)}, ${uuid(1)}, 'hash ' || n, 'tg' FROM generate_series(1, ${PLENTY}) n;
    INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, amount_nano, terms_id, stream)
      SELECT ${uuid(3)}, ${uuid(1)}, ${uuid(2)}, '${gateway_id}', 1, 1, false FROM generate_series(1, ${PLENTY}) n;
    INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, terms_id, outcome, basis)
      SELECT ${uuid(3)}, ${uuid(1)}, ${uuid(2)}, 0, 1, 1, 'released', 'none' FROM generate_series(1, ${PLENTY}) n;
    INSERT INTO tollgate.corrections (id, account_id, key_id, charge_nano, difference_nano, terms_id, basis)
      SELECT ${uuid(3)}, ${uuid(1)}, ${uuid(2)}, 0, 0, 1, 'none' FROM generate_series(1, ${PLENTY / 10}) n;
    INSERT INTO tollgate.idempotency (account_id, key_hash, body_hash, call_id, claimed_at)
      SELECT ${uuid(1)}, 'hash ' || n, 'body', ${uuid(3)}, now() - n * interval '1 ms' FROM generate_series(1, ${PLENTY / 10}) n;`)
}

describe("no statement reads a growing table from its beginning to its end", () => {
  test("planned on tables that were analysed with a row each, which are full now", async () => {
    await makePlans()
    await db.sql`VACUUM FULL`
    await db.sql`UPDATE pg_class SET reltuples = 1, relpages = 1
      WHERE relnamespace = 'tollgate'::regnamespace AND relkind IN ('r', 'p')`
    await makePlans()
    await fill()
    expect(await excessive()).toEqual([])
    await db.close()
    await open()
  })

  test("planned on empty tables, which are full now", async () => {
    await makePlans()
    const kept = statement(
      "sweep",
      sql`SELECT count(*)::int AS plans FROM pg_prepared_statements WHERE generic_plans > 0`,
    )
    expect(Number((await connection.run(kept, [], 1_000))[0]?.plans)).toBeGreaterThan(5)
    await fill()
    expect(await excessive()).toEqual([])
  })

  test("planned on full tables that nobody has analysed", async () => {
    await makePlans()
    expect(await excessive()).toEqual([])
  })

  test("planned anew on full tables that are analysed", async () => {
    await db.sql`ANALYZE`
    await makePlans()
    expect(await excessive()).toEqual([])
  })

  test("nor does what operators and clients ask for by an id, an account or a page", async () => {
    const client = connect(db.address, { max: 1, onnotice: () => {} })
    const database = drizzle(client)
    const [hold] = await held([holdOf(account(1), 10n)])
    if (hold === undefined) throw new Error("nothing is held")
    // Everything is closed: what is not is read from the entries, of which this test has no others.
    const next_hour = new Date(Math.ceil(Date.now() / HOUR_MS) * HOUR_MS)
    await db.sql`UPDATE tollgate.summed SET hours_until = ${next_hour}, days_until = ${next_hour}`
    const quarter = { from: new Date(next_hour.getTime() - 92 * DAY_MS), to: next_hour }
    const asked: Record<string, () => Promise<unknown>> = {
      receipt: () => getCallOf(database, hold.account_id, hold.id),
      "calls of everybody": () => listCalls(database, {}, { limit: 100, after: null }),
      "calls of an account": () =>
        listCalls(database, { account_id: hold.account_id }, { limit: 100, after: hold.id }),
      "calls of a key": () => listCalls(database, { key_id: hold.key_id }, { limit: 100, after: null }),
      "calls of a range": () =>
        listCalls(
          database,
          { from: new Date(1_700_000_000_000), to: new Date() },
          { limit: 100, after: null },
        ),
      "open calls": () => listCalls(database, { state: "open" }, { limit: 100, after: null }),
      "calls of a model": () => listCalls(database, { model: "other" }, { limit: 100, after: null }, 1_000),
      terms: () => registerTerms(database, []),
      usage: () => sumUsage(database, { ...quarter, by: "account" }),
      "usage of a key": () => sumUsage(database, { ...quarter, by: "day", key_id: hold.key_id }),
      timeline: () => timelineCells(database, quarter, "model", ["other"]),
      latency: () => latencies(database, quarter),
      outcomes: () => outcomes(database, quarter),
      "past balance": () => balanceAt(database, hold.account_id, quarter.from),
      start: async () => (await connectDatabase(db.address)).close(),
    }
    const scans = async () => {
      await client`SELECT pg_stat_force_next_flush()`
      // A scan of a month in which nothing has happened yet reads nothing.
      const rows = await client`SELECT relname, seq_tup_read::int AS read FROM pg_stat_user_tables
        WHERE schemaname = 'tollgate' AND relname ~ '^(holds|ends|corrections)_' ORDER BY relname`
      return rows.map(({ relname, read }) => [relname, read])
    }
    let before = await scans()
    expect(before.length).toBeGreaterThanOrEqual(3)
    for (const [name, run] of Object.entries(asked)) {
      const read = async () => {
        // Often enough for a kept plan.
        for (let times = 0; times < EXECUTIONS; times++) await run()
        return await scans()
      }
      const after = await read()
      if (Bun.deepEquals(after, before)) continue
      // Other connections tell what they have read up to 10 s later. What scans does so every time.
      before = after
      expect([name, await read()]).toEqual([name, before])
    }
    await client.end()
  })

  test("nor does one that sets a spending limit, under the account's lock", async () => {
    const client = connect(db.address, { max: 1, onnotice: () => {} })
    const read = async () => {
      await client`SELECT pg_stat_force_next_flush()`
      const all = await readOf()
      const journal = [...all].filter(([name]) => /^(holds|ends|corrections)_/.test(name))
      return journal.reduce((sum, [, rows]) => sum + rows, 0)
    }
    const before = await read()
    await changeKey(drizzle(client), limited.key_id, { spending })
    const [row] =
      await db.sql`SELECT count(*)::int AS calls FROM tollgate.holds WHERE account_id = ${limited.account_id}`
    expect(row?.calls).toBeGreaterThan(100)
    expect((await read()) - before).toBeLessThan(10 * row?.calls)
    await client.end()
  })

  test("a page of accounts reads its own rows; one that is searched or sorted reads each account once", async () => {
    const client = connect(db.address, { max: 1, onnotice: () => {} })
    const database = drizzle(client)
    const rowsOf = async (asked: AccountFilter, after: string | null = null) => {
      const count = async () => {
        await client`SELECT pg_stat_force_next_flush()`
        return (await readOf()).get("accounts") ?? 0
      }
      const before = await count()
      const { next } = await listAccounts(database, { limit: 50, after }, asked)
      return { next, rows: (await count()) - before }
    }
    const newest = await rowsOf({})
    const pages = [newest, await rowsOf({}, newest.next), await rowsOf({ external_id: "none" })]
    expect(pages.filter(({ rows }) => rows > MANY_VERSIONS)).toEqual([])
    const searched = await rowsOf({ search: "none" })
    expect(searched.rows).toBeGreaterThanOrEqual(PLENTY)
    const all = [searched]
    for (const sort of accountSorts) {
      const first = await rowsOf({ sort })
      all.push(first, await rowsOf({ sort, search: "a" }, first.next))
    }
    expect(all.filter(({ rows }) => rows > PLENTY + MANY_VERSIONS)).toEqual([])
    await client.end()
  })
})
