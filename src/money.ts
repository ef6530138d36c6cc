import { type Bucket, buckets, type Kind, unitOf } from "./kinds.ts"

/**
 * Money is integer nano-USD in a bigint; a token's price is integer pico-USD in a bigint.
 * A decimal string of USD per 1M tokens names micro-USD per 1M tokens exactly, which is pico-USD per token.
 */

/** The price of one token by kind, in pico-USD, and of a call that is charged at all, in nano-USD (D44). Fixed in the hold: a call settles at the price it was admitted at. */
export interface Price {
  readonly input_pico: bigint
  readonly cached_input_pico: bigint
  readonly output_pico: bigint
  readonly per_call_nano: bigint
  /** Prices of further kinds; absent if there are none (D60). */
  readonly buckets?: BucketPrices
  /** In pico-USD for a run of each of the provider's tools, by its name; absent if there are none (D60). */
  readonly tool_runs?: Readonly<Record<string, bigint>>
}

/** True if every price is 0. */
export function isFree({ buckets: named = {}, tool_runs = {}, ...plain }: Price): boolean {
  return [plain, named, tool_runs].every((prices) => Object.values(prices).every((part) => part === 0n))
}

/** In pico-USD for one of the kind's unit. */
type BucketPrices = Readonly<Partial<Record<Bucket, bigint>>>

/** Prices by kind as decimal strings, each in the form that its unit has; `cached_input` is that of `input` unless it is named. */
export interface PriceTexts extends Readonly<Partial<Record<Bucket, string>>> {
  readonly input: string
  readonly cached_input?: string
  readonly output?: string
  readonly per_call?: string
  readonly tool_run?: Readonly<Record<string, string>>
}

export function pricesIn(texts: PriceTexts): Price {
  const named = buckets.flatMap((bucket) => {
    const text = texts[bucket]
    return text === undefined
      ? []
      : [[bucket, checked(unitOf(bucket) === "token" ? parsePrice(text) : parseFee(text))]]
  })
  const runs = Object.entries(texts.tool_run ?? {}).map(([tool, text]) => [tool, checked(parseFee(text))])
  return {
    input_pico: checked(parsePrice(texts.input)),
    cached_input_pico: checked(parsePrice(texts.cached_input ?? texts.input)),
    output_pico: texts.output === undefined ? 0n : checked(parsePrice(texts.output)),
    per_call_nano: texts.per_call === undefined ? 0n : checked(parseUsd(texts.per_call)),
    ...(named.length > 0 && { buckets: Object.fromEntries(named) }),
    ...(texts.tool_run !== undefined && { tool_runs: Object.fromEntries(runs) }),
  }
}

function checked(parsed: bigint | null): bigint {
  if (parsed === null) throw new Error("a price is not of its form")
  return parsed
}

/** The price of a whole call whose prompt, cached tokens included, has more than `above_tokens` (D62). */
export interface Tier {
  readonly above_tokens: number
  readonly price: Price
}

/** A price, and the prices of larger prompts by increasing size. */
export interface Rate {
  readonly price: Price
  readonly tiers: readonly Tier[]
}

/** The prices of a model at a service tier of its provider (D70). */
export interface ServiceTier extends Rate {
  readonly name: string
}

export const PICO_PER_NANO = 1_000n
/** A price multiplier of 1 (D69). Multipliers are whole basis points: 12,500 is 1.25. */
export const PAR_BP = 10_000
const MAX_MULTIPLIER_BP = 1_000 * PAR_BP
const AMOUNT = /^-?\d{1,9}(?:\.\d{1,9})?$/
const PRICE = /^\d{1,6}(?:\.\d{1,6})?$/
const MULTIPLIER = /^\d{1,4}(?:\.\d{1,4})?$/
const FEE = /^\d{1,6}(?:\.\d{1,9})?$/

/** USD as a decimal string with at most nine decimals and nine whole digits, in nano-USD; null when it is not one. */
export function parseUsd(text: string): bigint | null {
  if (!AMOUNT.test(text)) return null
  const magnitude = scaled(text.replace("-", ""), 9)
  return text.startsWith("-") ? -magnitude : magnitude
}

/** Nano-USD as a decimal string in USD without trailing zeros: `-0.00000025`, `10`. */
export function printUsd(amount_nano: bigint): string {
  return amount_nano < 0n ? `-${printed(-amount_nano, 9)}` : printed(amount_nano, 9)
}

/** USD per 1M tokens as a decimal string with at most six decimals, in pico-USD per token; null when it is not one. */
export function parsePrice(text: string): bigint | null {
  return PRICE.test(text) ? scaled(text, 6) : null
}

/** USD each, as a decimal string with at most nine decimals and six whole digits, in pico-USD; null when it is not one. */
export function parseFee(text: string): bigint | null {
  return FEE.test(text) ? scaled(text, 12) : null
}

/** Pico-USD, times a price multiplier, as a decimal string in USD without trailing zeros: `0.000000000025`. Exact. */
export function printPico(amount_pico: bigint, price_multiplier_bp: number = PAR_BP): string {
  return printed(amount_pico * BigInt(price_multiplier_bp), 16)
}

/** Pico-USD per token times the multiplier, in the form that `parsePrice` reads. Exact. */
export function printPrice(price_pico: bigint, price_multiplier_bp: number = PAR_BP): string {
  return printed(price_pico * BigInt(price_multiplier_bp), 10)
}

/** The price of a kind, times a price multiplier, as the configuration writes it: USD per 1M tokens, or USD for one of its unit. */
export function printPriceOf(kind: Kind, price_pico: bigint, price_multiplier_bp?: number): string {
  return unitOf(kind) === "token"
    ? printPrice(price_pico, price_multiplier_bp)
    : printPico(price_pico, price_multiplier_bp)
}

/** A multiplier as a decimal string with at most four decimals, above 0 and at most 1,000, in basis points; null when it is not one. */
export function parseMultiplier(text: string): number | null {
  if (!MULTIPLIER.test(text)) return null
  const price_multiplier_bp = Number(scaled(text, 4))
  return price_multiplier_bp > 0 && price_multiplier_bp <= MAX_MULTIPLIER_BP ? price_multiplier_bp : null
}

/** Basis points as a decimal string, the form `parseMultiplier` reads. */
export function printMultiplier(price_multiplier_bp: number): string {
  return printed(BigInt(price_multiplier_bp), 4)
}

/** A cost times the price multiplier, rounded up to whole nano-USD: the one rounding of a call. */
export function ceilToNano(amount_pico: bigint, price_multiplier_bp: number = PAR_BP): bigint {
  if (price_multiplier_bp === PAR_BP) return (amount_pico + PICO_PER_NANO - 1n) / PICO_PER_NANO
  return ceilDiv(amount_pico * BigInt(price_multiplier_bp), PICO_PER_NANO * BigInt(PAR_BP))
}

/** The largest value of a bigint column. No balance comes near it, so such a hold is refused instead of failing. */
const MAX_AMOUNT_NANO = 2n ** 63n - 1n

/** The hold of an account with this price multiplier for a cost in pico-USD, rounded up once (D69). */
export function heldFor(cost_pico: bigint, price_multiplier_bp?: number): bigint {
  const amount_nano = ceilToNano(cost_pico, price_multiplier_bp)
  return amount_nano > MAX_AMOUNT_NANO ? MAX_AMOUNT_NANO : amount_nano
}

/** An amount that is held at a price multiplier of 1, and the exact cost that it was rounded up from; absent if it is exact. */
interface Holdable {
  readonly amount_nano: bigint
  readonly cost_pico?: bigint
  readonly price_multiplier_bp?: number
}

export function exactCost({ amount_nano, cost_pico = amount_nano * PICO_PER_NANO }: Holdable): bigint {
  return cost_pico
}

/** A hold at the price multiplier of an account; without `price_multiplier_bp` for a price multiplier of 1. */
export function atMultiplier<Hold extends Holdable>(
  hold: Hold,
  price_multiplier_bp: number | undefined,
): Hold {
  if (price_multiplier_bp === undefined) return hold
  return { ...hold, amount_nano: heldFor(exactCost(hold), price_multiplier_bp), price_multiplier_bp }
}

/** The highest cost in pico-USD whose charge is at most `amount_nano`. */
export function costWithin(amount_nano: bigint, price_multiplier_bp: number = PAR_BP): bigint {
  const amount_pico = amount_nano * PICO_PER_NANO
  return price_multiplier_bp === PAR_BP
    ? amount_pico
    : (amount_pico * BigInt(PAR_BP)) / BigInt(price_multiplier_bp)
}

function ceilDiv(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor
}

/** A JSON number's text as units of 10^-`decimals`; null if negative, not whole, or exponent beyond 50. */
export function parseJsonNumber(text: string, decimals: number): bigint | null {
  const [, whole = "", fraction = "", exponent = "0"] =
    /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text) ?? []
  const shift = Number(exponent) - fraction.length + decimals
  if (whole === "" || Math.abs(Number(exponent)) > 50) return null
  if (shift >= 0) return BigInt(whole + fraction) * 10n ** BigInt(shift)
  const divisor = 10n ** BigInt(-shift)
  const units = BigInt(whole + fraction)
  return units % divisor === 0n ? units / divisor : null
}

/** Digits in groups of three: `1234567` as `1,234,567`. */
export function groupDigits(digits: string): string {
  const first = digits.length % 3 || 3
  const groups = [digits.slice(0, first)]
  for (let at = first; at < digits.length; at += 3) groups.push(digits.slice(at, at + 3))
  return groups.join(",")
}

/** `magnitude`, which counts units of so many decimals, without trailing zeros. */
function printed(magnitude: bigint, decimals: number): string {
  const digits = magnitude.toString().padStart(decimals + 1, "0")
  const fraction = digits.slice(-decimals).replace(/0+$/, "")
  return `${digits.slice(0, -decimals)}${fraction === "" ? "" : `.${fraction}`}`
}

function scaled(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".")
  return BigInt(whole + fraction.padEnd(decimals, "0"))
}
