import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { operatorLedger } from "../../src/ledger/operators.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  type Account,
  call,
  falsify,
  holdOf,
  LONG_LEASE,
  ledgerAt,
  patiently,
  RENEWING,
  settled,
  testDatabase,
  unheldIn,
  until,
  violations,
} from "./test-database.ts"

/** D73: what a database has forgotten is written again. test/faults/failover.test.ts has a real standby. */

/** What 3 tokens, one of them cached, and 2 of completion cost. */
const COST = 5n

const db = await testDatabase()
const proxy = await DatabaseProxy.start(db.address)
patiently()
afterAll(() => proxy.stop())
afterEach(async () => {
  expect(await violations(db.sql, { overdrawn: true })).toEqual([])
})

/** As if the last commits had been lost: the ends, or the holds too, with what they had moved. */
async function forget({ account_id, key_id }: Account, ids: readonly string[], what: "ends" | "holds") {
  await falsify(db.sql, async (tx) => {
    for (const id of ids) {
      const [end] = await tx`DELETE FROM tollgate.ends WHERE id = ${id} RETURNING charge_nano, freed_nano`
      const charge = end?.charge_nano ?? 0
      const freed = end?.freed_nano ?? 0
      await tx`UPDATE tollgate.accounts SET balance_nano = balance_nano + ${charge}, held_nano = held_nano + ${freed}
        WHERE id = ${account_id}`
      await tx`UPDATE tollgate.keys SET spent_nano = spent_nano - ${charge}::bigint + ${freed}::bigint
        WHERE id = ${key_id} AND spend_limit_nano IS NOT NULL`
      if (what === "ends") continue
      const [hold] = await tx`DELETE FROM tollgate.holds WHERE id = ${id} RETURNING amount_nano`
      const amount = hold?.amount_nano ?? 0
      await tx`UPDATE tollgate.accounts SET held_nano = held_nano - ${amount} WHERE id = ${account_id}`
      await tx`UPDATE tollgate.keys SET spent_nano = spent_nano - ${amount}::bigint
        WHERE id = ${key_id} AND spend_limit_nano IS NOT NULL`
      await tx`DELETE FROM tollgate.idempotency WHERE call_id = ${id}`
    }
  })
}

async function served(ledger: DatabaseLedger, account: Account, changes: Partial<Hold> = {}): Promise<Hold> {
  const hold = holdOf(account, 100n, changes)
  // Without `is_limited` if the database was slow, and it was asked again.
  expect(await ledger.hold(hold)).toMatchObject({ outcome: "held" })
  await ledger.end(settled(hold.id, COST))
  return hold
}

const isCharged = async ({ id }: Hold) => {
  const found = await call(db.sql, id)
  return found?.state === "settled" && found.charge_nano === String(COST)
}

describe("D73 settlements that the database has forgotten", () => {
  test.each(["ends", "holds"] as const)(
    "are written again after an outage: it has lost the %s",
    async (what) => {
      const ledger = await ledgerAt(db, proxy.address, { lease: RENEWING })
      const account = await db.account(1_000_000n)
      const spending = { limit_nano: 900_000n, period: "month" } as const
      await changeKey(db.database.operators, account.key_id, { spending })
      const idempotency = { key_hash: nextId(), body_hash: nextId() }
      const holds = [
        await served(ledger, account),
        await served(ledger, account, { idempotency }),
        await served(ledger, account),
      ]
      await forget(
        account,
        holds.map(({ id }) => id),
        what,
      )
      // A connection that breaks between two statements is made again without anybody noticing.
      proxy.refuse()
      await until(() => !ledger.writable())
      proxy.admit()
      await until(async () => (await Promise.all(holds.map(isCharged))).every(Boolean))
      const { violations: found } = await audit(db.database.operators)
      expect(found.filter(({ kind }) => kind !== "charge")).toEqual([])
      // The Idempotency-Key stands for its call again.
      const again = holdOf(account, 100n, { idempotency })
      expect(await ledger.hold(again)).toEqual({
        outcome: "idempotency_key_used",
        call_id: holds[1]?.id ?? "",
      })
      await ledger.stop()
    },
  )

  test("of a call that runs: the hold is written again with its end", async () => {
    const ledger = await db.ledger()
    const account = await db.account(1_000n)
    const hold = holdOf(account, 100n)
    await ledger.hold(hold)
    await falsify(db.sql, async (tx) => {
      await tx`DELETE FROM tollgate.holds WHERE id = ${hold.id}`
      await tx`UPDATE tollgate.accounts SET held_nano = 0 WHERE id = ${account.account_id}`
    })
    await ledger.end(settled(hold.id, COST))
    expect(await isCharged(hold)).toBe(true)
    expect(await unheldIn(ledger)).toEqual([])
    expect(ledger.depths().spool).toBe(0)
  })

  test("of an account that does not exist are in the spool, and the audit names them", async () => {
    const ledger = await db.ledger()
    const account = await db.account(1_000n)
    const hold = holdOf(account, 100n)
    await ledger.hold(hold)
    await falsify(db.sql, async (tx) => {
      for (const table of ["holds", "credits", "keys"])
        await tx.unsafe(`DELETE FROM tollgate.${table} WHERE account_id = '${account.account_id}'`)
      await tx`DELETE FROM tollgate.accounts WHERE id = ${account.account_id}`
    })
    await ledger.end(settled(hold.id, COST))
    expect(await unheldIn(ledger)).toMatchObject([{ kind: "unheld", id: hold.id, recorded_nano: COST }])
    expect(ledger.depths().spool).toBe(1)
  })

  test("are written once, however often", async () => {
    const account = await db.account(1_000n)
    const gateway_id = await db.gateway()
    const connection = db.connection()
    const hold = holdOf(account, 100n)
    await restoreBatch(connection, gateway_id, [hold], 300)
    await restoreBatch(connection, gateway_id, [hold], 300)
    const [row] = await db.sql`SELECT held_nano FROM tollgate.accounts WHERE id = ${account.account_id}`
    expect(row?.held_nano).toBe("100")
  })
})

describe("D73 a hold that nobody can end", () => {
  const rows: [what: string, make: (gateway_id: string, hold_id: string) => Promise<unknown>][] = [
    [
      "of a gateway that was swept",
      (gateway_id) =>
        db.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE id = ${gateway_id}`,
    ],
    [
      "below the floor of its gateway",
      (gateway_id) => db.sql`UPDATE tollgate.gateways SET floor_id = ${nextId()} WHERE id = ${gateway_id}`,
    ],
    [
      "of a gateway that is unknown",
      (gateway_id) => db.sql`DELETE FROM tollgate.gateways WHERE id = ${gateway_id}`,
    ],
  ]
  test.each(rows)("%s is found by the audit, and expired by the next sweep", async (_, make) => {
    const account = await db.account(1_000n)
    const gateway_id = await db.gateway(LONG_LEASE.expire_ms)
    const hold = holdOf(account, 100n)
    await restoreBatch(db.connection(), gateway_id, [hold], 300)
    const before = await audit(db.database.operators)
    expect(before.violations.filter(({ id }) => id === hold.id)).toEqual([])
    await make(gateway_id, hold.id)
    const { violations: found } = await audit(db.database.operators)
    const named = found.filter(({ id }) => id === hold.id)
    const { account_id } = account
    expect(named).toEqual([
      { kind: "abandoned", account_id, id: hold.id, recorded_nano: 100n, expected_nano: 0n },
    ])

    const ledger = await db.ledger({ lease: RENEWING })
    await operatorLedger([ledger.operated]).audit({})
    await until(async () => (await call(db.sql, hold.id))?.state === "expired")
    const after = await audit(db.database.operators)
    expect(after.violations.filter(({ id }) => id === hold.id)).toEqual([])
    await ledger.stop()
  })
})
