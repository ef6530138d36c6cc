import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import fc from "fast-check"
import { closeBatch } from "../../src/ledger/journal/end.ts"
import type { Connection } from "../../src/ledger/database/connection.ts"
import { expireBatch } from "../../src/ledger/journal/expire.ts"
import { changeKey, getKey } from "../../src/ledger/accounts/keys.ts"
import type { Closing, Hold } from "../../src/ledger/entries.ts"
import { reserveBatch } from "../../src/ledger/journal/hold.ts"
import { readStandings } from "../../src/ledger/accounts/standings.ts"
import { until } from "../support/gateway.ts"
import {
  type Account,
  call,
  holdOf,
  lockAccount,
  openBooks,
  released,
  settled,
  type TestBooks,
  violations,
} from "./books.ts"

/** D42: what a key may spend in a day or a month, on a real Postgres. */

let books: TestBooks
let connections: Connection[]
let gateway_id: string

beforeAll(async () => {
  books = await openBooks()
  connections = [1, 2, 3, 4].map(() => books.connection())
  gateway_id = await books.gateway()
})
afterAll(() => books.close())

const first = () => connections[0] ?? books.connection()
const reserve = (...holds: Hold[]) => reserveBatch(first(), gateway_id, holds, 300)
const outcomes = async (...holds: Hold[]) => (await reserve(...holds)).map(({ outcome }) => outcome)
const close = (...closings: Closing[]) => closeBatch(first(), closings, 300)
const exact = async () => expect(await violations(books.sql, { overdrawn: true })).toEqual([])

async function limited(limit_nano: bigint, period: "day" | "month" = "month"): Promise<Account> {
  const account = await books.account(1_000_000n)
  await limit(account, limit_nano, period)
  return account
}

function limit({ key_id }: Account, limit_nano: bigint, period: "day" | "month" = "month") {
  return changeKey(books.database.operators, key_id, { spending: { limit_nano, period } })
}

async function spentBy({ key_id }: Account): Promise<bigint | undefined> {
  return (await getKey(books.database.operators, key_id))?.spending?.spent_nano
}

/** Holds the row of a call until `unlock` is called. */
async function lockCall({ id }: Hold): Promise<{ unlock(): Promise<void> }> {
  const locked = Promise.withResolvers<void>()
  const free = Promise.withResolvers<void>()
  const transaction = books.sql.begin(async (tx) => {
    await tx`SELECT FROM tollgate.reservations WHERE id = ${id} FOR UPDATE`
    locked.resolve()
    await free.promise
  })
  await locked.promise
  return {
    async unlock() {
      free.resolve()
      await transaction
    },
  }
}

/** What the journal says that counts: what open calls hold, and what the others cost. */
async function countedFor({ key_id }: Account): Promise<bigint> {
  const [row] = await books.sql<{ sum: string }[]>`
    SELECT coalesce(sum(coalesce(charge_nano, amount_nano)), 0)::text AS sum
    FROM tollgate.reservations WHERE key_id = ${key_id}`
  return BigInt(row?.sum ?? "0")
}

describe("D42 a spending limit", () => {
  test("is reached by what is held, and what settled cheaper or was released can be spent again", async () => {
    const account = await limited(100n)
    const [one, two] = [holdOf(account, 60n), holdOf(account, 40n)]
    expect(await outcomes(one)).toEqual(["held"])
    expect(await outcomes(two)).toEqual(["held"])
    expect(await reserve(holdOf(account, 1n))).toEqual([
      { outcome: "spending_limit_reached", remaining_nano: 0n, period: "month" },
    ])
    await close(settled(one.id, 15n))
    expect(await spentBy(account)).toBe(55n)
    await close(released(two.id))
    expect(await spentBy(account)).toBe(15n)
    expect(await outcomes(holdOf(account, 86n))).toEqual(["spending_limit_reached"])
    expect(await outcomes(holdOf(account, 85n))).toEqual(["held"])
    await exact()
  })

  test("of 0 refuses everything; without one everything fits; to the last nano it is exact", async () => {
    const account = await limited(0n)
    expect(await outcomes(holdOf(account, 1n))).toEqual(["spending_limit_reached"])
    await changeKey(books.database.operators, account.key_id, { spending: null })
    expect(await outcomes(holdOf(account, 999_999n))).toEqual(["held"])
    expect(await spentBy(account)).toBeUndefined()
  })

  test("counts an overage in full, so that nothing fits any more", async () => {
    const account = await limited(100n)
    const hold = holdOf(account, 100n)
    await reserve(hold)
    await close(settled(hold.id, 130n, { notes: ["overage"] }))
    expect(await reserve(holdOf(account, 1n))).toEqual([
      { outcome: "spending_limit_reached", remaining_nano: -30n, period: "month" },
    ])
  })

  test("counts what expires at its checkpoint, and a late settlement for the difference", async () => {
    const account = await limited(100n)
    const hold = holdOf(account, 90n)
    await reserve(hold)
    expect(await expireBatch(first(), [hold], 300)).toEqual([true])
    expect(await spentBy(account)).toBe(0n)
    await close(settled(hold.id, 70n))
    expect(await spentBy(account)).toBe(70n)
    await close(settled(hold.id, 70n))
    expect(await spentBy(account)).toBe(70n)
  })

  test("is the key's alone: another key of the account goes on, and what its limit refuses takes nothing from others", async () => {
    const account = await limited(10n)
    const other = { ...account, key_id: crypto.randomUUID() }
    await books.sql`INSERT INTO tollgate.keys (id, account_id, hash, prefix)
      VALUES (${other.key_id}, ${account.account_id}, ${other.key_id}, 'tg')`
    const holds = [holdOf(account, 11n), holdOf(other, 999_995n), holdOf(account, 5n)]
    expect(await outcomes(...holds)).toEqual(["spending_limit_reached", "held", "held"])
    await exact()
  })

  test("is shared out in a batch like a balance: ascending, so that nothing is refused that would have fitted", async () => {
    const account = await limited(10n)
    const holds = [7n, 4n, 3n, 2n].map((amount_nano) => holdOf(account, amount_nano))
    expect(await outcomes(...holds)).toEqual(["spending_limit_reached", "held", "held", "held"])
    expect(await spentBy(account)).toBe(9n)
  })

  test("is told before the balance, and after the model and the key", async () => {
    const account = await limited(10n)
    await books.sql`UPDATE tollgate.accounts SET balance_nano = 0 WHERE id = ${account.account_id}`
    expect(await outcomes(holdOf(account, 11n))).toEqual(["spending_limit_reached"])
    expect(await outcomes(holdOf(account, 10n))).toEqual(["insufficient_balance"])
    await books.sql`UPDATE tollgate.keys SET models = '{other}' WHERE id = ${account.key_id}`
    expect(await outcomes(holdOf(account, 11n))).toEqual(["model_not_allowed"])
    await books.sql`UPDATE tollgate.accounts SET balance_nano = 1000000 WHERE id = ${account.account_id}`
  })

  test("begins anew with the day, and what was held yesterday does not count today", async () => {
    const account = await limited(100n, "day")
    const yesterday = holdOf(account, 80n)
    await reserve(yesterday)
    await books.sql`UPDATE tollgate.keys SET spent_since = spent_since - interval '1 day' WHERE id = ${account.key_id}`
    await books.sql`UPDATE tollgate.reservations SET started_at = started_at - interval '1 day' WHERE id = ${yesterday.id}`
    expect(await spentBy(account)).toBe(0n)
    expect(await outcomes(holdOf(account, 100n))).toEqual(["held"])
    expect(await spentBy(account)).toBe(100n)
    await close(settled(yesterday.id, 5n))
    expect(await spentBy(account)).toBe(100n)
  })

  test("is in the standing that a quote and a token count read", async () => {
    const account = await limited(100n)
    await reserve(holdOf(account, 30n))
    const [standing] = await readStandings(first(), [account.key_id])
    expect(standing?.spending).toEqual({ remaining_nano: 70n, period: "month" })
  })
})

describe("D42 a limit that is set counts what there was before", () => {
  test("closed calls at what they cost, open ones at what they hold until they end", async () => {
    const account = await books.account(1_000n)
    const [done, running, older] = [holdOf(account, 50n), holdOf(account, 40n), holdOf(account, 30n)]
    await reserve(done, running, older)
    await close(settled(done.id, 20n))
    await books.sql`UPDATE tollgate.reservations SET started_at = started_at - interval '40 days' WHERE id = ${older.id}`
    await limit(account, 100n)
    expect(await spentBy(account)).toBe(60n)
    await close(settled(running.id, 7n), settled(older.id, 30n))
    expect(await spentBy(account)).toBe(27n)
  })

  test.each(["month", "day"] as const)(
    "and is not open anew while it counts: what is spent stays so until the past is summed (%s after month)",
    async (period) => {
      const account = await limited(100n)
      const [done, running] = [holdOf(account, 60n), holdOf(account, 40n)]
      await reserve(done, running)
      await close(settled(done.id, 60n))
      const { unlock } = await lockCall(running)
      const counting = limit(account, 100n, period)
      await until(
        () =>
          books.sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        (waiting) => waiting.length === 1,
      )
      expect(await outcomes(holdOf(account, 1n))).toEqual(["spending_limit_reached"])
      await unlock()
      await counting
      expect(await spentBy(account)).toBe(100n)
      await close(settled(running.id, 1n))
      expect(await spentBy(account)).toBe(61n)
    },
  )

  test("an expired one at its charge, and what its late settlement adds", async () => {
    const account = await books.account(1_000n)
    const hold = holdOf(account, 50n)
    await reserve(hold)
    await expireBatch(first(), [hold], 300)
    await limit(account, 100n)
    expect(await spentBy(account)).toBe(0n)
    await close(settled(hold.id, 40n))
    expect(await spentBy(account)).toBe(40n)
  })

  test("again and again, to another amount or period, without counting twice", async () => {
    const account = await limited(100n)
    const [one, two] = [holdOf(account, 10n), holdOf(account, 20n)]
    await reserve(one, two)
    await close(settled(one.id, 4n))
    for (const period of ["month", "day", "day", "month"] as const) {
      await limit(account, 50n, period)
      expect(await spentBy(account)).toBe(24n)
    }
    await changeKey(books.database.operators, account.key_id, { spending: null })
    await close(settled(two.id, 3n))
    await limit(account, 50n)
    expect(await spentBy(account)).toBe(7n)
  })

  test("while calls are held and settled at full speed: in the end the count is the journal's", async () => {
    const account = await books.account(1_000_000n)
    const holds = Array.from({ length: 200 }, () => holdOf(account, 10n))
    const callings = connections.map(async (connection, lane) => {
      for (const hold of holds.filter((_, at) => at % connections.length === lane)) {
        await reserveBatch(connection, gateway_id, [hold], 1_000)
        await closeBatch(connection, [settled(hold.id, 3n)], 1_000)
      }
    })
    await books.sql`SELECT 1`
    await limit(account, 1_000_000n)
    await Promise.all(callings)
    // What was on its way when the limit was set may be missing: at most one call of each connection.
    const missing = (await countedFor(account)) - ((await spentBy(account)) ?? 0n)
    expect(missing >= 0n && missing <= 10n * BigInt(connections.length)).toBe(true)
    await limit(account, 1_000_000n)
    expect(await spentBy(account)).toBe(await countedFor(account))
    await exact()
  })
})

describe("D42 under concurrency", () => {
  test("a limit is never sold twice by statements that began before the others had ended", async () => {
    const account = await limited(100n)
    const { unlock } = await lockAccount(books.sql, account.account_id)
    const asked = connections.map((connection) =>
      reserveBatch(
        connection,
        gateway_id,
        [60n, 30n].map((nano) => holdOf(account, nano)),
        5_000,
      ),
    )
    await until(
      () =>
        books.sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      (waiting) => waiting.length === connections.length,
    )
    await unlock()
    const results = (await Promise.all(asked)).flat()
    expect(results.filter(({ outcome }) => outcome === "held")).toHaveLength(2)
    expect(await spentBy(account)).toBe(90n)
  })

  test("a limit is never sold twice, whoever asks through whichever statement", async () => {
    const account = await limited(100n)
    const holds = Array.from({ length: 60 }, () => holdOf(account, 10n))
    const asked = connections.flatMap((connection, lane) => {
      const mine = holds.filter((_, at) => at % connections.length === lane)
      const [alone, ...batch] = mine
      if (alone === undefined) return []
      return [
        reserveBatch(connection, gateway_id, [alone], 2_000),
        reserveBatch(connection, gateway_id, batch, 2_000),
      ]
    })
    const results = (await Promise.all(asked)).flat()
    expect(results.filter(({ outcome }) => outcome === "held")).toHaveLength(10)
    expect(await spentBy(account)).toBe(100n)
    await exact()
  })

  type Step =
    | { readonly act: "hold"; readonly amounts: readonly number[] }
    | { readonly act: "settle" | "release" | "expire"; readonly which: number; readonly charge: number }
    | { readonly act: "limit"; readonly limit: number }
  const steps: fc.Arbitrary<Step[]> = fc.array(
    fc.oneof(
      fc.record({
        act: fc.constant("hold" as const),
        amounts: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 4 }),
      }),
      fc.record({
        act: fc.constantFrom("settle" as const, "release" as const, "expire" as const),
        which: fc.nat(20),
        charge: fc.integer({ min: 0, max: 80 }),
      }),
      fc.record({ act: fc.constant("limit" as const), limit: fc.integer({ min: 0, max: 200 }) }),
    ),
    { minLength: 1, maxLength: 12 },
  )

  test("whatever happens: the count is the journal's, and no hold went beyond the limit", async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 0, max: 200 }), async (todo, beginning) => {
        const account = await limited(BigInt(beginning))
        const held: Hold[] = []
        let most = BigInt(beginning)
        for (const step of todo) {
          if (step.act === "limit") {
            most = BigInt(step.limit)
            await limit(account, most)
          } else if (step.act === "hold") {
            const holds = step.amounts.map((amount) => holdOf(account, BigInt(amount)))
            const before = await countedFor(account)
            const results = await reserve(...holds)
            const taken = holds.filter((_, at) => results[at]?.outcome === "held")
            held.push(...taken)
            const refused = step.amounts.filter((_, at) => results[at]?.outcome !== "held")
            const after = await countedFor(account)
            if (taken.length > 0) expect(after <= most).toBe(true)
            // What was refused would not have fitted beside what was taken.
            if (refused.length > 0)
              expect(after + BigInt(Math.min(...refused)) > most || before > most).toBe(true)
          } else {
            const hold = held[step.which % Math.max(held.length, 1)]
            if (hold === undefined) continue
            if (step.act === "expire") await expireBatch(first(), [hold], 300)
            else if (step.act === "release") await close(released(hold.id))
            else await close(settled(hold.id, BigInt(step.charge)))
          }
          expect(await spentBy(account)).toBe(await countedFor(account))
        }
        for (const { id } of held) expect(await call(books.sql, id)).not.toBeNull()
      }),
      { numRuns: 40 },
    )
    await exact()
  }, 30_000)
})
