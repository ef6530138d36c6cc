import { expect, test } from "bun:test"
import fc from "fast-check"
import { distribution } from "../../src/ledger/reports/latency.ts"

test("D51: percentiles are those of the values one by one, and every value lies in one bucket of a list without gaps", () => {
  const value = fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 20_000_000 }))
  fc.assert(
    fc.property(fc.array(fc.tuple(value, fc.integer({ min: 1, max: 5 })), { minLength: 1 }), (counted) => {
      const each = counted
        .flatMap(([ms, calls]) => Array.from({ length: calls }, () => ms))
        .sort((left, right) => left - right)
      const rank = (share: number) => each[Math.ceil(each.length * share) - 1]
      const found = distribution(counted)
      expect(found.calls).toBe(each.length)
      expect<unknown>([found.p50_ms, found.p90_ms, found.p99_ms]).toEqual([rank(0.5), rank(0.9), rank(0.99)])
      for (const [at, { from_ms, below_ms, calls }] of found.buckets.entries()) {
        expect(calls).toBe(each.filter((ms) => ms >= from_ms && ms < below_ms).length)
        expect(found.buckets[at + 1]?.from_ms ?? below_ms).toBe(below_ms)
      }
      expect(found.buckets.reduce((sum, { calls }) => sum + calls, 0)).toBe(each.length)
      expect([found.buckets[0]?.calls, found.buckets.at(-1)?.calls]).not.toContain(0)
    }),
  )
})

test("D51: a distribution of nothing has no percentiles and no buckets", () => {
  expect(distribution([])).toEqual({ calls: 0, p50_ms: null, p90_ms: null, p99_ms: null, buckets: [] })
})
