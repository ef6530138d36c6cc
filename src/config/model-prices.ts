import { buckets, parentOf, tokenBuckets } from "../kinds.ts"
import { isFree, type Price, type PriceTexts, pricesIn, type ServiceTier, type Tier } from "../money.ts"
import { type FileModel, PRICE_EXPECTED } from "./file.ts"
import { type FaultReport, under } from "./values.ts"

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
  const plain = pricesIn(price)
  if (isFree(plain)) report("price", "at least one price above zero, or `free: true` instead")
  return plain
}

/** Embeddings have no output to charge (D67). */
function reportOutput(price: PriceTexts, report: FaultReport): void {
  for (const kind of OUTPUT_KINDS) {
    if (price[kind] !== undefined) report(kind, "no such key, because embeddings have no output tokens")
  }
}

const OUTPUT_KINDS = ["output", ...buckets.filter((bucket) => parentOf(bucket) === "output")] as const

/** Prices of larger prompts (D62). */
export function tiersOf({ price }: FileModel, report: FaultReport): Tier[] {
  return price === undefined ? [] : tiersIn(price, price.tiers, report)
}

/** Prices of service tiers (D70). */
export function serviceTiersOf({ price }: FileModel, report: FaultReport): ServiceTier[] {
  if (price === undefined) return []
  return Object.entries(price.service_tiers ?? {}).map(([name, tier]) => {
    const reportIn = under(report, `service_tiers.${name}`)
    return { name, price: beside(price, tier, reportIn), tiers: tiersIn(price, tier.tiers, reportIn) }
  })
}

function tiersIn(own: FilePrice, tiers: FilePrice["tiers"], report: FaultReport): Tier[] {
  let below = 0
  return (tiers ?? []).map((tier, at) => {
    const reportIn = under(report, `tiers[${at}]`)
    if (tier.above <= below) reportIn("above", `more than ${below}`)
    below = tier.above
    return { above_tokens: tier.above, price: beside(own, tier, reportIn) }
  })
}

/** A price beside the model's own names the kinds of tokens that this one names, and no others. Fees are the model's. */
function beside(own: FilePrice, tokens: PriceTexts, report: FaultReport): Price {
  for (const kind of TOKEN_KINDS) {
    if (own[kind] !== undefined && tokens[kind] === undefined)
      report(kind, "a price, because the model has one")
    if (own[kind] === undefined && tokens[kind] !== undefined)
      report(kind, "no such key, because the model itself has no such price")
  }
  return pricesIn({ ...own, ...tokens })
}

const TOKEN_KINDS = ["cached_input", "output", ...tokenBuckets] as const
