import { describe, expect, spyOn, test } from "bun:test"
import { KeyLoads } from "../../src/admission/key-loads.ts"
import { GatewayError } from "../../src/errors.ts"

/** How a refusal reads, or null. */
function refusal(work: () => unknown): string | null {
  try {
    work()
    return null
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.code}, ${error.detail.headers?.["retry-after"]} s`
  }
}

const FREE = { in_flight: null, requests_per_minute: null, abandoned_per_minute: null }

describe("D38 what one key takes of a process", () => {
  test("places are given back one by one, and looking takes none", () => {
    const loads = new KeyLoads()
    const limits = { ...FREE, in_flight: 2 }
    const leave = loads.takeSlot("k", limits)
    for (let look = 0; look < 5; look++) loads.check("k", limits)
    loads.takeSlot("k", limits)
    expect(refusal(() => loads.check("k", limits))).toBe("rate_limited, 1 s")
    expect(refusal(() => loads.takeSlot("k", limits))).toBe("rate_limited, 1 s")
    expect(refusal(() => loads.takeSlot("another", limits))).toBeNull()
    leave()
    expect(refusal(() => loads.takeSlot("k", limits))).toBeNull()
    expect(refusal(() => loads.takeSlot("k", limits))).toBe("rate_limited, 1 s")
  })

  test("what was let in without a limit counts once there is one", () => {
    const loads = new KeyLoads()
    loads.takeSlot("k", FREE)
    expect(refusal(() => loads.check("k", { ...FREE, in_flight: 1 }))).toBe("rate_limited, 1 s")
  })

  test.each([
    [1, 60],
    [2, 30],
    [7, 9],
    [60, 1],
    [6_000, 1],
  ])("beyond %d requests a minute the next may come after %d s", (requests_per_minute, wait_s) => {
    const loads = new KeyLoads()
    const limits = { ...FREE, requests_per_minute }
    // At the highest rate a request flows off every 10 ms, which a slow machine needs for these lines.
    const clock = spyOn(performance, "now").mockReturnValue(1_000)
    try {
      for (let request = 0; request < requests_per_minute; request++) loads.count("k", limits)
      const refused = `rate_limited, ${wait_s} s`
      expect(refusal(() => loads.count("k", limits))).toBe(refused)
      expect(refusal(() => loads.check("k", limits))).toBe(refused)
    } finally {
      clock.mockRestore()
    }
  })

  test("keys that run nothing cost nothing, and a limit that is not set remembers nobody", () => {
    const loads = new KeyLoads()
    for (let key = 0; key < 10_000; key++) {
      const leave = loads.takeSlot(String(key), FREE)
      loads.count(String(key), FREE)
      leave()
    }
    expect(loads.size).toBe(0)
  })
})
