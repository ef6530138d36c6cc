import { afterEach, beforeEach, expect, jest, test } from "bun:test"
import { openLog } from "../../src/log.ts"
import { backoffAfter, workerSlot } from "../../src/workers/worker-slot.ts"

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

test("the backoff grows while workers crash early, up to 30 s, and is 0 after one that ran for 10 s", () => {
  const backoffs: number[] = []
  for (let backoff_ms = 0; backoffs.length < 11; backoffs.push(backoff_ms))
    backoff_ms = backoffAfter(500, backoff_ms)
  expect(backoffs).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000])
  expect(backoffAfter(10_000, 30_000)).toBe(0)
})

/** A slot whose workers serve at once, and exit as told. */
async function slotOfWorkers() {
  const workers: PromiseWithResolvers<number>[] = []
  const slot = workerSlot({
    number: 1,
    log: openLog("silent"),
    spawn() {
      const exit = Promise.withResolvers<number>()
      const pid = workers.push(exit)
      const done = async () => {}
      const listening = Promise.resolve()
      return {
        pid,
        listening,
        exited: exit.promise,
        send: done,
        reload: done,
        ask: async () => null,
        kill() {},
      }
    },
  })
  await slot.listening
  const exits = async (code: number) => {
    workers.at(-1)?.resolve(code)
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
  }
  return { slot, workers, exits }
}

test("a worker that exits is replaced after its backoff, and none after the slot was closed", async () => {
  const { slot, workers, exits } = await slotOfWorkers()
  await exits(1)
  expect([workers.length, slot.worker]).toEqual([1, null])
  jest.advanceTimersByTime(100)
  expect([workers.length, slot.worker?.pid]).toEqual([2, 2])
  const closed = slot.close("drain")
  await exits(3)
  expect(await closed).toBe(3)
  jest.advanceTimersByTime(60_000)
  expect(workers).toHaveLength(2)
})

test("a slot that is closed in a backoff starts no worker", async () => {
  const { slot, workers, exits } = await slotOfWorkers()
  await exits(1)
  expect(await slot.close("stop")).toBe(0)
  jest.advanceTimersByTime(60_000)
  expect(workers).toHaveLength(1)
})
