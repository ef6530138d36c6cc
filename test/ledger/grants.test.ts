import { expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { getAccount } from "../../src/ledger/accounts/accounts.ts"
import { type CreditOrder, credit, voidCredit } from "../../src/ledger/accounts/credits.ts"
import { openGrants } from "../../src/ledger/accounts/grants.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import type { End, Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { sweepGrants } from "../../src/ledger/money/grants.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { balanceAt } from "../../src/ledger/reports/balance.ts"
import {
  type Account,
  falsify,
  holdOf,
  nth,
  patience,
  recording,
  settled,
  testGateway,
} from "./test-database.ts"

/** D95: credit grants and the credit line, on a real Postgres. */

const { db, connection, gateway_id } = await testGateway()

const inMs = (ms: number) => new Date(Date.now() + ms)
const DAY_MS = 86_400_000

async function grant(account: Account, amount_nano: bigint, order: Partial<CreditOrder> = {}) {
  const { account_id } = account
  return credit(db.database.operators, { id: nextId(), account_id, amount_nano, reason: null, ...order })
}

async function granted(account: Account, amount_nano: bigint, order: Partial<CreditOrder> = {}) {
  const made = await grant(account, amount_nano, order)
  if (!("credit" in made)) throw new Error(`the credit is ${made.outcome}`)
  return made.credit.id
}

async function attempt(hold: Hold, runner: DatabaseConnection = connection): Promise<string> {
  for (;;) {
    const [held] = await holdBatch(runner, gateway_id, [hold], 1_000)
    if (held?.outcome !== "conflict") return held?.outcome ?? ""
  }
}

async function end(one: End, hold: Hold | null = null, runner: DatabaseConnection = connection) {
  for (;;) {
    const [ended] = await endBatch(runner, [{ end: one, hold }], 1_000)
    if (ended !== "conflict") return ended
  }
}

async function spend(account: Account, amount_nano: bigint) {
  const hold = holdOf(account, amount_nano)
  expect(await attempt(hold)).toBe("held")
  await end(settled(hold.id, amount_nano), hold)
}

/** Moves the dates of an account's grants to now, as if their time had come. */
async function hasten({ account_id }: Account, column: "starts_at" | "expires_at"): Promise<void> {
  await falsify(db.sql, (tx) =>
    tx.unsafe(`UPDATE tollgate.grants SET ${column} = now() WHERE account_id = '${account_id}' AND ${column} IS NOT NULL;
    UPDATE tollgate.credits SET ${column === "starts_at" ? "effective_at" : column} = now()
    WHERE account_id = '${account_id}' AND expires_at IS NOT NULL;
    UPDATE tollgate.accounts SET next_change_at = now() WHERE id = '${account_id}'`),
  )
}

async function left({ account_id }: Account): Promise<bigint[]> {
  await getAccount(db.database.operators, account_id)
  return (await openGrants(db.database.operators, account_id)).map(({ left_nano }) => left_nano)
}

const balance = async ({ account_id }: Account) =>
  (await getAccount(db.database.operators, account_id))?.balance_nano

/** The charges of these calls are not those of their tokens. */
async function faults() {
  const { violations } = await audit(db.database.operators, { settle_ms: 0 })
  return violations.filter(({ kind }) => kind !== "charge")
}

test("D95: credits of an account without dates and priorities are no grants, and are drawn by age", async () => {
  const account = await db.account(10n)
  await granted(account, 20n, { kind: "payment" })
  await spend(account, 15n)
  expect(await left(account)).toEqual([15n])
  const [row] = await db.sql`SELECT next_change_at FROM tollgate.accounts WHERE id = ${account.account_id}`
  expect(row?.next_change_at).toBeNull()
  await granted(account, 7n, { expires_at: inMs(DAY_MS) })
  await granted(account, 3n, { priority: 40 })
  expect(await left(account)).toEqual([3n, 7n, 15n])
})

test("D95: a void takes back what is unused, once, also before the grant is effective", async () => {
  const account = await db.account(10n)
  const used = await granted(account, 40n, { priority: 1 })
  const later = await granted(account, 5n, { effective_at: inMs(DAY_MS) })
  await spend(account, 15n)
  const undo = async (id: string) => {
    const made = await voidCredit(db.database.operators, id, "by mistake")
    return made !== null && "credit" in made
      ? [made.outcome, made.credit.left_nano, made.credit.voided_nano, made.account.balance_nano]
      : made
  }
  expect(await undo(used)).toEqual(["voided", 0n, 25n, 10n])
  expect(await undo(used)).toEqual(["known", 0n, 25n, 10n])
  expect(await undo(later)).toEqual(["voided", 0n, 5n, 10n])
  expect(await undo(nextId())).toBeNull()
  const [entry] =
    await db.sql`SELECT reason FROM tollgate.grant_entries WHERE credit_id = ${used} AND change = 'voided'`
  expect(entry?.reason).toBe("by mistake")
  expect(await undo(await granted(account, -3n))).toEqual({ outcome: "no_grant" })
  expect((await balanceAt(db.database.operators, account.account_id, inMs(-DAY_MS)))?.balance_nano).toBe(0n)
  expect(await faults()).toEqual([])
})

test("D95: a payment's reference credits once, for one account and one amount", async () => {
  const [account, other] = [await db.account(0n), await db.account(0n)]
  const source_ref = `pi_${nextId()}`
  const made = await Promise.all(Array.from({ length: 8 }, () => grant(account, 25n, { source_ref })))
  expect(made.map(({ outcome }) => outcome).sort()).toEqual(["credited", ...Array(7).fill("known")])
  expect(await balance(account)).toBe(25n)
  expect(await grant(account, 26n, { source_ref })).toEqual({ outcome: "conflict", field: "source_ref" })
  expect(await grant(other, 25n, { source_ref })).toEqual({ outcome: "conflict", field: "source_ref" })
  expect(await grant(other, 1n, { expires_at: inMs(-1_000) })).toEqual({ outcome: "expired" })
})

test("D95: an account whose grants cannot be changed delays only its own calls", async () => {
  const [account, other] = [await db.account(10n), await db.account(10n)]
  await granted(account, 5n, { expires_at: inMs(DAY_MS) })
  const ledger = await db.ledger()
  const [blocked, free] = [holdOf(account, 3n), holdOf(other, 3n)]
  expect(
    (await Promise.all([ledger.hold(blocked), ledger.hold(free)])).map(({ outcome }) => outcome),
  ).toEqual(["held", "held"])
  await hasten(account, "expires_at")
  const ended: string[] = []
  const end = (hold: Hold) =>
    ledger.end(settled(hold.id, 3n)).then(() => {
      ended.push(hold.id)
    })
  const first = await db.sql.begin(async (tx) => {
    await tx`SELECT FROM tollgate.grants WHERE account_id = ${account.account_id} FOR UPDATE`
    const ends = { blocked: end(blocked), free: end(free) }
    await ends.free
    expect(ended).toEqual([free.id])
    expect((await ledger.hold(holdOf(other, 1n))).outcome).toBe("held")
    await expect(sweepGrants(connection)).rejects.toThrow("lock timeout")
    return { blocked: ends.blocked }
  })
  await first.blocked
  expect(await balance(account)).toBe(10n)
  expect(await balance(other)).toBe(7n)
})

test("D95: only the end of a call with pinned money makes a change due", async () => {
  const account = await db.account(100n)
  await granted(account, 10n, { priority: 10, expires_at: inMs(DAY_MS) })
  const pinning = holdOf(account, 10n)
  expect(await attempt(pinning)).toBe("held")
  await hasten(account, "expires_at")
  await left(account)
  const next = async () => {
    const [row] =
      await db.sql`SELECT next_change_at::text FROM tollgate.accounts WHERE id = ${account.account_id}`
    return row?.next_change_at
  }
  await spend(account, 1n)
  expect(await next()).toBe("-infinity")
  await end(settled(pinning.id, 4n), pinning)
  expect(await next()).toStartWith("1970-01-01")
})

test("D95: the sweep changes other accounts although one is locked", async () => {
  const made = await Promise.all(Array.from({ length: 3 }, () => db.account(0n)))
  for (const account of made) {
    await granted(account, 10n, { expires_at: inMs(DAY_MS) })
    await hasten(account, "expires_at")
  }
  const ids = made.map(({ account_id }) => account_id).sort()
  await db.sql.begin(async (tx) => {
    await tx`SELECT FROM tollgate.accounts WHERE id = ${nth(ids, 0)} FOR UPDATE`
    await expect(sweepGrants(connection)).rejects.toThrow("lock timeout")
  })
  const rows =
    await db.sql`SELECT balance_nano FROM tollgate.accounts WHERE id = ANY (${ids}::uuid[]) ORDER BY id`
  expect(rows.map(({ balance_nano }) => balance_nano)).toEqual(["10", "0", "0"])
})

test("D95: accounts without a due change stay with the lean statements", async () => {
  const account = await db.account(10n)
  await granted(account, 40n, { expires_at: inMs(DAY_MS) })
  const { runner, asked } = recording(connection)
  const hold = holdOf(account, 5n)
  await holdBatch(runner, gateway_id, [hold], 300)
  await endBatch(runner, [{ end: settled(hold.id, 5n), hold }], 300)
  expect(asked.map(({ is_lean }) => is_lean)).toEqual([true, true])
})

/** Sums of an account's ended calls, of those held after the expiry of the credit, and of the credit's grant entries. */
async function spentOf({ account_id }: Account, credit_id: string) {
  const [row] = await db.sql`SELECT sum(e.charge_nano)::text AS charged,
      coalesce(sum(e.charge_nano) FILTER (WHERE h.held_at >= c.expires_at), 0)::text AS late,
      (SELECT coalesce(sum(n.amount_nano) FILTER (WHERE n.change = 'drawn'), 0) FROM tollgate.grant_entries n WHERE n.credit_id = c.id)::text AS drawn,
      (SELECT coalesce(sum(n.amount_nano) FILTER (WHERE n.change = 'expired'), 0) FROM tollgate.grant_entries n WHERE n.credit_id = c.id)::text AS expired
    FROM tollgate.credits c JOIN tollgate.holds h ON h.account_id = c.account_id JOIN tollgate.ends e ON e.id = h.id
    WHERE c.id = ${credit_id} AND h.account_id = ${account_id} GROUP BY c.id`
  const sum = (column: string) => BigInt(row?.[column] ?? 0)
  return { charged: sum("charged"), late: sum("late"), drawn: sum("drawn"), expired: sum("expired") }
}

test("D95: 32 calls at once never get expired money, and no nano is lost", async () => {
  using _ = patience()
  const PAID = 500n
  // More than the fastest machine can spend until the expiry.
  const GRANTED = 1_000_000_000n
  const account = await db.account(PAID)
  const gateways = await Promise.all([db.ledger(), db.ledger()])
  const lanes = Array.from({ length: 32 }, (_, at) => nth(gateways, at % 2))
  const credit_id = await granted(account, GRANTED, { expires_at: inMs(1_500) })
  await Promise.all(
    lanes.map(async (lane, at) => {
      for (let round = 0; ; round += 1) {
        const hold = holdOf(account, BigInt(1 + ((at + round) % 9)))
        if ((await lane.hold(hold)).outcome !== "held") return
        await lane.end(settled(hold.id, hold.amount_nano - BigInt(round % 2)))
      }
    }),
  )
  const rest = (await balance(account)) ?? 0n
  const spent = await spentOf(account, credit_id)
  expect(spent.late).toBeGreaterThan(0n)
  // Of a call that came before the expiry and waited for the account until after it, the paid money pays too.
  expect(spent.late).toBeLessThanOrEqual(PAID - rest)
  expect(spent.drawn + spent.expired).toBe(GRANTED)
  expect(spent.charged).toBe(spent.drawn + PAID - rest)
  expect(rest).toBeGreaterThanOrEqual(0n)
  expect(await faults()).toEqual([])
})

test("D95: the audit finds a draw, an expiry and a remainder that were tampered with", async () => {
  const account = await db.account(10n)
  const id = await granted(account, 40n, { priority: 1 })
  await spend(account, 15n)
  await granted(account, 1n)
  expect(await faults()).toEqual([])
  const { account_id } = account
  await falsify(
    db.sql,
    (tx) =>
      tx`UPDATE tollgate.grant_entries SET amount_nano = 14 WHERE credit_id = ${id} AND change = 'drawn'`,
  )
  expect(await faults()).toEqual([{ kind: "grant", account_id, id, recorded_nano: 25n, expected_nano: 26n }])
  await falsify(
    db.sql,
    (tx) =>
      tx`UPDATE tollgate.grant_entries SET amount_nano = 15 WHERE credit_id = ${id} AND change = 'drawn'`,
  )
  await db.sql`UPDATE tollgate.grants SET left_nano = 24 WHERE credit_id = ${id}`
  expect(nth(await faults(), 0)).toMatchObject({ kind: "grant", recorded_nano: 24n, expected_nano: 25n })
  await db.sql`UPDATE tollgate.grants SET left_nano = 25 WHERE credit_id = ${id}`
  await db.sql`INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano) VALUES (${account_id}, ${id}, 'expired', 3)`
  expect((await faults()).map(({ kind }) => kind)).toEqual(["balance", "grant"])
})
