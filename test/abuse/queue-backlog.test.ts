import { expect, test } from "bun:test"
import { BatchQueue, QUEUE_LIMIT } from "../../src/ledger/database/batch-queue.ts"
import { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import { Withdrawn } from "../../src/ledger/database/queued.ts"
import { LedgerUnavailable } from "../../src/ledger/entries.ts"
import { ANSWER_MS } from "../../src/ledger/queue/holds.ts"

/** How many items one statement takes. */
const BATCH = 128
/** How long a statement of a slow database takes. */
const STATEMENT_MS = 100
/** Longer than callers wait, so that a queue that only they shorten would have come to its end. */
const LOAD_MS = 3_000

/** What became of calls that came to a queue at a rate, for a while; `served` is what the database did. */
interface Outcome {
  offered: number
  answered: number
  refused: number
  given_up: number
  served: number
  /** For which this process did not run on a busy machine: the queue cannot tell that from a slow database. */
  paused_ms: number
}

/** Offers `load` times what the database can do, at an even rate. */
async function offer(load: number): Promise<Outcome> {
  const outcome: Outcome = { offered: 0, answered: 0, refused: 0, given_up: 0, served: 0, paused_ms: 0 }
  // Nothing runs on it: it only gives turns.
  const connection = new DatabaseConnection({ socket_path: "/nonexistent", user: "nobody", database: "none" })
  const queue = new BatchQueue<number, boolean>(
    connection,
    {
      accountOf: (item) => String(item % 50),
      async run(_, items) {
        expect(items.length).toBeLessThanOrEqual(BATCH)
        await Bun.sleep(STATEMENT_MS)
        outcome.served += items.length
        return items.map(() => true)
      },
    },
    { limit: QUEUE_LIMIT },
  )
  const note = (error: unknown) => {
    if (error instanceof LedgerUnavailable) outcome.refused += 1
    else if (error instanceof Withdrawn) outcome.given_up += 1
    else throw error
  }
  const asked: Promise<void>[] = []
  const began_ms = performance.now()
  for (let now_ms = 0; now_ms < LOAD_MS; now_ms = performance.now() - began_ms) {
    for (; outcome.offered < (now_ms * load * BATCH) / STATEMENT_MS; outcome.offered++) {
      asked.push(queue.submit(outcome.offered, ANSWER_MS).then(() => void outcome.answered++, note))
    }
    const slept_ms = performance.now()
    await Bun.sleep(STATEMENT_MS / 10)
    outcome.paused_ms += Math.max(0, performance.now() - slept_ms - STATEMENT_MS / 2)
  }
  await Promise.all(asked)
  await connection.end()
  return outcome
}

test("D38 a database that is offered three times what it can do: the excess is refused at once, nothing is done in vain", async () => {
  const [much, little] = await Promise.all([offer(3), offer(0.5)])
  expect(much.answered + much.refused + much.given_up).toBe(much.offered)
  expect(much.answered / much.served).toBeGreaterThan(0.9 - (2 * much.paused_ms) / LOAD_MS)
  expect(much.refused).toBeGreaterThan(much.given_up)
  expect(little.answered / little.offered).toBeGreaterThan(0.9 - (2 * little.paused_ms) / LOAD_MS)
})
