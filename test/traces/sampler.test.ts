import { describe, expect, test } from "bun:test"
import { newSpanId, newTraceId } from "../../src/traces/recorded.ts"
import { isSampled } from "../../src/traces/tracer.ts"

const context = (sampled: boolean) => ({
  trace_id: newTraceId(),
  span_id: newSpanId(),
  sampled,
  tracestate: null,
})
const TRACES = 20_000

describe("D54 which traces are recorded", () => {
  test.each([0, 0.01, 0.5, 0.99, 1])("a share of %d of those that begin here", (ratio) => {
    for (const parent_based of [true, false]) {
      const sampler = { parent_based, ratio }
      const recorded = Array.from({ length: TRACES }, newTraceId).filter((id) => isSampled(sampler, id, null))
      // Six standard deviations.
      const off = 6 * Math.sqrt(TRACES * ratio * (1 - ratio))
      expect(Math.abs(recorded.length - TRACES * ratio)).toBeLessThanOrEqual(off)
    }
  })

  test("whoever is recorded with a share is recorded with a larger one", () => {
    for (const id of Array.from({ length: 1_000 }, newTraceId)) {
      const recorded = [0.1, 0.3, 0.7].map((ratio) => isSampled({ parent_based: true, ratio }, id, null))
      expect(recorded).toEqual([...recorded].sort())
    }
  })

  test.each([0, 0.5, 1])(
    "a client that says so is believed where parents count: with a share of %d",
    (ratio) => {
      for (const sampled of [true, false]) {
        const said = context(sampled)
        expect(isSampled({ parent_based: true, ratio }, said.trace_id, said)).toBe(sampled)
      }
    },
  )

  test("and is not where they do not", () => {
    for (const sampled of [true, false]) {
      const said = context(sampled)
      expect(isSampled({ parent_based: false, ratio: 1 }, said.trace_id, said)).toBe(true)
      expect(isSampled({ parent_based: false, ratio: 0 }, said.trace_id, said)).toBe(false)
    }
  })
})
