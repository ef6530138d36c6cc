import { buckets, parentOf, tokenBuckets } from "../kinds.ts"
import { isFree, type Price, type PriceTexts, pricesIn, type ServiceTier, type Tier } from "../money.ts"
import type { OperationName } from "../wire/call.ts"
import type { Means } from "../wire/fields.ts"
import { knownFields } from "../wire/known-fields.ts"
import { folded, isPath } from "../wire/paths.ts"
import type { RefusedField } from "./config.ts"
import { type FileModel, PRICE_EXPECTED } from "./file.ts"
import { type FaultReport, under } from "./values.ts"

/** A model's settings for requests: fields that are refused or set (D61). */

const FIELD = "a field by its names with dots between them, such as reasoning.effort"

/** `field`, or `field=value`. */
export function refusedIn({ refuse }: FileModel, report: FaultReport): readonly RefusedField[] {
  return refuse.map((text, at) => {
    const end = text.indexOf("=")
    const field = end === -1 ? text : text.slice(0, end)
    if (!isPath(field)) report(`[${at}]`, `${FIELD}, or field=value`)
    return { path: field, value: end === -1 ? null : text.slice(end + 1) }
  })
}

/** Fields that the gateway itself reads. Set by an operator, they would not be what it goes by. */
const READ: ReadonlySet<Means> = new Set(["gateway", "parts", "embedded", "limit", "choices"])
const OPTIONS: ReadonlySet<string> = new Set(["usage", "stream_options"])

export function checkSet({ set }: FileModel, operations: readonly OperationName[], report: FaultReport) {
  for (const field of Object.keys(set)) {
    const top = folded(field.split(".")[0] ?? "")
    if (!isPath(field)) report(`set.${field}`, FIELD)
    else if (operations.some((operation) => isRead(operation, top)))
      report(`set.${field}`, "no such key, because the gateway reads this field itself")
  }
}

function isRead(operation: OperationName, folded_name: string): boolean {
  const { meanings, spellings } = knownFields("all", operation)
  const known = meanings.get(spellings.get(folded_name) ?? "")
  return known !== undefined && (READ.has(known.means) || OPTIONS.has(known.argument))
}

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
