import { groupDigits, printUsd } from "../money.ts"

/** Formats amounts for people. Money stays a decimal string or a bigint; only plots use numbers. */

/** `1234.5` as `$1,234.50`: all decimals, at least two. Anything that is not an amount is returned unchanged. */
export function showUsd(text: string): string {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  if (whole === undefined) return text
  return `${sign === "-" ? "−" : ""}$${groupDigits(whole)}.${fraction.padEnd(2, "0")}`
}

/** The sum of decimal strings, as one. Invalid ones count as 0. */
export function sumUsd(texts: readonly string[]): string {
  return printUsd(texts.reduce((sum, text) => sum + nanoOf(text), 0n))
}

export function lessUsd(left: string, right: string): string {
  return printUsd(nanoOf(left) - nanoOf(right))
}

/** USD labels of an axis, all with the same number of decimals. */
export function showAxisUsd(values: readonly number[]): readonly string[] {
  const decimals = Math.max(...values.map(decimalsOf))
  return values.map((value) => {
    if (value === 0) return "$0"
    const [whole = "", fraction] = value.toFixed(decimals === 1 ? 2 : decimals).split(".")
    return `$${groupDigits(whole)}${fraction === undefined ? "" : `.${fraction}`}`
  })
}

function decimalsOf(value: number): number {
  const places = Array.from({ length: 9 }, (_, at) => at)
  return places.find((at) => Math.abs(Number(value.toFixed(at)) - value) < 1e-12) ?? 9
}

/** `1234567` as `1,234,567`. */
export function showCount(value: number): string {
  return `${value < 0 ? "−" : ""}${groupDigits(Math.abs(value).toString())}`
}

/** Count labels of an axis: `1.25k`, `20M`. */
export function showAxisCounts(values: readonly number[]): readonly string[] {
  return values.map((value) => {
    const [size, unit] = UNITS.find(([least]) => Math.abs(value) >= least) ?? [1, ""]
    return `${Number((value / size).toPrecision(3))}${unit}`
  })
}

const UNITS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const

/** A share in percent, with one decimal if it is small. */
export function showShare(part: number, whole: number): string {
  if (whole === 0) return "0%"
  const percent = (part / whole) * 100
  if (percent > 0 && percent < 0.1) return "<0.1%"
  return `${percent < 10 ? Number(percent.toFixed(1)) : Math.round(percent)}%`
}

/** Sums can have more whole digits than `parseUsd` allows; invalid text counts as 0. */
function nanoOf(text: string): bigint {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) return 0n
  const magnitude = BigInt(whole + fraction.padEnd(9, "0"))
  return sign === "-" ? -magnitude : magnitude
}
