import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { LoadRate } from "../../src/admission/key-loads.ts"

const MINUTE_MS = 60_000

/** Lets a request in if it may come, and says whether it was. */
function ask(rate: LoadRate, key: string, per_minute: number, now_ms: number): boolean {
  if (rate.wait(key, per_minute, now_ms) > 0) return false
  rate.note(key, per_minute, now_ms)
  return true
}

describe("D38 requests a minute", () => {
  test.each([1, 2, 3, 7, 59, 600])(
    "%d may come at once, and one more when one has flowed off",
    (per_minute) => {
      const rate = new LoadRate()
      for (let request = 0; request < per_minute; request++) expect(ask(rate, "k", per_minute, 0)).toBe(true)
      const wait_ms = rate.wait("k", per_minute, 0)
      expect(wait_ms).toBeCloseTo(MINUTE_MS / per_minute, 6)
      expect(ask(rate, "k", per_minute, wait_ms - 1)).toBe(false)
      expect(ask(rate, "k", per_minute, wait_ms + 1)).toBe(true)
      expect(ask(rate, "k", per_minute, wait_ms + 2)).toBe(false)
    },
  )

  test("D91 what is counted without being asked for is waited for, up to the time that is kept", () => {
    const rate = new LoadRate(10 * MINUTE_MS)
    for (let call = 0; call < 20; call++) rate.note("k", 4, 0)
    expect(rate.wait("k", 4, 0)).toBeCloseTo((17 * MINUTE_MS) / 4, 6)
    expect(rate.wait("k", 4, (17 * MINUTE_MS) / 4)).toBe(0)
    for (let call = 0; call < 1_000; call++) rate.note("k", 4, 5 * MINUTE_MS)
    expect(rate.wait("k", 4, 5 * MINUTE_MS)).toBeLessThanOrEqual(10 * MINUTE_MS)
    expect(rate.wait("k", 4, 16 * MINUTE_MS)).toBe(0)
  })

  test("a limit that was lowered is not paid for longer than a minute", () => {
    const rate = new LoadRate()
    for (let request = 0; request < 1_000; request++) ask(rate, "k", 1_000, 0)
    expect(rate.wait("k", 2, 0)).toBeCloseTo(MINUTE_MS / 2, 6)
    expect(ask(rate, "k", 2, MINUTE_MS)).toBe(true)
  })

  const steps = fc.array(
    fc.record({ key: fc.constantFrom("a", "b", "c"), pause_ms: fc.integer({ min: 0, max: 40_000 }) }),
    { maxLength: 200 },
  )

  test("what is forgotten was empty: it decides as one that remembers everything", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), steps, (per_minute, requests) => {
        const rate = new LoadRate()
        const levels = new Map<string, { level: number; at_ms: number }>()
        let now_ms = 0
        for (const { key, pause_ms } of requests) {
          now_ms += pause_ms
          const last = levels.get(key) ?? { level: 0, at_ms: now_ms }
          const level = Math.max(0, last.level - ((now_ms - last.at_ms) * per_minute) / MINUTE_MS)
          const may = level + 1 <= per_minute
          if (may) levels.set(key, { level: level + 1, at_ms: now_ms })
          expect(ask(rate, key, per_minute, now_ms)).toBe(may)
        }
      }),
    )
  })

  test("idle keys cost nothing: a hundred thousand are forgotten by the next request", () => {
    const rate = new LoadRate()
    for (let key = 0; key < 100_000; key++) rate.note(String(key), 5, key / 10)
    expect(rate.size).toBe(100_000)
    rate.wait("another", 5, 3 * MINUTE_MS)
    expect(rate.size).toBe(0)
  })
})
