import { ceilToNano, type Price, parseUsd, printUsd } from "../src/money.ts"
import type { CallLine } from "./admin.ts"
import type { Generated } from "./provider.ts"

/** What a charge is checked against. */
export interface Terms {
  readonly price: Price
  readonly bytes_per_token: number
  /** Bytes of output that each client had received when it disconnected; null when no client disconnects. */
  readonly received_bytes: number | null
}

/**
 * What is wrong with a call's charge, compared with what the provider generated for it; null when it is right. A complete answer costs
 * exactly its usage. A stream whose client disconnected costs at least what the client received and at most what was sent.
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

/** Tokens times prices, computed here again: an audit that called the gateway's code would repeat its errors. */
function costNano({ prompt_tokens, cached_tokens, completion_tokens }: Generated, price: Price): bigint {
  return ceilToNano(
    BigInt(prompt_tokens - cached_tokens) * price.input_pico +
      BigInt(cached_tokens) * price.cached_input_pico +
      BigInt(completion_tokens) * price.output_pico,
  )
}

/** Reads an amount that the gateway printed, in nano-USD; throws when it is none. */
export function nanoOf(usd: string): bigint {
  const amount_nano = parseUsd(usd)
  if (amount_nano === null) throw new Error("the gateway wrote an amount that is none")
  return amount_nano
}
