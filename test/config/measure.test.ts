import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { bytes, ms, SIZE } from "../../src/config/values.ts"

function orNull(read: () => number): number | null {
  try {
    return read()
  } catch {
    return null
  }
}
const parseDuration = (text: string) => orNull(() => ms(text))
const parseSize = (text: string) => (SIZE.test(text) ? orNull(() => bytes(text)) : null)

/** The longest that `setTimeout` can wait. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

describe("a duration is a whole number and a unit", () => {
  test.each([
    ["0s", 0],
    ["0ms", 0],
    ["50ms", 50],
    ["15s", 15_000],
    ["015s", 15_000],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["99999999ms", 99_999_999],
    ["999999s", 999_999_000],
    ["9999m", 599_940_000],
    ["99h", 356_400_000],
  ])("%s", (text, duration_ms) => {
    expect(parseDuration(text)).toBe(duration_ms)
  })

  test.each([
    "",
    "15",
    "s",
    "ms",
    "15 s",
    " 15s",
    "15s ",
    "15s\n",
    ..."1.5s -1s +1s 1e3s 0x1s 15S 15sec 15d 1h30m".split(" "),
    "١٥s",
    ..."100000000ms 1000000s 10000m 100h 1__proto__ 1constructor Infinityms".split(" "),
  ])("%j is none", (text) => {
    expect(parseDuration(text)).toBeNull()
  })

  test("none is longer than a timer can wait", () => {
    const unit = fc.constantFrom("ms", "s", "m", "h")
    fc.assert(
      fc.property(fc.nat(), unit, (count, unit) => {
        expect(parseDuration(`${count}${unit}`) ?? 0).toBeLessThanOrEqual(LONGEST_TIMER_MS)
      }),
    )
  })
})

describe("a size is a whole number above zero and a unit", () => {
  test.each([
    ["1B", 1],
    ["64KB", 64_000],
    ["64KiB", 65_536],
    ["8MB", 8_000_000],
    ["20MiB", 20_971_520],
    ["999MiB", 1_047_527_424],
  ])("%s", (text, bytes) => {
    expect(parseSize(text)).toBe(bytes)
  })

  test.each([
    "",
    "20",
    "MiB",
    "0B",
    "00MiB",
    "20 MiB",
    " 20MiB",
    "20MiB ",
    "20MiB\n",
    ..."1.5MiB -1MiB 20M 20mib 20MIB 20Mb 1GiB 1000MiB 1constructor 1__proto__B".split(" "),
  ])("%j is none", (text) => {
    expect(parseSize(text)).toBeNull()
  })
})
