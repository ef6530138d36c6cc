import { describe, expect, test } from "bun:test"
import { floorId, nextId } from "../../src/id.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import type { Runner } from "../../src/ledger/database/connection.ts"
import type { AttemptEntry, Hold } from "../../src/ledger/entries.ts"
import { attemptQueue } from "../../src/ledger/queue/attempts.ts"
import { Spool } from "../../src/ledger/queue/spool.ts"
import { attemptSums, sumAttempts } from "../../src/ledger/reports/attempts.ts"
import { getCall, getCallOf } from "../../src/ledger/reports/calls.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  falsify,
  filesIn,
  holdOf,
  ledgerAt,
  openTestDatabase,
  RENEWING,
  released,
  silent,
  testDatabase,
  until,
} from "./test-database.ts"

/** D93: an attempt that did not become the answer of its call is an entry of its own, written when it failed. */

const db = await testDatabase()

const attemptOf = ({ id, account_id }: Hold, changes: Partial<AttemptEntry> = {}): AttemptEntry => ({
  id,
  account_id,
  ordinal: 0,
  upstream: "first",
  ms: 12,
  ended_at: "2026-11-26T10:00:00.123Z",
  ...(changes.failure === undefined && { status: 503 }),
  ...changes,
})

const written = async ({ id }: Pick<Hold, "id">) => [
  ...(await db.sql`SELECT ordinal, upstream, upstream_key, status, failure, duration_ms, request_id, ended_at
    FROM tollgate.attempts WHERE id = ${id} ORDER BY ordinal`),
]
const untilWritten = (hold: Hold, count = 1) => until(async () => (await written(hold)).length === count)

async function held(ledger: { hold(hold: Hold): Promise<unknown> }): Promise<Hold> {
  const hold = holdOf(await db.account(1_000n), 100n)
  expect(await ledger.hold(hold)).toEqual({ outcome: "held" })
  return hold
}

describe("D93 an attempt", () => {
  test("is in the journal before its call ends, with all that is known of it, once however often it is delivered", async () => {
    const ledger = await db.ledger()
    const hold = await held(ledger)
    const first = attemptOf(hold, { key: 'a "key"', request_id: "req_1" })
    const second = attemptOf(hold, { ordinal: 1, upstream: "second", failure: "timeout" })
    for (const attempt of [first, first, second, first]) ledger.attempted(attempt)
    await untilWritten(hold, 2)
    const common = { duration_ms: 12, ended_at: new Date(first.ended_at) }
    expect(await written(hold)).toEqual([
      {
        ...common,
        ordinal: 0,
        upstream: "first",
        upstream_key: 'a "key"',
        status: 503,
        failure: null,
        request_id: "req_1",
      },
      {
        ...common,
        ordinal: 1,
        upstream: "second",
        upstream_key: null,
        status: null,
        failure: "timeout",
        request_id: null,
      },
    ])
    ledger.attempted({ ...first, status: 200 })
    await ledger.stop()
    expect(await written(hold)).toMatchObject([{ status: 503 }, { failure: "timeout" }])
  })

  test("is on the operator's record of the call, after what an older version wrote into its details, and not on the client's", async () => {
    const ledger = await db.ledger()
    const hold = await held(ledger)
    const { ended_at, ordinal, id, account_id, ...lost } = attemptOf(hold)
    ledger.attempted(attemptOf(hold))
    const older = { upstream: "older", failure: "broken", ms: 7 } as const
    await ledger.end(released(id, { details: { attempts: [older] } }))
    await ledger.stop()
    expect((await getCall(db.database.operators, id))?.attempts).toEqual([older, lost])
    expect((await getCallOf(db.database.operators, account_id, id))?.attempts).toBeUndefined()
  })

  test("that the database does not take is on the disk, and in the journal once it does", async () => {
    const proxy = await DatabaseProxy.start(db.address)
    const data_dir = await db.folder()
    const ledger = await ledgerAt(db, proxy.address, { data_dir })
    const hold = await held(ledger)
    proxy.refuse()
    ledger.attempted(attemptOf(hold))
    const spooled = async () => (await new Spool(data_dir, nextId(), silent).others())[0]?.attempts ?? []
    await until(async () => (await spooled()).length === 1)
    expect(await spooled()).toEqual([attemptOf(hold)])
    expect(await written(hold)).toEqual([])
    proxy.admit()
    await untilWritten(hold)
    await until(async () => (await filesIn(data_dir)).length === 0)
    await ledger.stop()
    await proxy.stop()
  })

  test("that another process left on the disk is written, once, and its file goes when that process is dead", async () => {
    const data_dir = await db.folder()
    const dead = await db.ledger()
    const hold = await held(dead)
    const { gateway_id } = dead
    await dead.stop()
    const spool = new Spool(data_dir, gateway_id, silent)
    spool.add({ attempt: attemptOf(hold) })
    await spool.settled()
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    const ledgers = [
      await db.ledger({ data_dir, lease: RENEWING }),
      await db.ledger({ data_dir, lease: RENEWING }),
    ]
    await untilWritten(hold)
    await until(async () => (await filesIn(data_dir)).length === 0)
    await Promise.all(ledgers.map((ledger) => ledger.stop()))
    expect(await written(hold)).toHaveLength(1)
  })

  test("without a hold is kept on the disk, and written when the call's end has written the hold again", async () => {
    const data_dir = await db.folder()
    const ledger = await db.ledger({ data_dir, lease: RENEWING })
    const hold = await held(ledger)
    await falsify(db.sql, async (tx) => {
      await tx`DELETE FROM tollgate.holds WHERE id = ${hold.id}`
      await tx`UPDATE tollgate.accounts SET held_nano = 0 WHERE id = ${hold.account_id}`
    })
    ledger.attempted(attemptOf(hold))
    await until(async () => (await filesIn(data_dir)).length === 1)
    expect(await written(hold)).toEqual([])
    await ledger.end(released(hold.id))
    await untilWritten(hold)
    await until(async () => (await filesIn(data_dir)).length === 0)
    await ledger.stop()
  })

  test("that a failover lost is written again after the outage", async () => {
    const proxy = await DatabaseProxy.start(db.address)
    const ledger = await ledgerAt(db, proxy.address, { lease: RENEWING })
    const hold = await held(ledger)
    ledger.attempted(attemptOf(hold))
    await untilWritten(hold)
    await falsify(db.sql, (tx) => tx`DELETE FROM tollgate.attempts WHERE id = ${hold.id}`)
    proxy.refuse()
    await until(() => !ledger.writable())
    proxy.admit()
    await untilWritten(hold)
    await ledger.end(released(hold.id))
    await ledger.stop()
    await proxy.stop()
  })

  test("of no call, or of another account, is found by the audit", async () => {
    const ledger = await db.ledger()
    const holds = [await held(ledger), await held(ledger)]
    for (const hold of holds) {
      ledger.attempted(attemptOf(hold))
      await ledger.end(released(hold.id))
    }
    await ledger.stop()
    const [lost, foreign] = holds.map(({ id }) => id)
    const found = async () => {
      const { violations } = await audit(db.database.operators)
      return violations.filter(({ kind }) => kind === "attempt").map(({ id }) => id)
    }
    expect(await found()).toEqual([])
    await falsify(db.sql, async (tx) => {
      await tx`DELETE FROM tollgate.holds WHERE id = ${lost ?? ""}`
      await tx`UPDATE tollgate.attempts SET account_id = gen_random_uuid() WHERE id = ${foreign ?? ""}`
    })
    expect((await found()).toSorted()).toEqual([lost ?? "", foreign ?? ""].toSorted())
    await falsify(db.sql, async (tx) => {
      for (const table of ["holds", "ends", "attempts"])
        await tx.unsafe(`DELETE FROM tollgate.${table} WHERE id IN ('${lost}', '${foreign}')`)
    })
  })
})

test("D93 attempts are counted by upstream, key, model and outcome, in a range of time, over several shards", async () => {
  const ledger = await db.ledger()
  const [hold, other] = [await held(ledger), await held(ledger)]
  const at = (hour: number) => `2027-03-01T${String(hour).padStart(2, "0")}:00:00.000Z`
  const entries = [
    attemptOf(hold, { ended_at: at(9) }),
    attemptOf(hold, { ended_at: at(10), ordinal: 1 }),
    attemptOf(hold, { ended_at: at(11), ordinal: 2 }),
    attemptOf(hold, { ended_at: at(11), ordinal: 3, key: "a", failure: "broken" }),
    attemptOf(other, { ended_at: at(11), upstream: "second" }),
    attemptOf(other, { ended_at: at(12), ordinal: 1 }),
  ]
  for (const entry of entries) ledger.attempted(entry)
  await ledger.stop()
  const range = { from: new Date(at(10)), to: new Date(at(12)) }
  const sums = (filter: object = {}) => sumAttempts(db.database.operators, { ...range, ...filter })
  const plain = { upstream: "first", upstream_key: null, model: "model", status: 503, failure: null }
  const broken = { ...plain, upstream_key: "a", status: null, failure: "broken" as const }
  const last_at = new Date(at(11))
  const first = { ...plain, attempts: 2, last_at }
  const second = { ...plain, upstream: "second", attempts: 1, last_at }
  const found = await sums()
  expect(found[0]).toEqual(first)
  expect(new Set(found)).toEqual(new Set([first, second, { ...broken, attempts: 1, last_at }]))
  expect(await sums({ upstream: "second" })).toEqual([second])
  expect(await sums({ account_id: other.account_id })).toEqual([second])
  expect(await sums({ model: "other" })).toEqual([])
  const later = { ...second, last_at: new Date(at(13)) }
  expect(await attemptSums.merge([[first], [later, second]])).toEqual([first, { ...later, attempts: 2 }])
})

describe("D93 each month gets a table for attempts", () => {
  test("by the next gateway, if one without attempts added it: a sealed one refuses entries, a detached one is not attached", async () => {
    const own = await openTestDatabase()
    await addMonths(own.database.upkeep)
    const months = await own.sql`SELECT month::text FROM tollgate.months ORDER BY month`
    const [first, second, third] = months.map(({ month }) => String(month).slice(0, 7).replace("-", "_"))
    await own.sql.begin(async (tx) => {
      for (const name of [first, second, third]) await tx.unsafe(`DROP TABLE tollgate.attempts_${name}`)
      await tx`INSERT INTO tollgate.seals (month, entries, calls, charge_nano, hash)
        SELECT min(month), 0, 0, 0, '' FROM tollgate.months`
      await tx`UPDATE tollgate.months SET detached_at = now() WHERE to_char(month, 'YYYY_MM') = ${second ?? ""}`
    })
    await Promise.all([addMonths(own.database.upkeep), addMonths(own.database.operators)])
    const rows = await own.sql`
      SELECT right(c.relname, 7) AS month, pg_get_expr(c.relpartbound, c.oid) IS NOT NULL AS is_attached,
        (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = 'in_month') AS bounds,
        (SELECT array_agg(t.tgname ORDER BY t.tgname)::text FROM pg_trigger t WHERE t.tgrelid = c.oid) AS triggers
      FROM pg_class c WHERE c.relname ~ '^attempts_\\d' AND c.relkind = 'r' ORDER BY c.relname`
    const at = (ahead: number) => {
      const now = new Date()
      return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1))
    }
    const below = (ahead: number) => `(id < '${floorId(at(ahead))}'::uuid)`
    const between = (ahead: number) =>
      `CHECK (((id >= '${floorId(at(ahead))}'::uuid) AND ${below(ahead + 1)}))`
    expect([...rows]).toEqual([
      {
        month: first,
        is_attached: true,
        bounds: `CHECK (${below(1)})`,
        triggers: "{entries_stay,month_is_sealed}",
      },
      { month: second, is_attached: false, bounds: between(1), triggers: "{entries_stay}" },
      { month: third, is_attached: true, bounds: between(2), triggers: "{entries_stay}" },
    ])
    await own.close()
  })

  test("and a month that was dropped gets none", async () => {
    const own = await openTestDatabase()
    await own.sql`UPDATE tollgate.months SET detached_at = now(), dropped_at = now()`
    const [{ month } = { month: "" }] =
      await own.sql`SELECT to_char(month, 'YYYY_MM') AS month FROM tollgate.months ORDER BY month`
    await own.sql.unsafe(`DROP TABLE tollgate.attempts_${month}`)
    await addMonths(own.database.upkeep)
    const [found] = await own.sql`SELECT to_regclass(${`tollgate.attempts_${month}`})::text AS made`
    expect(found?.made).toBeNull()
    await own.close()
  })
})

test("D93 attempts are remembered once, however often they are written again after outages", async () => {
  const own = db.connection()
  let rows = 0
  const run: Runner["run"] = (statement, values, within_ms, size = 1) => {
    rows += size
    return own.run(statement, values, within_ms, size)
  }
  const queue = attemptQueue({ run }, new Spool(await db.folder(), nextId(), silent), silent)
  const ledger = await db.ledger()
  const hold = await held(ledger)
  for (let ordinal = 0; ordinal < 10; ordinal += 1) void queue.write(attemptOf(hold, { ordinal }))
  await queue.drained()
  for (let outage = 0; outage < 5; outage += 1) {
    rows = 0
    queue.writeAgain(true)
    await queue.drained()
    expect(rows).toBe(10)
  }
  queue.stop()
  await own.end()
  await ledger.end(released(hold.id))
  await ledger.stop()
})
