import { describe, expect, test } from "bun:test"
import { archiveOf, detachMonth, dropMonth, noteDump } from "../../src/ledger/archive/archive.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { checkDump, dumpPart } from "../../src/ledger/archive/dump.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { checkSeal, listMonths, sealMonth } from "../../src/ledger/archive/seals.ts"
import { DAY_MS, HOUR_MS } from "../../src/ledger/database/span.ts"
import { EntriesArchived } from "../../src/ledger/entries.ts"
import { writeAttempts } from "../../src/ledger/queue/attempts.ts"
import { balanceAt } from "../../src/ledger/reports/balance.ts"
import { getCall, listCalls } from "../../src/ledger/reports/calls.ts"
import { checkDay, firstDay, sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { thrown } from "../support/thrown.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  failureOf,
  falsify,
  holdOf,
  idAt,
  lockWaiters,
  nth,
  openTransaction,
  settled,
  testGateway,
} from "./test-database.ts"

/** D75: months that are detached. One month goes all the way, so the tests are in its order. */

const CHARGE_NANO = 4_525n
const CALLS = 5
const running = () => false
/** The present month counts as kept long enough: a test cannot wait for it. */
const NOW = -1
const FOR_EVER = 1_200

let month: string
const ids: string[] = []
const made_at = new Date(Math.floor((Date.now() - 3 * DAY_MS) / DAY_MS) * DAY_MS + HOUR_MS)
const range = () => ({ from: new Date(made_at.getTime() - 2 * DAY_MS), to: new Date(), by: "model" as const })
const wholeDays = () => ({ ...range(), from: floorOf(range().from), to: floorOf(range().to) })
const floorOf = (at: Date) => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS)

const { db, connection, ask, end } = await testGateway()
const account = await db.account(1_000_000n)
await addMonths(db.database.upkeep)
const [row] = await db.sql`SELECT min(month)::text AS month FROM tollgate.months`
month = String(row?.month)
for (let at = 0; at < CALLS; at++) await settledAt(new Date(made_at.getTime() + at * HOUR_MS))
for (const [table, time] of [
  ["holds", "held_at"],
  ["ends", "ended_at"],
] as const)
  await falsify(db.sql, (tx) =>
    tx.unsafe(`UPDATE tollgate.${table} SET ${time} = '${made_at.toISOString()}'`),
  )
await db.sql`UPDATE tollgate.accounts SET created_at = '2020-01-01'`
await falsify(db.sql, (tx) => tx`UPDATE tollgate.credits SET created_at = '2020-01-01'`)
await sumHours(db.database.upkeep, running)

async function settledAt(at: Date): Promise<void> {
  const hold = holdOf(account, 10_000n, { id: idAt(at) })
  expect(await ask(hold)).toEqual([{ outcome: "held" }])
  await end(settled(hold.id, CHARGE_NANO))
  // In another order than theirs.
  for (const ordinal of [1, 0])
    await writeAttempts(connection, [
      {
        id: hold.id,
        account_id: account.account_id,
        ordinal,
        upstream: "first",
        status: 503,
        ms: 1,
        ended_at: at.toISOString(),
      },
    ])
  ids.push(hold.id)
}

const detach = (keep: number) => detachMonth(db.database.upkeep, () => db.database.connection(), keep)
const attached = async () => {
  const [row] = await db.sql`SELECT count(*)::int AS count FROM pg_inherits
    WHERE inhparent IN ('tollgate.holds'::regclass, 'tollgate.ends'::regclass, 'tollgate.corrections'::regclass, 'tollgate.attempts'::regclass)
      AND inhrelid::regclass::text LIKE ${`%${month.slice(0, 7).replace("-", "_")}`} AND NOT inhdetachpending`
  return row?.count
}
const violations = async (full = false) => (await audit(db.database.operators, { full })).violations

async function dumped(change = (line: string) => line): Promise<string[]> {
  const lines: string[] = []
  for (let from: string | null = null; ; ) {
    const part = await dumpPart(db.database.operators, month, from)
    if (part === null) throw new Error("there is no such month")
    lines.push(...part.lines.map(change))
    if (part.next === null) return lines
    from = part.next
  }
}
async function* each(lines: readonly string[]) {
  yield* lines
}

describe("D75: a month", () => {
  test("that is not sealed is not detached", async () => {
    expect(await detach(NOW)).toBeNull()
  })

  test("is detached only after it was kept as long as the configuration says, and sums reach beyond its seal", async () => {
    const over_ms = Date.now() - Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5, 7)), 1) - HOUR_MS
    expect(await sealMonth(db.database.upkeep, running, over_ms)).toEqual({ month, sealed: "sealed" })
    expect(await detach(NOW)).toBeNull()
    await falsify(
      db.sql,
      (tx) => tx`UPDATE tollgate.seals SET sealed_at = ${new Date(made_at.getTime() + HOUR_MS)}`,
    )
    expect(await detach(FOR_EVER)).toBeNull()
    expect(await attached()).toBe(4)
  })

  test("waits for the sinks that have not got its events, also for one that reads restored ones (D96)", async () => {
    await db.sql`INSERT INTO tollgate.sinks (id, name, url, allow_private, secret, epoch, is_restored, xid, event_id)
      SELECT id, 'billing', 'https://billing.example.com/', false, 'whsec_', id, false, '0', id
      FROM tollgate.feed_epochs ORDER BY number DESC LIMIT 1`
    expect(await detach(NOW)).toBeNull()
    await db.sql`UPDATE tollgate.sinks SET is_restored = true, xid = '9223372036854775807'`
    expect(await detach(NOW)).toBeNull()
    expect(await attached()).toBe(4)
    await db.sql`UPDATE tollgate.sinks SET is_restored = false`
  })

  test("is detached without a call that waits; what an older transaction delays is completed later", async () => {
    await falsify(db.sql, (tx) => tx`UPDATE tollgate.attempts SET xid = '3'`)
    const reading = await openTransaction(db.sql, (tx) => tx`SELECT count(*) FROM tollgate.holds`)
    const accounts = await db.sql.reserve()
    await accounts`BEGIN`
    await accounts`LOCK TABLE tollgate.accounts`
    const auditing = violations(true)
    await lockWaiters(db.sql, 1)
    // The rows of the test are like restored ones: another transaction than theirs wrote them.
    await db.sql`UPDATE tollgate.feed_epochs SET series = 2, xid = pg_current_xact_id()`
    const detaching = failureOf(detach(NOW))
    await lockWaiters(db.sql, 2)
    await accounts`COMMIT`
    accounts.release()
    // It was to read the month that is gone.
    expect(await auditing).toEqual([])
    const next = new Date(`${month}T00:00:00Z`)
    next.setUTCMonth(next.getUTCMonth() + 1)
    await settledAt(next)
    ids.pop()
    expect(await detaching).toBe("PostgresError")
    await reading.commit()
    expect(await Promise.all([detach(NOW), detach(NOW)])).toContain(month)
    const [last] = await db.sql`SELECT last_series, last_xid FROM tollgate.months WHERE month = ${month}`
    expect(last).toMatchObject({ last_series: 1, last_xid: expect.any(String) })
    expect(await attached()).toBe(0)
    expect(await detach(NOW)).toBeNull()
  })

  test("that is detached leaves balances, the audit, sums and its seal as they were", async () => {
    const { operators } = db.database
    expect(await violations()).toEqual([])
    expect(await violations(true)).toEqual([])
    const { total } = await sumUsage(operators, wholeDays())
    expect(total).toMatchObject({ calls: CALLS, charge_nano: BigInt(CALLS) * CHARGE_NANO })
    expect(await balanceAt(operators, account.account_id, floorOf(made_at))).toMatchObject({
      balance_nano: 1_000_000n,
    })
    expect(await checkSeal(operators, month, null)).toMatchObject({ matches: true })
    expect((await listMonths(operators)).at(-1)?.detached_at).toBeInstanceOf(Date)
  })

  test("that is detached has no calls any more, but is known by their ids", async () => {
    const { operators } = db.database
    const [id = ""] = ids
    expect(await getCall(operators, id)).toBeNull()
    expect(await archiveOf(operators, id)).toMatchObject({ month, archive: null })
    expect(await archiveOf(operators, "ffffffff-0000-7000-8000-000000000000")).toBeNull()
    expect((await listCalls(operators, {}, { limit: 10, after: null })).data).toHaveLength(1)
  })

  test("that is detached does not answer what needs its entries, and its days are not summed up again", async () => {
    const { operators } = db.database
    for (const [from, by] of [
      [range().from, "model"],
      [wholeDays().from, "session"],
    ] as const)
      expect(
        await thrown(
          sumUsage(operators, {
            ...wholeDays(),
            from: new Date(from.getTime() + (by === "model" ? 1 : 0)),
            by,
          }),
        ),
      ).toBeInstanceOf(EntriesArchived)
    expect(await checkDay(operators, floorOf(made_at))).toBeNull()
    expect(await firstDay(operators)).toBeNull()
    const { total } = await sumUsage(operators, wholeDays())
    expect(total.calls).toBe(CALLS)
  })

  test("is dumped in lines that prove the seal; a line that is changed, lost or added is found", async () => {
    const lines = await dumped()
    const [, , seal] = await listMonths(db.database.operators)
    expect(await checkDump(each(lines))).toEqual({
      month,
      hash: seal?.seal?.hash ?? "",
      entries: 4 * CALLS,
      fault: null,
    })
    const first = lines.filter((line) => line.includes(nth(ids.toSorted(), 0)))
    expect(first.map((line) => line.slice(0, 6))).toEqual(['{"hold', '{"end"', '{"atte', '{"atte'])
    expect(first.slice(2).map((line) => JSON.parse(line).attempt.ordinal)).toEqual([0, 1])
    const forgeries: Record<string, string[]> = {
      "an attempt": lines.map((line) => line.replace('"status": 503', '"status": 500')),
      "a charge": lines.map((line) => line.replace(`"charge_nano": ${CHARGE_NANO}`, '"charge_nano": 1')),
      "a missing entry": lines.slice(0, -1),
      "an entry twice": [...lines, nth(lines, lines.length - 1)],
      "an hour": lines.map((line) =>
        line.startsWith('{"hour"') ? line.replace('"hash": "', '"hash": "0') : line,
      ),
      "a sum": lines.filter((line) => !line.startsWith('{"sum"')),
    }
    for (const [what, forged] of Object.entries(forgeries))
      expect([what, (await checkDump(each(forged))).fault]).not.toEqual([what, null])
  })

  test("is dropped only when a dump with the hash of its seal was noted", async () => {
    const { operators } = db.database
    const { hash } = await checkDump(each(await dumped()))
    expect(await dropMonth(operators, month)).toBe("different")
    const archive = "s3://backups/one.gz"
    expect(await noteDump(operators, month, { hash: "0".repeat(64), archive })).toBe("different")
    expect(await noteDump(operators, "1999-01-01", { hash, archive })).toBe("unsealed")
    expect(await dropMonth(operators, month)).toBe("different")
    expect(await noteDump(operators, month, { hash, archive })).toBe("done")
    expect(await dropMonth(operators, month)).toBe("done")
    expect(await dropMonth(operators, month)).toBe("done")
    const [row] =
      await db.sql`SELECT to_regclass(${`tollgate.holds_${month.slice(0, 7).replace("-", "_")}`}) AS name`
    expect(row?.name).toBeNull()
    expect(await archiveOf(operators, nth(ids, 0))).toMatchObject({ month, archive })
    expect(await checkSeal(operators, month, null)).toBeNull()
    expect(await dumpPart(operators, month, null)).toBeNull()
    expect(await violations()).toEqual([])
    expect(await violations(true)).toEqual([])
    expect((await sumUsage(operators, wholeDays())).total.calls).toBe(CALLS)
  })

  test("of which a settlement comes late moves no money", async () => {
    const late = holdOf(account, 10_000n, { id: nth(ids, 0) })
    expect(await end(settled(late.id, 1n))).toEqual(["none"])
    expect(await violations()).toEqual([])
  })
})
