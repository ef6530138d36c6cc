import { expect, test } from "bun:test"
import type { Call } from "../../src/call/call.ts"
import type { Model } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { buckets } from "../../src/kinds.ts"
import { PAR_BP, parseMultiplier } from "../../src/money.ts"
import { linesOf } from "../../src/settlement/price.ts"
import { priced } from "../../src/settlement/settle.ts"
import { readUsage } from "../../src/usage/reading.ts"
import { aCall } from "../admission/model.ts"
import { Random } from "../faults/random.ts"
import { settledBy } from "./terms.ts"

/**
 * D60, D62, D69, D70: random cards, usages and multipliers cost what an independent model of the rulings says, to the nano-USD. The model works on
 * the configuration's texts and the provider's JSON, and shares no code with the gateway.
 */

/** A million takes about a minute: `RATE_CARD_CASES=1000000`. */
const CASES = Number(process.env.RATE_CARD_CASES ?? 20_000)
const USAGES_OF_A_CARD = 100

/** `run of` and the tool's name for a run of a tool of the provider. */
type Prices = Readonly<Record<string, string>>
interface Tier {
  readonly above: number
  readonly prices: Prices
}
interface Card {
  readonly own: Prices
  readonly tiers: readonly Tier[]
  readonly served: Readonly<Record<string, { readonly own: Prices; readonly tiers: readonly Tier[] }>>
}
interface Counts {
  readonly [kind: string]: number
  readonly prompt: number
  readonly completion: number
  readonly cached: number
}

const IN_PROMPT = ["cache_write", "cache_write_1h", "audio_input", "image_input"]
const IN_CACHE = ["cached_audio_input"]
const IN_OUTPUT = ["reasoning", "audio_output", "image_output"]
const OPTIONAL = ["cached_input", ...IN_PROMPT, ...IN_CACHE, ...IN_OUTPUT]
const TOOLS = ["x_search", "code_interpreter", "attachment_search"]
const FEES = ["per_call", "web_search", "page", ...TOOLS.map((tool) => `run of ${tool}`)]

test("D60 the independent model knows every kind of price", () => {
  expect([...OPTIONAL, ...FEES]).toEqual(expect.arrayContaining([...buckets]))
})

const numbers = new Random(60)
const random = () => numbers.next()
const upTo = (most: number) => Math.floor(random() * (most + 1))
const oneOf = <T>(list: readonly T[]): T => list[upTo(list.length - 1)] as T

function priceText(): string {
  return `${upTo(oneOf([0, 3, 99]))}.${String(upTo(999_999)).padStart(6, "0")}`
}

function randomCard(): Card {
  const named = OPTIONAL.filter(() => random() < 0.5)
  const prices = () => Object.fromEntries(["input", "output", ...named].map((kind) => [kind, priceText()]))
  const fees = Object.fromEntries(
    FEES.filter(() => random() < 0.5).map((fee) => [fee, `0.${String(upTo(999_999_999)).padStart(9, "0")}`]),
  )
  const tiers = () => {
    let above = 0
    return Array.from({ length: upTo(2) }, () => {
      above += 1 + upTo(1_000)
      return { above, prices: { ...prices(), ...fees } }
    })
  }
  const names = SERVICE_TIERS.filter(() => random() < 0.4)
  return {
    own: { ...prices(), input: `1.${priceText().slice(-6)}`, ...fees },
    tiers: tiers(),
    served: Object.fromEntries(
      names.map((name) => [name, { own: { ...prices(), ...fees }, tiers: tiers() }]),
    ),
  }
}

const SERVICE_TIERS = ["flex", "priority", "batch"]

function modelOf({ own, tiers, served }: Card): Model {
  const part = (prices: Prices, isPart: (kind: string) => boolean) =>
    Object.fromEntries(Object.entries(prices).filter(([kind]) => isPart(kind)))
  const kindsOf = (prices: Prices) => part(prices, (kind) => !FEES.includes(kind))
  const tool_run = Object.fromEntries(
    TOOLS.flatMap((tool) => {
      const text = own[`run of ${tool}`]
      return text === undefined ? [] : [[tool, text]]
    }),
  )
  const fees = { ...part(own, (kind) => !kind.startsWith("run of ")), tool_run }
  const tier = ({ above, prices }: Tier) => ({ above, ...kindsOf(prices) })
  const service_tiers = Object.fromEntries(
    Object.entries(served).map(([name, at]) => [name, { ...kindsOf(at.own), tiers: at.tiers.map(tier) }]),
  )
  const file = {
    upstreams: { u: { family: "chat", base_url: "http://127.0.0.1:1" } },
    models: [
      {
        name: "m",
        family: "chat",
        upstreams: [{ use: "u" }],
        price: { ...fees, tiers: tiers.map(tier), service_tiers },
        max_output_tokens: 1,
      },
    ],
  }
  const [model] = loadConfig(JSON.stringify(file), { env: {}, readFile: () => "" }).models
  if (model === undefined) throw new Error("the card of a test is no configuration")
  return model
}

function randomCounts({ tiers: own, served }: Card): Counts {
  const tiers = [...own, ...Object.values(served).flatMap((at) => at.tiers)]
  const edge = tiers.length === 0 ? 0 : oneOf(tiers).above
  const prompt = random() < 0.3 ? edge + upTo(1) : upTo(oneOf([0, 9, 2_500]))
  const completion = upTo(oneOf([0, 9, 2_500]))
  const few = () => (random() < 0.7 ? 0 : upTo(3))
  const part = (whole: number) => (random() < 0.5 ? 0 : upTo(Math.ceil(whole * 0.7)))
  return {
    prompt,
    completion,
    cached: part(prompt),
    cache_write: part(prompt),
    cache_write_1h: part(prompt),
    audio_input: part(prompt),
    image_input: part(prompt),
    reasoning: part(completion),
    audio_output: part(completion),
    image_output: part(completion),
    cached_audio_input: part(prompt),
    web_search: few(),
    page: few(),
    ...Object.fromEntries(TOOLS.map((tool) => [`run of ${tool}`, few()])),
  }
}

/** As a provider says it. */
const usageOf = (counts: Counts) => ({
  prompt_tokens: counts.prompt,
  completion_tokens: counts.completion,
  prompt_tokens_details: {
    cached_tokens: counts.cached,
    audio_tokens: (counts.audio_input ?? 0) + (counts.cached_audio_input ?? 0),
    cached_tokens_details: { audio_tokens: counts.cached_audio_input },
    image_tokens: counts.image_input,
    cache_creation: {
      ephemeral_5m_input_tokens: counts.cache_write,
      ephemeral_1h_input_tokens: counts.cache_write_1h,
    },
  },
  completion_tokens_details: {
    reasoning_tokens: counts.reasoning,
    audio_tokens: counts.audio_output,
    image_tokens: counts.image_output,
  },
  num_search_queries: counts.web_search,
  pages_processed: counts.page,
  server_side_tool_usage_details: Object.fromEntries(
    TOOLS.map((tool) => [`${tool}_calls`, counts[`run of ${tool}`]]),
  ),
})

/** USD with `decimals` decimals, as a whole number of their last place. */
function wholeOf(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".")
  return BigInt(whole + fraction.padEnd(decimals, "0"))
}

/** As an operator says it. */
function randomMargin(): string {
  if (random() < 0.3) return "1"
  return oneOf([`0.${String(1 + upTo(9_998)).padStart(4, "0")}`, `1.${upTo(9_999)}`, `${1 + upTo(999)}`])
}

/** In nano-USD, by the text of the rulings. A tier that the provider does not name must not be cheaper (D70). */
function expected(card: Card, counts: Counts, margin = "1", asked?: string, said?: string): bigint {
  const named = said === "default" ? card : card.served[said ?? ""]
  const own = expectedAt(named ?? card, counts, margin)
  const presumed = named === undefined ? card.served[asked ?? ""] : undefined
  const other = presumed === undefined ? 0n : expectedAt(presumed, counts, margin)
  return other > own ? other : own
}

function expectedAt({ own, tiers }: Pick<Card, "own" | "tiers">, counts: Counts, margin: string): bigint {
  if (counts.prompt + counts.completion === 0) return 0n
  const prices = tiers.findLast(({ above }) => counts.prompt > above)?.prices ?? own
  const token = (kind: string, otherwise: string) => wholeOf(prices[kind] ?? prices[otherwise] ?? "", 6)
  let pico = 0n
  const charge = (kinds: readonly string[], parent: string, tokens: number) => {
    let left = tokens
    for (const kind of kinds) {
      const stands_for = kind === "cache_write_1h" && prices[kind] === undefined ? "cache_write" : kind
      if (prices[stands_for] === undefined) continue
      const taken = Math.min(left, counts[kind] ?? 0)
      left -= taken
      pico += BigInt(taken) * token(stands_for, parent)
    }
    pico += BigInt(left) * token(parent, "input")
  }
  charge(IN_CACHE, "cached_input", counts.cached)
  charge(IN_PROMPT, "input", counts.prompt - counts.cached)
  charge(IN_OUTPUT, "output", counts.completion)
  const fee = (kind: string, count: number) => BigInt(count) * wholeOf(prices[kind] ?? "0", 9) * 1_000n
  for (const kind of FEES) pico += fee(kind, kind === "per_call" ? 1 : (counts[kind] ?? 0))
  const sold = pico * wholeOf(margin, 4)
  const nano = 10_000_000n
  return sold % nano === 0n ? sold / nano : sold / nano + 1n
}

/** What the gateway charges, and what its lines add up to. */
function charged(call: Call, counts: Counts, margin = "1", said?: string) {
  const reading = readUsage(JSON.parse(JSON.stringify(usageOf(counts))))
  if (reading.state !== "valid") throw new Error("the usage of a test is not valid")
  const { charge_nano, usage, price } = priced(
    call,
    settledBy({ reported: reading.usage }),
    said === undefined ? {} : { service_tier: said },
  )
  if (usage === null) throw new Error("nothing was charged")
  const lines_pico = linesOf(usage, price).reduce((sum, { cost_pico }) => sum + cost_pico, 0n)
  return [charge_nano, (lines_pico * wholeOf(margin, 4) + 9_999_999n) / 10_000_000n]
}

/** As the route of an account reads it and a hold has it. */
function multiplierOf(text: string): number | undefined {
  const price_multiplier_bp = parseMultiplier(text)
  if (price_multiplier_bp === null) throw new Error("the margin of a test is not one")
  return price_multiplier_bp === PAR_BP ? undefined : price_multiplier_bp
}

test(`D60 D62 D69 D70 property: ${CASES} random usages cost what the rulings say`, () => {
  const differences: unknown[] = []
  for (let made = 0; made < CASES && differences.length < 5; ) {
    const card = randomCard()
    const model = modelOf(card)
    const margin = randomMargin()
    for (let of = 0; of < USAGES_OF_A_CARD && made < CASES; of += 1) {
      made += 1
      const counts = randomCounts(card)
      const asked = random() < 0.5 ? undefined : oneOf(["default", ...Object.keys(card.served)])
      const said = random() < 0.5 ? undefined : oneOf(["default", "scale", ...SERVICE_TIERS])
      const call = aCall(model, { service_tier: asked, price_multiplier_bp: multiplierOf(margin) })
      const [charge_nano, lines_nano] = charged(call, counts, margin, said)
      const right = expected(card, counts, margin, asked, said)
      if (charge_nano !== right || lines_nano !== right)
        differences.push({ card, margin, asked, said, counts, charge_nano, lines_nano, right })
    }
  }
  expect(differences).toEqual([])
}, 600_000)
