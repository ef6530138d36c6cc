import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { checksumHolds, hashOf, makeKey, prefixOf } from "../../src/admission/key.ts"

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** CRC-32 in base62, worked out elsewhere; fixed for ever, since keys with this checksum are in people's hands. */
const KEY = "tg_live_000000000000000000000000000000"
const CHECKSUM = "3nUU1K"

const position = fc.integer({ min: 0, max: 43 })
const character = fc.constantFrom(...BASE62)

describe("D26 a key is tg_live_, 30 base62 characters and 6 of checksum", () => {
  test("every new key has the form and the checksum, and is another", () => {
    const keys = Array.from({ length: 2_000 }, makeKey)
    for (const key of keys) {
      expect(key).toMatch(/^tg_live_[0-9A-Za-z]{36}$/)
      expect(checksumHolds(key)).toBe(true)
    }
    expect(new Set(keys).size).toBe(keys.length)
  })

  test("the checksum is what it always was", () => {
    expect(checksumHolds(KEY + CHECKSUM)).toBe(true)
  })

  test("no character of the random part is likelier than another", () => {
    const counts = new Map<string, number>()
    const keys = 4_000
    for (let at = 0; at < keys; at++) {
      for (const char of makeKey().slice(8, 38)) counts.set(char, (counts.get(char) ?? 0) + 1)
    }
    const expected = (keys * 30) / 62
    const chi_squared = [...BASE62].reduce(
      (sum, char) => sum + ((counts.get(char) ?? 0) - expected) ** 2 / expected,
      0,
    )
    // 61 degrees of freedom: a fair source exceeds 130 once in 600,000 runs; bytes taken modulo 62 without rejection give thousands.
    expect(chi_squared).toBeLessThan(130)
  })
})

describe("D26 a wrong checksum is refused without the database", () => {
  test("any one changed character breaks it", () => {
    fc.assert(
      fc.property(position, character, (at, char) => {
        const key = makeKey()
        fc.pre(key[at] !== char)
        expect(checksumHolds(key.slice(0, at) + char + key.slice(at + 1))).toBe(false)
      }),
      { numRuns: 500 },
    )
  })

  test("so do two neighbours that change places", () => {
    fc.assert(
      fc.property(fc.integer({ min: 8, max: 42 }), (at) => {
        const key = makeKey()
        fc.pre(key[at] !== key[at + 1])
        const swapped = key.slice(0, at) + key[at + 1] + key[at] + key.slice(at + 2)
        expect(checksumHolds(swapped)).toBe(false)
      }),
    )
  })

  const key = makeKey()
  test.each([
    ["empty", ""],
    ["the prefix alone", "tg_live_"],
    ["one character more", `${key}0`],
    ["a line break at the end", `${key}\n`],
    ["another prefix", key.replace("tg_live_", "tg_test_")],
    ["the prefix in upper case", key.replace("tg_live_", "TG_LIVE_")],
    ["a dash", key.replace(/.$/, "-")],
    ["100,000 characters", `tg_live_${"a".repeat(100_000)}`],
  ])("%s is no key", (_, text) => {
    expect(checksumHolds(text)).toBe(false)
  })

  test.each([
    ["another prefix", "tg_test_000000000000000000000000000000", "0hAotN"],
    ["a random part of 29", "tg_live_00000000000000000000000000000", "43ygAy"],
    ["a random part of 31", "tg_live_0000000000000000000000000000000", "4ZFzBt"],
    ["a dash in the random part", "tg_live_00000000000000000000000000000-", "39mPHX"],
    ["nothing", "", "000000"],
  ])("a right checksum does not make a key of %s", (_, body, checksum) => {
    expect(checksumHolds(body + checksum)).toBe(false)
  })
})

describe("D26 what is stored and shown", () => {
  test("SHA-256 of the key, in lower-case hex", () => {
    expect(hashOf("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  })

  test("the first twelve characters, which leave 26 of the random ones unsaid", () => {
    const key = makeKey()
    expect(prefixOf(key)).toBe(key.slice(0, 12))
  })
})
