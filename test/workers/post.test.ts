import { expect, test } from "bun:test"
import { pauseAfter } from "../../src/workers/post.ts"

test("the pause grows while workers die young, up to half a minute, and is gone after one that lived", () => {
  const pauses: number[] = []
  for (let pause_ms = 0; pauses.length < 11; pauses.push(pause_ms)) pause_ms = pauseAfter(500, pause_ms)
  expect(pauses).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000])
  expect(pauseAfter(10_000, 30_000)).toBe(0)
})
