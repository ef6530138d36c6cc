import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import postgres from "postgres"
import { BatchQueue, batchCap } from "../../src/ledger/database/batch-queue.ts"
import { Withdrawn } from "../../src/ledger/database/queued.ts"
import { type Hold, LedgerBusy, LedgerUnavailable } from "../../src/ledger/entries.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { takes } from "../support/fair-clock.ts"
import { untilIs } from "../support/until.ts"
import { holdOf, lockAccount, settled, testDatabase } from "./test-database.ts"

/** A queue by itself: what its owner sees of it. */

const db = await testDatabase()
const connection = db.connection()

/** An item that says what it does to a statement. */
interface Item {
  readonly name: string
  readonly account: string
}

const item = (name: string, account = "a"): Item => ({ name, account })
const accountOf = ({ account }: Item) => account

/** What the server says of a statement that was undone for this reason. */
function failed(code: "22P02" | "55P03" | "40001"): Error {
  return Object.assign(new postgres.PostgresError(""), { code, severity: "ERROR" })
}

describe("queues on one connection", () => {
  test("have one statement each at a time; a batch is what came while the one before ran", async () => {
    const own = db.connection()
    const batches: string[][] = []
    const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
    const queues = [1, 2].map(() => {
      let running = 0
      const run = async (_: unknown, items: readonly Item[]) => {
        expect(++running).toBe(1)
        await gates[batches.push(items.map(({ name }) => name)) - 1]?.promise
        running -= 1
        return items.map(({ name }) => name)
      }
      return new BatchQueue<Item, string>(own, { accountOf, run })
    })
    const [one, other] = queues
    if (one === undefined || other === undefined) throw new Error("there are two")
    const outcomes = [one.add(item("a")).outcome]
    await Bun.sleep(1)
    outcomes.push(other.add(item("b")).outcome, one.add(item("c")).outcome)
    await Bun.sleep(1)
    // The other queue does not wait for the first: the server runs their statements one after another.
    expect(batches).toEqual([["a"], ["b"]])
    outcomes.push(other.add(item("d")).outcome, one.add(item("e")).outcome)
    for (const gate of gates) gate.resolve()
    expect(await Promise.all(outcomes)).toEqual(["a", "b", "c", "d", "e"])
    expect(batches.slice(2)).toEqual([["c", "e"], ["d"]])
  })

  test("holds and ends of one account never wait for one another at the database", async () => {
    const ledger = await db.ledger()
    const account = await db.account(1_000n)
    const holds = [holdOf(account, 1n), holdOf(account, 1n)]
    for (const hold of holds) await ledger.hold(hold)
    await using lock = await lockAccount(db.sql, account.account_id)
    const more = [holdOf(account, 1n), holdOf(account, 1n)]
    const working = [
      ...more.map((hold) => ledger.hold(hold)),
      ...holds.map(({ id }) => ledger.end(settled(id, 1n))),
    ]
    const seen = new Set<number>()
    const until_ms = performance.now() + 250
    while (performance.now() < until_ms) {
      const waiting = await db.sql`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`
      seen.add(waiting.length)
    }
    expect(Math.max(...seen)).toBe(1)
    await lock.unlock()
    await Promise.all(working)
    for (const { id } of more) await ledger.end(settled(id, 1n))
  })
})

describe("an item is withdrawn soon after its deadline", () => {
  const DEADLINE_MS = 100
  const LATER_MS = 60

  /** What becomes of items with a deadline, whose first statement fails like this, and whose later ones take long. */
  async function withdrawn(items: readonly Item[], failure: Error): Promise<string[]> {
    const gate = Promise.withResolvers<void>()
    let statements = 0
    const run = async (_: unknown, batch: readonly Item[]) => {
      if (++statements === 1) throw failure
      await gate.promise
      return batch.map(({ name }) => name)
    }
    const queue = new BatchQueue<Item, string>(db.connection(), { accountOf, run })
    const until_ms = performance.now() + DEADLINE_MS
    const entries = items.map((one) => queue.add(one, until_ms))
    const outcomes = entries.map(({ outcome }) =>
      outcome.catch((error: unknown) => (error instanceof Withdrawn ? "withdrawn" : String(error))),
    )
    const answers = await takes(DEADLINE_MS - 5, DEADLINE_MS + LATER_MS, Promise.all(outcomes))
    expect(statements).toBeLessThanOrEqual(2)
    // What runs may still be done; what waits was not begun.
    expect(entries.map(({ uncertain }) => uncertain)).toContain(statements === 2)
    gate.resolve()
    queue.stop()
    return answers
  }

  const four = ["a", "b", "c", "d"].map((name) => item(name, name))

  test.each([
    ["its batch is isolated, by halves", four, "22P02"],
    ["its batch is separated, account by account", four, "55P03"],
    ["its account is set aside", [item("a")], "55P03"],
    ["the whole queue backs off, or its next statement runs", four, "40001"],
  ] as const)("while %s", async (_, items, code) => {
    expect(await withdrawn(items, failed(code))).toEqual(items.map(() => "withdrawn"))
  })
})

test("a queue that is stopped while its statement waits for a lock tries no more, and says so", async () => {
  const gateway_id = await db.gateway()
  const attempted = Promise.withResolvers<void>()
  const queue = new BatchQueue(connection, {
    accountOf: ({ account_id }: Hold) => account_id,
    run: (runner, holds, lock_ms) => {
      attempted.resolve()
      return holdBatch(runner, gateway_id, holds, lock_ms)
    },
  })
  const account = await db.account(100n)
  await using lock = await lockAccount(db.sql, account.account_id)
  const { outcome } = queue.add(holdOf(account, 1n))
  await attempted.promise
  queue.stop()
  expect(await outcome.catch((error: unknown) => error)).toBeInstanceOf(Withdrawn)
  await lock.unlock()
}, 5_000)

describe("a queue that can refuse, whose statement takes longer than 500 ms", () => {
  /** Adds one item for a statement, one behind it, and a third after `wait`: what becomes of that. */
  async function thirdAfter(wait: () => Promise<void> | void): Promise<string> {
    const gate = Promise.withResolvers<void>()
    const run = async (_: unknown, items: readonly Item[]) => {
      await gate.promise
      return items.map(({ name }) => name)
    }
    const queue = new BatchQueue<Item, string>(connection, { accountOf, run }, { limit: 100 })
    const submit = (name: string) => queue.submit(item(name), 60_000)
    const outcomes = [submit("a")]
    await Bun.sleep(1)
    outcomes.push(submit("b"))
    await wait()
    const third = submit("c").catch((error: unknown) =>
      error instanceof LedgerUnavailable ? "refused" : String(error),
    )
    gate.resolve()
    await Promise.all(outcomes)
    const what = await third
    queue.stop()
    return what
  }

  test("refuses further items", async () => {
    // A busy machine may pause this process at the end, too.
    await untilIs(() => thirdAfter(() => Bun.sleep(600)), "refused")
  })

  test("D38 takes them if this process was paused meanwhile, until it had time to read the answer", async () => {
    expect(await thirdAfter(() => Bun.sleepSync(600))).toBe("c")
    const late = async () => {
      Bun.sleepSync(600)
      await Bun.sleep(1)
    }
    expect(await thirdAfter(late)).toBe("c")
  })
})

describe("the most items of a batch", () => {
  test.each([
    [0, 8],
    [1, 8],
    [16, 8],
    [17, 9],
    [32, 16],
    [64, 32],
    [65, 128],
    [10_000, 128],
  ])("while %i calls are in flight: %i", (in_flight, cap) => {
    expect(batchCap(in_flight)).toBe(cap)
  })

  test("what does not fit comes in the next one, in its order", async () => {
    const batches: number[][] = []
    const queue = new BatchQueue<number, number>(
      connection,
      {
        accountOf: () => "a",
        async run(_, items) {
          batches.push([...items])
          return items
        },
      },
      { cap: (waiting) => (waiting > 3 ? 3 : 2) },
    )
    const items = [1, 2, 3, 4, 5, 6]
    expect(await Promise.all(items.map((item) => queue.add(item).outcome))).toEqual(items)
    expect(batches).toEqual([[1, 2, 3], [4, 5], [6]])
    queue.stop()
  })
})

describe("D78 accounts take turns", () => {
  /** A queue whose batches are noted, as the names of their items. */
  function noted(limit = Number.POSITIVE_INFINITY) {
    const batches: string[][] = []
    const run = async (_: unknown, items: readonly Item[]) => {
      batches.push(items.map(({ name }) => name))
      return items.map(({ name }) => name)
    }
    return { batches, queue: new BatchQueue<Item, string>(connection, { accountOf, run }, { limit }) }
  }

  test("one item behind 10,000 of another account is in the next batch, which is as large as ever", async () => {
    const { batches, queue } = noted()
    for (let at = 0; at < 10_000; at++) queue.add(item(String(at), "hot"))
    expect(await queue.add(item("mine", "cold")).outcome).toBe("mine")
    expect(batches).toHaveLength(1)
    expect(batches[0]).toHaveLength(128)
    queue.stop()
  })

  test("with more accounts than a batch has room for, each waits for one turn of the others", async () => {
    const { batches, queue } = noted()
    for (let at = 0; at < 4_000; at++) queue.add(item(String(at), `account ${at % 200}`))
    await queue.add(item("mine", "cold")).outcome
    expect(batches.flat().indexOf("mine")).toBe(200)
    queue.stop()
  })

  test("the items of an account keep their order, and each is done once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("a", "a", "a", "b", "c"), { maxLength: 400 }),
        async (all) => {
          const { batches, queue } = noted()
          const items = all.map((account, at) => item(`${account}${1_000 + at}`, account))
          await Promise.all(items.map((one) => queue.add(one).outcome))
          const done = batches.flat()
          for (const account of ["a", "b", "c"]) {
            const expected = items.filter((one) => one.account === account).map(({ name }) => name)
            expect(done.filter((name) => name.startsWith(account))).toEqual(expected)
          }
          expect(queue.depth).toBe(0)
          queue.stop()
        },
      ),
      { numRuns: 10 },
    )
  })

  test("one account cannot take all places of a queue that has a limit", () => {
    const { queue } = noted(160)
    const fill = (account: string) => {
      for (let got = 0; ; got++) {
        try {
          queue.add(item("", account)).outcome.catch(() => {})
        } catch (error) {
          expect(error).toBeInstanceOf(LedgerBusy)
          return got
        }
      }
    }
    expect([fill("hot"), fill("cold")]).toEqual([150, 10])
    queue.stop()
  })

  test("a hold behind 1,000 holds of another account is made after two batches at most", async () => {
    const ledger = await db.ledger()
    const [hot, cold] = [await db.account(1_000n), await db.account(1n)]
    const mine = holdOf(cold, 1n)
    let before = 0
    const others = Array.from({ length: 1_000 }, () => holdOf(hot, 1n))
    const made = others.map((hold) => ledger.hold(hold).then(() => void before++))
    expect(await ledger.hold(mine)).toMatchObject({ outcome: "held" })
    expect(before).toBeLessThanOrEqual(256)
    await Promise.all(made)
    await Promise.all([mine, ...others].map(({ id }) => ledger.end(settled(id, 1n))))
  })
})

describe("whatever fails for some items", () => {
  const drawn = fc.record({
    account: fc.constantFrom("a", "b", "c"),
    /** Refused for good, or in the way of its account so many times, or of everybody. */
    trouble: fc.constantFrom("none", "none", "none", "refused", "locked", "undone"),
    times: fc.integer({ min: 1, max: 2 }),
    /** Added in this step. */
    step: fc.nat(3),
  })

  test("each item is done once, or refused for its own sake alone", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(drawn, { minLength: 1, maxLength: 24 }), async (items) => {
        const left = new Map(items.map((one, at) => [at, one.trouble === "refused" ? 1e9 : one.times]))
        const done: number[] = []
        let running = 0
        const run = async (_: unknown, batch: readonly number[]) => {
          expect(++running).toBe(1)
          await Bun.sleep(0)
          running -= 1
          for (const trouble of ["undone", "refused", "locked"] as const) {
            const troubled = batch.filter((at) => items[at]?.trouble === trouble && (left.get(at) ?? 0) > 0)
            if (troubled.length === 0) continue
            for (const at of troubled) left.set(at, (left.get(at) ?? 0) - 1)
            throw failed(trouble === "undone" ? "40001" : trouble === "refused" ? "22P02" : "55P03")
          }
          done.push(...batch)
          return batch.map((at) => `done ${at}`)
        }
        const queue = new BatchQueue<number, string>(db.connection(), {
          accountOf: (at) => items[at]?.account ?? "",
          run,
        })
        const outcomes: Promise<string>[] = []
        for (let step = 0; step <= 3; step++) {
          for (const [at, one] of items.entries()) {
            if (one.step === step) outcomes[at] = queue.add(at).outcome.catch(() => `refused ${at}`)
          }
          await Bun.sleep(1)
        }
        expect(await Promise.all(outcomes)).toEqual(
          items.map(({ trouble }, at) => `${trouble === "refused" ? "refused" : "done"} ${at}`),
        )
        expect(done.length).toBe(new Set(done).size)
        expect(queue.depth).toBe(0)
        queue.stop()
      }),
      { numRuns: 10, endOnFailure: true },
    )
  })
})
