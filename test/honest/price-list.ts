/** The price list of the honest provider, as an operator writes it, and its bill by that list. It shares no code with the gateway. */

/** USD for 1M tokens; for each call, search, page or run of a tool. */
export type Prices = Readonly<Record<string, string>>

export interface Rate {
  readonly own: Prices
  readonly tiers: readonly { readonly above: number; readonly prices: Prices }[]
}

export interface PriceList extends Rate {
  readonly served: Readonly<Record<string, Rate>>
}

/** What a call took. Every token is in exactly one count. */
export interface Work {
  readonly input: number
  readonly cached_input: number
  readonly cached_audio_input: number
  readonly cache_write: number
  readonly cache_write_1h: number
  readonly audio_input: number
  readonly image_input: number
  readonly output: number
  readonly reasoning: number
  readonly audio_output: number
  readonly image_output: number
  readonly web_search: number
}

export const NO_WORK: Work = {
  input: 0,
  cached_input: 0,
  cached_audio_input: 0,
  cache_write: 0,
  cache_write_1h: 0,
  audio_input: 0,
  image_input: 0,
  output: 0,
  reasoning: 0,
  audio_output: 0,
  image_output: 0,
  web_search: 0,
}

export const PROMPT_KINDS = [
  "input",
  "cached_input",
  "cached_audio_input",
  "cache_write",
  "cache_write_1h",
  "audio_input",
  "image_input",
] as const
export const OUTPUT_KINDS = ["output", "reasoning", "audio_output", "image_output"] as const

/** The price that stands for one that the list does not have. */
const OTHERWISE: Readonly<Record<string, string>> = {
  cached_input: "input",
  cached_audio_input: "cached_input",
  cache_write: "input",
  cache_write_1h: "cache_write",
  audio_input: "input",
  image_input: "input",
  reasoning: "output",
  audio_output: "output",
  image_output: "output",
}

export function promptOf(work: Work): number {
  return PROMPT_KINDS.reduce((sum, kind) => sum + work[kind], 0)
}

export function outputOf(work: Work): number {
  return OUTPUT_KINDS.reduce((sum, kind) => sum + work[kind], 0)
}

/** In nano-USD, rounded up once. `tier` is the service tier that was served, `price multiplier` the account's multiplier. */
export function bill(list: PriceList, work: Work, tier: string | null, margin: string): bigint {
  const prompt = promptOf(work)
  if (prompt + outputOf(work) === 0) return 0n
  const { own, tiers } = (tier === null ? undefined : list.served[tier]) ?? list
  const prices = tiers.findLast(({ above }) => prompt > above)?.prices ?? own
  let pico = 0n
  for (const kind of [...PROMPT_KINDS, ...OUTPUT_KINDS]) pico += BigInt(work[kind]) * tokenPrice(prices, kind)
  pico += BigInt(work.web_search) * wholeOf(list.own.web_search ?? "0", 12)
  pico += wholeOf(list.own.per_call ?? "0", 12)
  const sold = pico * wholeOf(margin, 4)
  return (sold + 9_999_999n) / 10_000_000n
}

function tokenPrice(prices: Prices, kind: string): bigint {
  let name: string | undefined = kind
  while (name !== undefined && prices[name] === undefined) name = OTHERWISE[name]
  return wholeOf(prices[name ?? ""] ?? "0", 6)
}

/** A decimal text as a whole number of units of its `decimals`th place. */
function wholeOf(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".")
  return BigInt(whole + fraction.padEnd(decimals, "0"))
}
