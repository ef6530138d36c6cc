import { type Price, parseUsd } from "../../src/money.ts"

/** Pico-USD for each token, and nano-USD for each call. */
export function priceOf(
  input_pico: bigint,
  cached_input_pico: bigint,
  output_pico: bigint,
  per_call_nano = 0n,
) {
  return { input_pico, cached_input_pico, output_pico, per_call_nano } satisfies Price
}

/** The nano-USD of an amount that an answer shows. */
export function nanoOf(usd: unknown): bigint {
  const amount_nano = parseUsd(String(usd))
  if (amount_nano === null) throw new Error(`${usd} is no amount`)
  return amount_nano
}
