import { type Bucket, buckets, parentOf, tokenBuckets, unitOf } from "../kinds.ts"
import { isFree, type Price, parseFee, parsePrice, parseUsd, type ServiceTier, type Tier } from "../money.ts"
import { type FileModel, PRICE_EXPECTED } from "./file.ts"
import { checked, type FaultReport, under } from "./values.ts"

type FilePrice = NonNullable<FileModel["price"]>

const FREE: Price = { input_pico: 0n, cached_input_pico: 0n, output_pico: 0n, per_call_nano: 0n }

/** D44: a model has a price or says `free: true`, so that nothing is free by accident. */
export function priceOf({ price, free }: FileModel, generates: boolean, report: FaultReport): Price {
  if (free !== undefined) {
    if (price !== undefined) report("free", "either `price` or `free`, not both")
    return FREE
  }
  if (price === undefined) {
    report("price", "the prices of input and output, or `free: true` instead")
    return FREE
  }
  if (generates && price.output === undefined) report("price.output", PRICE_EXPECTED)
  if (!generates) reportOutput(price, under(report, "price"))
  const plain = parsed(price)
  if (isFree(plain)) report("price", "at least one price above zero, or `free: true` instead")
  return plain
}

/** Embeddings have no output to charge (D67). */
function reportOutput(price: Texts, report: FaultReport): void {
  for (const kind of OUTPUT_KINDS) {
    if (price[kind] !== undefined) report(kind, "no such key, because embeddings have no output tokens")
  }
}

const OUTPUT_KINDS = ["output", ...buckets.filter((bucket) => parentOf(bucket) === "output")] as const

type Texts = Partial<Record<Bucket | "cached_input" | "output" | "per_call", string>> &
  Readonly<Record<"input", string>> &
  Pick<FilePrice, "tool_run">

function parsed(price: Texts): Price {
  return {
    input_pico: pico(price.input),
    cached_input_pico: pico(price.cached_input ?? price.input),
    output_pico: price.output === undefined ? 0n : pico(price.output),
    per_call_nano: price.per_call === undefined ? 0n : checked(parseUsd(price.per_call)),
    ...bucketPrices(price),
    ...(price.tool_run !== undefined && { tool_runs: feesOf(price.tool_run) }),
  }
}

function feesOf(texts: Readonly<Record<string, string>>): Record<string, bigint> {
  return Object.fromEntries(Object.entries(texts).map(([tool, text]) => [tool, checked(parseFee(text))]))
}

/** The prices besides the plain ones (D60). */
function bucketPrices(price: Partial<Record<Bucket, string>>): Pick<Price, "buckets"> {
  const named: Partial<Record<Bucket, bigint>> = {}
  for (const bucket of buckets) {
    const text = price[bucket]
    if (text !== undefined) named[bucket] = unitOf(bucket) === "token" ? pico(text) : checked(parseFee(text))
  }
  return Object.keys(named).length === 0 ? {} : { buckets: named }
}

/** Prices of larger prompts (D62). */
export function tiersOf({ price }: FileModel, report: FaultReport): Tier[] {
  return price === undefined ? [] : tiersIn(price, price.tiers, report)
}

/** Prices of service tiers (D70). */
export function serviceTiersOf({ price }: FileModel, report: FaultReport): ServiceTier[] {
  if (price === undefined) return []
  return Object.entries(price.service_tiers ?? {}).map(([name, tier]) => {
    const told = under(report, `service_tiers.${name}`)
    return { name, price: beside(price, tier, told), tiers: tiersIn(price, tier.tiers, told) }
  })
}

function tiersIn(own: FilePrice, tiers: FilePrice["tiers"], report: FaultReport): Tier[] {
  let below = 0
  return (tiers ?? []).map((tier, at) => {
    const told = under(report, `tiers[${at}]`)
    if (tier.above <= below) told("above", `more than ${below}`)
    below = tier.above
    return { above_tokens: tier.above, price: beside(own, tier, told) }
  })
}

/** A price beside the model's own names the kinds of tokens that this one names, and no others. Fees are the model's. */
function beside(own: FilePrice, tokens: Texts, report: FaultReport): Price {
  for (const kind of TOKEN_KINDS) {
    if (own[kind] !== undefined && tokens[kind] === undefined)
      report(kind, "a price, because the model has one")
    if (own[kind] === undefined && tokens[kind] !== undefined)
      report(kind, "no such key, because the model itself has no such price")
  }
  return parsed({ ...own, ...tokens })
}

const TOKEN_KINDS = ["cached_input", "output", ...tokenBuckets] as const

function pico(text: string): bigint {
  return checked(parsePrice(text))
}
