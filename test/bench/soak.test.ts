import { describe, expect, test } from "bun:test"
import { flatness, type Slice } from "../../bench/soak.ts"

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
  test.each([
    ["nothing grows", 1, [true, true, true]],
    ["memory grows", 1.3, [false, true, true]],
  ])("%s", (_name, memory, reached) => {
    const figures = flatness(slices(memory))
    expect(figures.map((figure) => figure.reached)).toEqual(reached)
  })
})
