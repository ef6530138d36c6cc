/**
 * Money is integer nano-USD in a bigint; a token's price is integer pico-USD in a bigint.
 * A decimal string of USD per 1M tokens names micro-USD per 1M tokens exactly, which is pico-USD per token.
 */

/** The price of one token by kind, in pico-USD, and of a call that is charged at all, in nano-USD (D44). Pinned in the reservation: a call settles at the price it was admitted at. */
export interface Price {
  readonly input_pico: bigint
  readonly cached_input_pico: bigint
  readonly output_pico: bigint
  readonly per_call_nano: bigint
}

const NANO_PER_USD = 1_000_000_000n
export const PICO_PER_NANO = 1_000n
const AMOUNT = /^-?\d{1,9}(?:\.\d{1,9})?$/
const PRICE = /^\d{1,6}(?:\.\d{1,6})?$/

/** USD as a decimal string with at most nine decimals and nine whole digits, in nano-USD; null when it is not one. */
export function parseUsd(text: string): bigint | null {
  if (!AMOUNT.test(text)) return null
  const magnitude = scaled(text.replace("-", ""), 9)
  return text.startsWith("-") ? -magnitude : magnitude
}

/** Nano-USD as a decimal string in USD without trailing zeros: `-0.00000025`, `10`. */
export function printUsd(amount_nano: bigint): string {
  const magnitude = amount_nano < 0n ? -amount_nano : amount_nano
  const fraction = (magnitude % NANO_PER_USD).toString().padStart(9, "0").replace(/0+$/, "")
  const sign = amount_nano < 0n ? "-" : ""
  return `${sign}${magnitude / NANO_PER_USD}${fraction === "" ? "" : `.${fraction}`}`
}

/** USD per 1M tokens as a decimal string with at most six decimals, in pico-USD per token; null when it is not one. */
export function parsePrice(text: string): bigint | null {
  return PRICE.test(text) ? scaled(text, 6) : null
}

/** Pico-USD per token as a decimal string of USD per 1M tokens, the form `parsePrice` reads. */
export function printPrice(price_pico: bigint): string {
  return printUsd(price_pico * PICO_PER_NANO)
}

/** A cost in pico-USD, never negative, rounded up to whole nano-USD: the one rounding of a call. */
export function ceilToNano(amount_pico: bigint): bigint {
  return (amount_pico + PICO_PER_NANO - 1n) / PICO_PER_NANO
}

/** Digits in groups of three: `1234567` as `1,234,567`. */
export function groupDigits(digits: string): string {
  const first = digits.length % 3 || 3
  const groups = [digits.slice(0, first)]
  for (let at = first; at < digits.length; at += 3) groups.push(digits.slice(at, at + 3))
  return groups.join(",")
}

function scaled(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".")
  return BigInt(whole + fraction.padEnd(decimals, "0"))
}
