import { afterAll, beforeAll, expect, test } from "bun:test"
import { Withdrawn } from "../../src/ledger/queue/batch-queue.ts"
import { Lane } from "../../src/ledger/queue/batch-queue.ts"
import { reserveBatch } from "../../src/ledger/journal/hold.ts"
import { holdOf, lockAccount, openBooks, type TestBooks } from "./books.ts"

/** A lane by itself: what its owner sees of it. */

let books: TestBooks

beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

test("a lane that is stopped while its statement waits for a lock tries no more, and says so", async () => {
  const gateway_id = await books.gateway()
  const connection = books.connection()
  const attempted = Promise.withResolvers<void>()
  const lane = new Lane({
    accountOf: ({ account_id }) => account_id,
    run: (holds: readonly ReturnType<typeof holdOf>[], patience_ms) => {
      attempted.resolve()
      return reserveBatch(connection, gateway_id, holds, patience_ms)
    },
  })
  const account = await books.account(100n)
  const lock = await lockAccount(books.sql, account.account_id)
  const { outcome } = lane.enter(holdOf(account, 1n))
  await attempted.promise
  lane.stop()
  expect(await outcome.catch((error: unknown) => error)).toBeInstanceOf(Withdrawn)
  await lock.unlock()
}, 5_000)
