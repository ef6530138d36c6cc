import { describe, expect, test } from "bun:test"
import { flatness, growthSteps, type Slice } from "../../bench/soak.ts"

describe("what a long run calls flat", () => {
  const summary = (p99: number) => ({ count: 1, mean: 1, p50: 1, p90: 1, p99, max: p99 })
  const slices = (grown: number): Slice[] =>
    Array.from({ length: 20 }, (_, at) => ({
      calls: at,
      left: 0,
      resident_bytes: at < 15 ? 100 : 100 * grown,
      json_latency_ms: summary(10),
      time_to_first_token_ms: summary(10),
    }))
  const step = (calls: number, p50: number) => ({
    calls,
    vacuumed: true,
    hold_ms: { ...summary(1), p50 },
    settle_ms: { ...summary(1), p50 },
    pairs_per_s: 1,
  })

  test.each([
    ["nothing grows", 1, 1, [true, true, true, true]],
    ["memory grows", 1.3, 1, [false, true, true, true]],
    ["the statements grow", 1, 1.4, [true, true, true, false]],
  ])("%s", (_name, memory, statements, reached) => {
    const figures = flatness(slices(memory), [step(10_000, 0.5), step(2_000_000, 0.5 * statements)])
    expect(figures.map((figure) => figure.reached)).toEqual(reached)
  })

  test.each([
    [2_000_000, [10_000, 100_000, 500_000, 1_000_000, 2_000_000]],
    [20_000, [10_000, 20_000]],
    [5_000, [5_000]],
  ])("statements are timed at steps up to %d", (past, steps) => {
    expect(growthSteps(past)).toEqual(steps)
  })
})
