import { ceilToNano, type Price, parseUsd, printUsd } from "../src/money.ts"
import type { CallLine } from "./admin.ts"
import type { Generated } from "./provider.ts"

/** What is wrong with a call's charge, compared with what the provider generated for it; null when it costs exactly that. */
export function faultOf(call: CallLine, answer: Generated | undefined, price: Price): string | null {
  if (answer === undefined) return "the provider knows nothing of it"
  if (call.charge === null) return "it is not settled"
  if (call.basis !== "usage") return "it was charged without the usage that the provider sent"
  const cost_nano = costNano(answer, price)
  if (nanoOf(call.charge) === cost_nano) return null
  return `it was charged ${call.charge}, the provider counted ${printUsd(cost_nano)}`
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
