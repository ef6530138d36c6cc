import { expect, test } from "bun:test"
import { backoffAfter } from "../../src/workers/worker-slot.ts"

test("the backoff grows while workers crash early, up to 30 s, and is 0 after one that ran for 10 s", () => {
  const backoffs: number[] = []
  for (let backoff_ms = 0; backoffs.length < 11; backoffs.push(backoff_ms))
    backoff_ms = backoffAfter(500, backoff_ms)
  expect(backoffs).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000])
  expect(backoffAfter(10_000, 30_000)).toBe(0)
})
