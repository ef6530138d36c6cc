import { expect, test } from "bun:test"
import { GatewayError } from "../../src/errors.ts"
import { Withdrawn } from "../../src/ledger/queue/batch-queue.ts"
import { BATCH_CAP, Lane } from "../../src/ledger/queue/batch-queue.ts"
import { ANSWER_MS, LANE_LIMIT } from "../../src/ledger/queue/batch-queue.ts"

/** How long a statement of slow books takes. */
const STATEMENT_MS = 100
/** Longer than callers wait, so that a queue that only they shorten would have come to its end. */
const LOAD_MS = 3_000

/** What became of calls that came to a lane at a rate, for a while; `served` is what the books did. */
interface Outcome {
  offered: number
  answered: number
  refused: number
  given_up: number
  served: number
}

/** Offers `load` times what the books can do, at an even rate. */
async function offer(load: number): Promise<Outcome> {
  const outcome: Outcome = { offered: 0, answered: 0, refused: 0, given_up: 0, served: 0 }
  const lane = new Lane<number, boolean>(
    {
      accountOf: (item) => String(item % 50),
      async run(items) {
        await Bun.sleep(STATEMENT_MS)
        outcome.served += items.length
        return items.map(() => true)
      },
    },
    LANE_LIMIT,
  )
  const note = (error: unknown) => {
    if (error instanceof GatewayError && error.code === "ledger_unavailable") outcome.refused += 1
    else if (error instanceof Withdrawn) outcome.given_up += 1
    else throw error
  }
  const asked: Promise<void>[] = []
  const began_ms = performance.now()
  for (let now_ms = 0; now_ms < LOAD_MS; now_ms = performance.now() - began_ms) {
    for (; outcome.offered < (now_ms * load * BATCH_CAP) / STATEMENT_MS; outcome.offered++) {
      asked.push(lane.ask(outcome.offered, ANSWER_MS).then(() => void outcome.answered++, note))
    }
    await Bun.sleep(STATEMENT_MS / 10)
  }
  await Promise.all(asked)
  return outcome
}

test("D33 books that are offered three times what they can do: the excess is refused at once, nothing is done in vain", async () => {
  const [much, little] = await Promise.all([offer(3), offer(0.5)])
  expect(much.answered + much.refused + much.given_up).toBe(much.offered)
  expect(much.answered / much.served).toBeGreaterThan(0.9)
  expect(much.refused).toBeGreaterThan(much.given_up)
  expect(little.answered / little.offered).toBeGreaterThan(0.9)
})
