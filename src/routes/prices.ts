import { buckets, type Price, printPico, printPrice, printUsd } from "../money.ts"
import type { Kind, Line } from "../settlement/lines.ts"
import type { CallBody, Prices } from "../wire/admin.ts"

/** The prices of a model as they are shown: those that it names, and the service tier and size of prompts that they are for (D60, D62, D70). */
export function pricesBody(price: Price, above_tokens = 0, service_tier: string | null = null): Prices {
  const named = buckets.flatMap((bucket) => {
    const price_pico = price.buckets?.[bucket]
    return price_pico === undefined ? [] : [[bucket, printPriceOf(bucket, price_pico)]]
  })
  return {
    input: printPrice(price.input_pico),
    cached_input: printPrice(price.cached_input_pico),
    output: printPrice(price.output_pico),
    per_call: printUsd(price.per_call_nano),
    ...Object.fromEntries(named),
    ...(service_tier !== null && { service_tier }),
    ...(above_tokens > 0 && { above_tokens }),
  }
}

/** A line of a receipt as it is shown. */
export function lineBody({ kind, count, price_pico, cost_pico }: Line): CallBody["lines"][number] {
  return { kind, count, price: printPriceOf(kind, price_pico), cost: printPico(cost_pico) }
}

function printPriceOf(kind: Kind, price_pico: bigint): string {
  return kind === "per_call" || kind === "web_search" ? printPico(price_pico) : printPrice(price_pico)
}
