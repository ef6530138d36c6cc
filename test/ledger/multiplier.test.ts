import { describe, expect, test } from "bun:test"
import { changeAccount } from "../../src/ledger/accounts/accounts.ts"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch, type KnownAccounts } from "../../src/ledger/money/hold.ts"
import { ceilToNano, heldFor } from "../../src/money.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  type Account,
  checkpointOf,
  falsify,
  holdOf,
  settled,
  testGateway,
  writeCheckpoints,
} from "./test-database.ts"

/** D69: the statement that holds reads the price multiplier, the hold keeps it, and whatever ends the hold charges by it. */

/** What the tokens of `settled` cost at the first terms: 2 x 250 + 1 x 25 + 2 x 2,000 nano-USD. */
const COST = 4_525n

const { db, connection, gateway_id } = await testGateway()

const setMultiplier = ({ account_id }: Account, price_multiplier_bp: number) =>
  changeAccount(db.database.operators, account_id, { price_multiplier_bp })

async function account(price_multiplier_bp: number, balance_nano = 1_000_000n): Promise<Account> {
  const made = await db.account(balance_nano)
  await setMultiplier(made, price_multiplier_bp)
  return made
}

const ask = (holds: readonly Hold[], remembered: KnownAccounts = new Map()) =>
  holdBatch(connection, gateway_id, holds, 300, remembered)

async function heldNano({ account_id }: Account): Promise<bigint> {
  const [row] = await db.sql`SELECT held_nano FROM tollgate.accounts WHERE id = ${account_id}`
  return BigInt(row?.held_nano)
}

async function entry(id: string) {
  const [row] = await db.sql`
    SELECT h.amount_nano::int AS amount, h.margin_bp AS held_at, e.margin_bp AS ended_at, e.charge_nano::int AS charge,
      c.margin_bp AS corrected_at, c.difference_nano::int AS difference
    FROM tollgate.holds h LEFT JOIN tollgate.ends e ON e.id = h.id LEFT JOIN tollgate.corrections c ON c.id = h.id
    WHERE h.id = ${id}`
  return { ...row }
}

const KNOWN = [
  ["alone, nothing known", 1, []],
  ["alone, the multiplier known", 1, [12_345]],
  ["alone, another multiplier known", 1, [20_000]],
  ["in a batch, nothing known", 3, []],
  ["in a batch, the multiplier known", 3, [12_345]],
  ["in a batch, another multiplier known", 3, [10_001]],
] as const

describe("D69 a hold", () => {
  test.each(
    KNOWN.flatMap(([name, count, known]) => [
      // Costs of 0.4, 1.4 and 2.4 nano-USD: rounded up before the price multiplier too, each would hold one more.
      [`${name}: the exact cost times the multiplier, rounded up once`, count, known, 400n, 1] as const,
      [`${name}: the multiplier of the account is in it, rounded up`, count, known, 1_000n, 2] as const,
    ]),
  )("%s", async (_, count, known, first_pico, first_nano) => {
    const payer = await account(12_345)
    const neighbour = await db.account(1_000n)
    const remembered: KnownAccounts = new Map(
      known.map((price_multiplier_bp) => [payer.account_id, { price_multiplier_bp }]),
    )
    const holds = Array.from({ length: count }, (_, at) =>
      holdOf(payer, BigInt(at + 1), { cost_pico: BigInt(at) * 1_000n + first_pico }),
    )
    const beside = count === 1 ? [] : [holdOf(neighbour, 7n)]
    const held = holds.map(() => ({ outcome: "held", price_multiplier_bp: 12_345 }) as const)
    expect(await ask([...holds, ...beside], remembered)).toEqual([
      ...held,
      ...beside.map(() => ({ outcome: "held" }) as const),
    ])
    const amounts = holds.map((_, at) => first_nano + at)
    expect(await Promise.all(holds.map(({ id }) => entry(id)))).toMatchObject(
      amounts.map((amount) => ({ amount, held_at: 12_345 })),
    )
    expect(await heldNano(payer)).toBe(BigInt(amounts.reduce((sum, amount) => sum + amount)))
    expect(await heldNano(neighbour)).toBe(count === 1 ? 0n : 7n)
    expect([...remembered]).toEqual([[payer.account_id, { price_multiplier_bp: 12_345 }]])
    // Asked for again, each is the hold that was made.
    expect(await ask(holds)).toEqual(held)
  })

  test("at a multiplier of 1 stores none, and forgets the one before", async () => {
    const payer = await account(10_000)
    const remembered: KnownAccounts = new Map([[payer.account_id, { price_multiplier_bp: 15_000 }]])
    const hold = holdOf(payer, 100n)
    expect(await ask([hold], remembered)).toEqual([{ outcome: "held" }])
    expect(await entry(hold.id)).toMatchObject({ amount: 100, held_at: null })
    expect(remembered.size).toBe(0)
  })

  test("so must a spending limit", async () => {
    const payer = await account(15_000)
    await changeKey(db.database.operators, payer.key_id, { spending: { limit_nano: 149n, period: "day" } })
    expect(await ask([holdOf(payer, 100n)])).toEqual([
      { outcome: "spending_limit_reached", remaining_nano: 149n, period: "day", price_multiplier_bp: 15_000 },
    ])
    const hold = holdOf(payer, 99n)
    await ask([hold])
    expect(await entry(hold.id)).toMatchObject({ amount: 149, held_at: 15_000 })
  })

  test("asked for again after the multiplier changed, it is the hold that was made", async () => {
    const payer = await account(15_000)
    const hold = holdOf(payer, 100n)
    await ask([hold])
    await setMultiplier(payer, 20_000)
    expect(await ask([hold])).toEqual([{ outcome: "held", price_multiplier_bp: 15_000 }])
    expect(await heldNano(payer)).toBe(150n)
  })

  test("with an Idempotency-Key", async () => {
    const payer = await account(15_000)
    const key_hash = "a".repeat(64)
    const hold = holdOf(payer, 101n, { idempotency: { key_hash, body_hash: key_hash } })
    expect(await ask([hold])).toEqual([{ outcome: "held", price_multiplier_bp: 15_000 }])
    expect(await entry(hold.id)).toMatchObject({ amount: 152 })
  })

  test("a cost that no balance covers is refused, whatever the multiplier", async () => {
    const payer = await account(10_000_000)
    expect(await ask([holdOf(payer, 2n ** 63n - 1n)])).toMatchObject([{ outcome: "insufficient_balance" }])
  })
})

describe("D69 an end has the multiplier of its hold", () => {
  const charge_nano = ceilToNano(COST * 1_000n, 15_001)
  async function held(payer: Account) {
    const hold = holdOf(payer, 10_000n)
    await ask([hold])
    await setMultiplier(payer, 30_000)
    return { ...hold, amount_nano: heldFor(10_000_000n, 15_001) }
  }

  test.each([
    ["one, by the lean statement", 1, true],
    ["several, by the lean statement", 2, true],
    ["by the exact statement, as of another process", 2, false],
  ])("%s", async (_, count, is_known) => {
    const payer = await account(15_001)
    const holds = []
    for (let at = 0; at < count; at += 1) {
      await setMultiplier(payer, 15_001)
      holds.push(await held(payer))
    }
    const ends = holds.map((hold) => ({ end: settled(hold.id, charge_nano), hold: is_known ? hold : null }))
    expect(await endBatch(connection, ends, 300)).toEqual(holds.map(() => "applied"))
    for (const { id } of holds)
      expect(await entry(id)).toMatchObject({
        ended_at: 15_001,
        held_at: 15_001,
        charge: Number(charge_nano),
      })
    expect(await heldNano(payer)).toBe(0n)
  })

  test("an expiry charges the checkpoint, and a late settlement corrects it and its profit", async () => {
    const payer = await account(15_001)
    const hold = await held(payer)
    const usage = { prompt_tokens: 4, cached_tokens: 0, completion_tokens: 0 }
    const seen = checkpointOf(hold.id, ceilToNano(1_000_000n, 15_001), { basis: "partial", usage })
    await writeCheckpoints(connection, gateway_id, seen)
    await expireBatch(connection, [hold], 300)
    await endBatch(connection, [{ end: settled(hold.id, charge_nano), hold }], 300)
    expect(await entry(hold.id)).toMatchObject({
      ended_at: 15_001,
      corrected_at: 15_001,
      difference: Number(charge_nano - seen.charge_nano),
    })
    const { total } = await sumUsage(db.database.operators, {
      from: new Date(Date.now() - 3_600_000),
      to: new Date(Date.now() + 3_600_000),
      by: "model",
      account_ids: [payer.account_id],
    })
    expect(total).toMatchObject({ charge_nano, profit_nano: charge_nano - COST })
  })

  test("the audit agrees with all of it, and finds a charge or a multiplier that was changed", async () => {
    const found = async () => (await audit(db.database.operators)).violations
    expect(await found()).toEqual([])
    const payer = await account(15_001)
    const hold = await held(payer)
    await endBatch(connection, [{ end: settled(hold.id, charge_nano), hold }], 300)
    await falsify(db.sql, (sql) => sql`UPDATE tollgate.ends SET margin_bp = 20000 WHERE id = ${hold.id}`)
    expect(await found()).toMatchObject([
      { kind: "entry", id: hold.id },
      {
        kind: "charge",
        id: hold.id,
        recorded_nano: charge_nano,
        expected_nano: 2n * COST,
      },
    ])
    await falsify(db.sql, (sql) => sql`UPDATE tollgate.ends SET margin_bp = 15001 WHERE id = ${hold.id}`)
    expect(await found()).toEqual([])
  })
})
