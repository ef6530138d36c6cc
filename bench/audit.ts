import { ceilToNano, type Price, parseUsd, printUsd } from "../src/money.ts"
import type { CallLine } from "./admin.ts"
import type { Generated } from "./provider.ts"

/** By what a charge is judged. */
export interface Terms {
  readonly price: Price
  readonly bytes_per_token: number
  /** Bytes of output that each client that left had received before; null when no client leaves. */
  readonly received_bytes: number | null
}

/**
 * What is wrong with a call's charge, by what the provider says it generated for it; null when nothing is. A whole answer costs its
 * usage, to the last unit; a stream that was left at least what its client had, at most what was sent.
 */
export function faultOf(call: CallLine, answer: Generated | undefined, terms: Terms): string | null {
  if (answer === undefined) return "the provider knows nothing of it"
  if (call.charge === null) return "it is not settled"
  const charge_nano = nanoOf(call.charge)
  const { price, bytes_per_token, received_bytes } = terms
  if (answer.whole && call.basis === "usage") {
    const cost_nano = costNano(answer, price)
    if (charge_nano === cost_nano) return null
    return `it was charged ${call.charge}, the provider counted ${printUsd(cost_nano)}`
  }
  if (received_bytes === null) return "it was charged without the usage that the provider sent"
  const estimate = (bytes: number) => {
    const tokens = Math.max(1, Math.floor(bytes / bytes_per_token))
    return ceilToNano(BigInt(tokens) * price.output_pico)
  }
  if (charge_nano >= estimate(received_bytes) && charge_nano <= estimate(answer.output_bytes)) return null
  return `it was charged ${call.charge}, for between ${received_bytes} and ${answer.output_bytes} bytes of output`
}

/** The product of the price list, worked out here once more: an audit that asked the gateway's own code would agree with it. */
function costNano({ prompt_tokens, cached_tokens, completion_tokens }: Generated, price: Price): bigint {
  return ceilToNano(
    BigInt(prompt_tokens - cached_tokens) * price.input_pico +
      BigInt(cached_tokens) * price.cached_input_pico +
      BigInt(completion_tokens) * price.output_pico,
  )
}

/** An amount that the gateway printed. */
export function nanoOf(usd: string): bigint {
  const amount_nano = parseUsd(usd)
  if (amount_nano === null) throw new Error("the gateway wrote an amount that is none")
  return amount_nano
}
