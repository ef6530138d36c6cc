import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ceilToNano, parseJsonNumber, parsePrice, parseUsd, printPrice, printUsd } from "../src/money.ts"

describe("USD is read exactly, to the nano", () => {
  const rows: [string, bigint][] = [
    ["0", 0n],
    ["10", 10_000_000_000n],
    ["0.1", 100_000_000n],
    ["0.000000001", 1n],
    ["-0.000000001", -1n],
    ["-10.5", -10_500_000_000n],
    ["1.10", 1_100_000_000n],
    ["007", 7_000_000_000n],
    ["999999999.999999999", 999_999_999_999_999_999n],
  ]
  test.each(rows)("%s", (text, amount_nano) => expect(parseUsd(text)).toBe(amount_nano))
})

const noNumber = [
  "",
  " ",
  ".",
  "-",
  "+1",
  "1.",
  ".5",
  "1,5",
  "1 000",
  "1_000",
  "1e3",
  "0x10",
  "NaN",
  "Infinity",
]
const notPlain = ["1.2.3", "--1", "1-", " 1", "1 ", "1\n", "$1", "1 USD", "١", "1n", "null", "1/2"]

describe("what is no amount is refused, never guessed", () => {
  const invalid = [...noNumber, ...notPlain, "0.0000000001", "1000000000", "-1000000000", "- 1"]
  test.each(invalid.map((text) => [text]))("%j", (text) => expect(parseUsd(text)).toBeNull())
})

describe("a price per 1M tokens is read exactly, to the pico per token", () => {
  const rows: [string, bigint][] = [
    ["0", 0n],
    ["0.25", 250_000n],
    ["2.00", 2_000_000n],
    ["0.000001", 1n],
    ["15", 15_000_000n],
    ["999999.999999", 999_999_999_999n],
  ]
  test.each(rows)("%s", (text, price_pico) => expect(parsePrice(text)).toBe(price_pico))

  const invalid = [...noNumber, ...notPlain, "-1", "-0", "0.0000001", "1000000"]
  test.each(invalid.map((text) => [text]))("refused: %j", (text) => expect(parsePrice(text)).toBeNull())
})

describe("money is printed as short as it can be read back", () => {
  const rows: [bigint, string][] = [
    [0n, "0"],
    [1n, "0.000000001"],
    [-1n, "-0.000000001"],
    [-250n, "-0.00000025"],
    [10_000_000_000n, "10"],
    [1_500_000_000n, "1.5"],
    [100n, "0.0000001"],
    [-10_000_000_001n, "-10.000000001"],
    [10n ** 30n, "1000000000000000000000"],
  ]
  test.each(rows)("%p", (amount_nano, text) => expect(printUsd(amount_nano)).toBe(text))

  test("prices", () => {
    expect(printPrice(250_000n)).toBe("0.25")
    expect(printPrice(1n)).toBe("0.000001")
    expect(printPrice(0n)).toBe("0")
  })
})

describe("the one rounding is up", () => {
  const rows: [bigint, bigint][] = [
    [0n, 0n],
    [1n, 1n],
    [999n, 1n],
    [1_000n, 1n],
    [1_001n, 2n],
    [10n ** 24n + 1n, 10n ** 21n + 1n],
  ]
  test.each(rows)("%p pico", (pico, nano) => expect(ceilToNano(pico)).toBe(nano))
})

describe("properties", () => {
  const MOST_NANO = 10n ** 18n - 1n
  const amount = fc.bigInt({ min: -MOST_NANO, max: MOST_NANO })
  const price = fc.bigInt({ min: 0n, max: 10n ** 12n - 1n })

  test("money round trips", () => {
    fc.assert(fc.property(amount, (amount_nano) => parseUsd(printUsd(amount_nano)) === amount_nano))
    fc.assert(fc.property(price, (price_pico) => parsePrice(printPrice(price_pico)) === price_pico))
  })

  test("what is printed has no zeros to spare", () => {
    fc.assert(fc.property(amount, (nano) => /^(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(printUsd(nano))))
  })

  test("rounding up adds less than one nano", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (pico) => {
        const over = ceilToNano(pico) * 1_000n - pico
        return over >= 0n && over < 1_000n
      }),
    )
  })

  test("arbitrary text is an amount or null", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const amount_nano = parseUsd(text)
        if (amount_nano !== null) expect(parseUsd(printUsd(amount_nano))).toBe(amount_nano)
      }),
    )
  })
})

test("a JSON number is read from its text: whatever way it is written, the same units, or null if they are not whole", () => {
  const digits = fc.bigInt({ min: 0n, max: 10n ** 30n })
  fc.assert(
    fc.property(
      digits,
      fc.integer({ min: -40, max: 40 }),
      fc.integer({ min: 0, max: 12 }),
      (units, power, decimals) => {
        const shift = power + decimals
        const whole = shift >= 0 ? units * 10n ** BigInt(shift) : units / 10n ** BigInt(-shift)
        const is_whole = shift >= 0 || whole * 10n ** BigInt(-shift) === units
        const text = units.toString()
        const written = [`${text}e${power}`, `${text}0E${power - 1}`]
        if (text.length > 1) written.push(`${text.slice(0, 1)}.${text.slice(1)}e${power + text.length - 1}`)
        for (const way of written.filter((way) => Math.abs(Number(way.split(/e/i)[1])) <= 50)) {
          expect(parseJsonNumber(way, decimals)).toBe(is_whole ? whole : null)
        }
      },
    ),
  )
  for (const text of ["-1", "1e51", "", "1e", "0x1", "NaN"]) expect(parseJsonNumber(text, 12)).toBeNull()
})
