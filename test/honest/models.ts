import type { Model } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { Random } from "../faults/random.ts"
import { OUTPUT_KINDS, PROMPT_KINDS, type PriceList, type Prices } from "./price-list.ts"

/** Models with price lists of all kinds, tiers of prompt size, and service tiers. */

/** Kinds of which a list may have a price besides input and output. */
const OPTIONAL = [...PROMPT_KINDS, ...OUTPUT_KINDS].filter((kind) => kind !== "input" && kind !== "output")

/** Each kind at its own price, so that no two can be confused. */
const FULL: Prices = {
  input: "2.50",
  cached_input: "0.25",
  cached_audio_input: "20.009",
  cache_write: "3.125",
  cache_write_1h: "5.003",
  audio_input: "40.07",
  image_input: "3.011",
  output: "10.00",
  reasoning: "12.013",
  audio_output: "80.017",
  image_output: "30.019",
}
const FEES: Prices = { per_call: "0.001000003", web_search: "0.010000007" }

const without = (...kinds: readonly string[]) =>
  Object.fromEntries(Object.entries(FULL).filter(([kind]) => !kinds.includes(kind)))

function times(prices: Prices, factor: number): Prices {
  return Object.fromEntries(
    Object.entries(prices).map(([kind, price]) => [kind, (Number(price) * factor).toFixed(6)]),
  )
}

/** Any prices that rise with the size of the prompt, in six decimals. */
function randomList(random: () => number): PriceList {
  const kinds = ["input", "output", ...OPTIONAL.filter(() => random() < 0.6)]
  const own = Object.fromEntries(kinds.map((kind) => [kind, (0.01 + random() * 20).toFixed(6)]))
  const fees = random() < 0.5 ? FEES : {}
  const rateOf = (prices: Prices) => ({
    own: prices,
    tiers: [200, 1_500, 40_000]
      .filter(() => random() < 0.5)
      .map((above, at) => ({ above, prices: times(prices, 1.5 + at) })),
  })
  const served = ["flex", "priority", "scale"].filter(() => random() < 0.4)
  const { tiers } = rateOf(own)
  return {
    own: { ...own, ...fees },
    tiers,
    served: Object.fromEntries(
      served.map((name) => [name, rateOf(times(own, name === "flex" ? 0.5 : 1 + random()))]),
    ),
  }
}

const numbers = new Random(31)
const random = () => numbers.next()

export const LISTS: readonly PriceList[] = [
  { own: { ...FULL, ...FEES }, tiers: [], served: {} },
  { own: { input: "2.50", output: "10.00" }, tiers: [], served: {} },
  { own: { input: "2.50", cached_input: "0.25", output: "10.00" }, tiers: [], served: {} },
  { own: without("cache_write_1h", "reasoning"), tiers: [], served: {} },
  {
    own: { ...FULL, ...FEES },
    tiers: [{ above: 300, prices: times(FULL, 2) }],
    served: {
      flex: { own: times(FULL, 0.5), tiers: [{ above: 500, prices: times(FULL, 0.75) }] },
      priority: { own: times(FULL, 1.7), tiers: [] },
    },
  },
  ...Array.from({ length: 40 }, () => randomList(random)),
]

export const CONTEXT_TOKENS = 1_000_000
export const MAX_OUTPUT_TOKENS = 600
/** How often the provider may read the prompt of one call. */
export const MAX_ROUNDS = 4
export const MAX_SEARCHES = 10

type FamilyName = "chat" | "messages"

function configured({ own, tiers, served }: PriceList, name: string, family: FamilyName): object {
  const tierOf = ({ above, prices }: PriceList["tiers"][number]) => ({ above, ...prices })
  const service_tiers = Object.fromEntries(
    Object.entries(served).map(([tier, rate]) => [tier, { ...rate.own, tiers: rate.tiers.map(tierOf) }]),
  )
  return {
    name,
    family,
    upstreams: [{ use: family }],
    price: { ...own, tiers: tiers.map(tierOf), service_tiers },
    context_tokens: CONTEXT_TOKENS,
    max_output_tokens: MAX_OUTPUT_TOKENS,
    hold_searches: MAX_SEARCHES,
    open: { hold_rounds: MAX_ROUNDS, max_rounds: MAX_ROUNDS },
  }
}

const models: ReadonlyMap<string, Model> = new Map(
  loadConfig(
    JSON.stringify({
      upstreams: {
        chat: { family: "chat", base_url: "http://127.0.0.1:1" },
        messages: { family: "messages", base_url: "http://127.0.0.1:1" },
      },
      models: LISTS.flatMap((list, at) => [
        configured(list, `chat-${at}`, "chat"),
        configured(list, `messages-${at}`, "messages"),
      ]),
    }),
    { env: {}, readFile: () => "" },
  ).models.map((model) => [model.name, model]),
)

export function modelOf(list: number, family: FamilyName): Model {
  const model = models.get(`${family}-${list}`)
  if (model === undefined) throw new Error(`there is no price list ${list}`)
  return model
}
