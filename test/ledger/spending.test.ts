import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { changeKey, getKey } from "../../src/ledger/accounts/keys.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { readStandings } from "../../src/ledger/queue/standings.ts"
import { step } from "./steps.ts"
import {
  type Account,
  call,
  falsify,
  holdOf,
  keyOf,
  lockAccount,
  lockWaiters,
  nth,
  released,
  settled,
  testGateway,
  violations,
} from "./test-database.ts"

/** D42: what a key may spend in a day or a month, on a real Postgres. */

const { db, connection, connections, gateway_id, ask, outcomes, end, expire, itemOf } = await testGateway()

const exact = async () => expect(await violations(db.sql, { overdrawn: true })).toEqual([])

async function limited(limit_nano: bigint, period: "day" | "month" = "month"): Promise<Account> {
  const account = await db.account(1_000_000n)
  await limit(account, limit_nano, period)
  return account
}

function limit({ key_id }: Account, limit_nano: bigint, period: "day" | "month" = "month") {
  return changeKey(db.database.operators, key_id, { spending: { limit_nano, period } })
}

async function spentBy({ key_id }: Account): Promise<bigint | undefined> {
  return (await getKey(db.database.operators, key_id))?.spending?.spent_nano
}

function heldEarlier({ id }: Hold, by: string): Promise<void> {
  return falsify(
    db.sql,
    (tx) => tx`UPDATE tollgate.holds SET held_at = held_at - ${by}::interval WHERE id = ${id}`,
  )
}

/** What the journal says that counts: what open calls hold, and what the others cost. */
async function countedFor({ key_id }: Account): Promise<bigint> {
  const [row] = await db.sql<{ sum: string }[]>`
    SELECT coalesce(sum(coalesce(charge_nano, amount_nano)), 0)::text AS sum
    FROM tollgate.calls WHERE key_id = ${key_id}`
  return BigInt(row?.sum ?? "0")
}

describe("D42 a spending limit", () => {
  test("begins its period with a restored hold, if no call came since", async () => {
    const account = await limited(100n, "day")
    const [paid, lost] = [holdOf(account, 60n), holdOf(account, 90n)]
    await ask(paid)
    await end(settled(paid.id, 60n))
    await heldEarlier(paid, "1 day")
    await falsify(
      db.sql,
      (tx) =>
        tx`UPDATE tollgate.keys SET spent_since = spent_since - interval '1 day' WHERE id = ${account.key_id}`,
    )
    await restoreBatch(connection, gateway_id, [lost], 300)
    expect(await spentBy(account)).toBe(90n)
    await exact()
    expect(await outcomes(holdOf(account, 11n), holdOf(account, 10n))).toEqual([
      "spending_limit_reached",
      "held",
    ])
    expect(await end(settled(lost.id, 80n))).toEqual(["applied"])
    expect(await spentBy(account)).toBe(90n)
    await exact()
  })

  test("is the key's alone: another key of the account goes on, and what its limit refuses takes nothing from others", async () => {
    const account = await limited(10n)
    const other = await keyOf(db.sql, account, "name = 'b'")
    const holds = [holdOf(account, 11n), holdOf(other, 999_995n), holdOf(account, 5n)]
    expect(await outcomes(...holds)).toEqual(["spending_limit_reached", "held", "held"])
    await exact()
  })

  test("is told before the balance, and after the model and the key", async () => {
    const account = await limited(10n)
    await db.sql`UPDATE tollgate.accounts SET balance_nano = 0 WHERE id = ${account.account_id}`
    expect(await outcomes(holdOf(account, 11n))).toEqual(["spending_limit_reached"])
    expect(await outcomes(holdOf(account, 10n))).toEqual(["insufficient_balance"])
    await db.sql`UPDATE tollgate.keys SET models = '{other}' WHERE id = ${account.key_id}`
    expect(await outcomes(holdOf(account, 11n))).toEqual(["model_not_allowed"])
    await db.sql`UPDATE tollgate.accounts SET balance_nano = 1000000 WHERE id = ${account.account_id}`
  })

  test("begins anew with the day, and what was held yesterday does not count today", async () => {
    const account = await limited(100n, "day")
    const yesterday = holdOf(account, 80n)
    await ask(yesterday)
    await db.sql`UPDATE tollgate.keys SET spent_since = spent_since - interval '1 day' WHERE id = ${account.key_id}`
    await heldEarlier(yesterday, "1 day")
    expect(await spentBy(account)).toBe(0n)
    expect(await outcomes(holdOf(account, 100n))).toEqual(["held"])
    expect(await spentBy(account)).toBe(100n)
    await end(settled(yesterday.id, 5n))
    expect(await spentBy(account)).toBe(100n)
  })

  test("is in the standing that a quote and a token count read", async () => {
    const account = await limited(100n)
    await ask(holdOf(account, 30n))
    const [standing] = await readStandings(connection, [account.key_id], 0)
    expect(standing).toMatchObject({ spending: { remaining_nano: 70n, period: "month" } })
  })
})

describe("D42 a limit that is set counts what there was before", () => {
  test("ended calls at what they cost, open ones at what they hold until they end", async () => {
    const account = await db.account(1_000n)
    const [done, running, older] = [holdOf(account, 50n), holdOf(account, 40n), holdOf(account, 30n)]
    await ask(done, running, older)
    await end(settled(done.id, 20n))
    await heldEarlier(older, "40 days")
    await limit(account, 100n)
    expect(await spentBy(account)).toBe(60n)
    await end(settled(running.id, 7n), settled(older.id, 30n))
    expect(await spentBy(account)).toBe(27n)
  })

  test.each(["month", "day"] as const)(
    "in one transaction under the account's lock: a hold waits for it and is counted (%s after month)",
    async (period) => {
      const account = await limited(100n)
      const [done, running] = [holdOf(account, 60n), holdOf(account, 30n)]
      await ask(done, running)
      await end(settled(done.id, 60n))
      await using lock = await lockAccount(db.sql, account.account_id)
      const limiting = limit(account, 100n, period)
      await lockWaiters(db.sql, 1)
      const holds = [holdOf(account, 9n), holdOf(account, 1n), holdOf(account, 1n)]
      const holding = holdBatch(connection, gateway_id, holds, 5_000)
      await lockWaiters(db.sql, 2)
      const ending = endBatch(nth(connections, 1), [itemOf(settled(running.id, 2n))], 5_000)
      await lockWaiters(db.sql, 3)
      await lock.unlock()
      await Promise.all([limiting, ending])
      // Of 100 at least 10 were left, whether the settlement came before the holds or after them.
      expect(await holding).toContainEqual({ outcome: "held", is_limited: true })
      expect(await spentBy(account)).toBe(await countedFor(account))
      await exact()
    },
  )
})

describe("D42 under concurrency", () => {
  test("a limit is never sold twice by statements that began before the others had ended", async () => {
    const account = await limited(100n)
    await using lock = await lockAccount(db.sql, account.account_id)
    const holding = connections.map((connection, place) =>
      holdBatch(
        connection,
        gateway_id,
        [60n, 30n].map((nano) => holdOf(account, nano, { is_limited: place > 0 })),
        5_000,
      ),
    )
    await lockWaiters(db.sql, connections.length)
    await lock.unlock()
    const results = (await Promise.all(holding)).flat()
    expect(results.filter(({ outcome }) => outcome === "held")).toHaveLength(2)
    expect(await spentBy(account)).toBe(90n)
  })

  const amounts = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 4 })
  const steps = fc.array(
    fc.oneof(
      step(1, ["hold"], { amounts }),
      step(1, ["settle", "release", "expire"], {
        which: fc.nat(20),
        charge: fc.integer({ min: 0, max: 80 }),
      }),
      step(1, ["limit"], {
        limit: fc.integer({ min: 0, max: 200 }),
        period: fc.constantFrom("day" as const, "month" as const),
      }),
    ),
    { minLength: 1, maxLength: 12 },
  )

  test("whatever happens: the count is the journal's, and no hold went beyond the limit", async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 0, max: 200 }), async (todo, beginning) => {
        const account = await limited(BigInt(beginning))
        const held: Hold[] = []
        let most = BigInt(beginning)
        let period: "day" | "month" = "month"
        for (const one of todo) {
          if (one.act === "limit") {
            most = BigInt(one.limit)
            period = one.period
            await limit(account, most, period)
          } else if (one.act === "hold") {
            const holds = one.amounts.map((amount) => holdOf(account, BigInt(amount)))
            const before = await countedFor(account)
            const results = await ask(...holds)
            const taken = holds.filter((_, at) => results[at]?.outcome === "held")
            held.push(...taken)
            const refused = one.amounts.filter((_, at) => results[at]?.outcome !== "held")
            const after = await countedFor(account)
            const refusal = { outcome: "spending_limit_reached", remaining_nano: most - after, period }
            for (const result of results) if (result.outcome !== "held") expect(result).toMatchObject(refusal)
            if (taken.length > 0) expect(after <= most).toBe(true)
            // What was refused would not have fitted beside what was taken.
            if (refused.length > 0)
              expect(after + BigInt(Math.min(...refused)) > most || before > most).toBe(true)
          } else {
            const hold = held[one.which % Math.max(held.length, 1)]
            if (hold === undefined) continue
            if (one.act === "expire") await expire(hold)
            else if (one.act === "release") await end(released(hold.id))
            else await end(settled(hold.id, BigInt(one.charge)))
          }
          expect(await spentBy(account)).toBe(await countedFor(account))
        }
        for (const { id } of held) expect(await call(db.sql, id)).not.toBeNull()
      }),
      { numRuns: 40 },
    )
    await exact()
  })
})
