import { describe, expect, test } from "bun:test"
import { soldAt } from "../../src/admission/customer-prices.ts"
import { largestMaxTokens } from "../../src/admission/quote.ts"
import type { Model } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { readJson } from "../../src/meter/json-reading.ts"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { ceilToNano, heldFor, PICO_PER_NANO, parseUsd, printUsd } from "../../src/money.ts"
import { chat } from "../../src/operations/chat.ts"
import { embeddings } from "../../src/operations/embeddings.ts"
import { responses } from "../../src/operations/responses.ts"
import { estimateBody } from "../../src/routes/admin/estimates.ts"
import { decide } from "../../src/settlement/decide.ts"
import { costPico, linesOf, type Priced, priceVerdict } from "../../src/settlement/price.ts"
import { parseChat, parseEmbeddings, parseResponses } from "../../src/wire/requests.ts"
import { png } from "../admission/files.ts"
import { quoteOf } from "../admission/model.ts"
import { textOf } from "../support/repository.ts"
import { blocksOf } from "./blocks.ts"

/** Every amount of docs/billing.md is computed here by the gateway's own code, and no amount stands there that is not. */

const PAGE = "docs/billing.md"
/** On one line: where a line ends says nothing. */
const page = textOf(PAGE).replace(/\s+/g, " ")
const blocks = blocksOf(PAGE)
const models = new Map(
  blocks
    .filter(({ language }) => language === "yaml")
    .flatMap(({ text }) => loadConfig(text, { env: { OPENAI_API_KEY: "sk" }, readFile: () => "" }).models)
    .map((model) => [model.name, model]),
)

function model(name: string): Model {
  const found = models.get(name)
  if (found === undefined) throw new Error(`the page configures no ${name}`)
  return found
}

const mini = model("gpt-5-mini")
const example: object = JSON.parse(blocks.find(({ language }) => language === "json")?.text ?? "null")
const picture = {
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "Say hello." },
        { type: "image_url", image_url: { url: `data:image/png;base64,${png(1, 1)}` } },
      ],
    },
  ],
}

const quoted = (fields: object, of = mini) => quoteOf(chat, parseChat({ ...example, ...fields }), of)
const held = (fields: object, of = mini) => quoted(fields, of).amount_nano
const usage = (prompt_tokens: number, cached_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  prompt_tokens_details: { cached_tokens },
})
const cost = (prompt_tokens: number, cached_tokens: number, completion_tokens: number) =>
  ceilToNano(costPico({ prompt_tokens, cached_tokens, completion_tokens }, mini.price))

/** What a JSON answer is charged when `hold_nano` was held and `prompt_tokens_estimate` tokens may be added for the prompt. */
function charged(...told: Parameters<typeof pricedOf>): bigint {
  return pricedOf(...told).charge_nano
}

function pricedOf(
  body: object | string,
  of = mini,
  prompt_tokens_estimate = 0,
  hold_nano = 1_000_000_000n,
  form = chat.json,
): Priced {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  const evidence = readJson(form, new TextEncoder().encode(text), "completed")
  const terms = {
    bytes_per_token: of.bytes_per_token,
    prompt_tokens_estimate,
    estimate_prompt: "always",
    estimate_output: true,
  } as const
  const verdict = decide(evidence, terms)
  return priceVerdict(verdict, of.price, hold_nano)
}

function chargedStream(ending: StreamEvidence["ending"], output_bytes: number): bigint {
  const evidence: StreamEvidence = {
    shape: "stream",
    ending,
    usage: { state: "missing" },
    usage_final: false,
    output_bytes,
    output_bytes_after_usage: 0,
    error: false,
  }
  const { bytes_per_token, estimate } = mini
  const terms = {
    bytes_per_token,
    prompt_tokens_estimate: 40 / bytes_per_token,
    estimate_prompt: estimate.prompt,
    estimate_output: true,
  }
  return priceVerdict(decide(evidence, terms), mini.price, 1_000_000_000n).charge_nano
}

const said = (bytes: number) => ({
  choices: [{ message: { role: "assistant", content: "x".repeat(bytes) } }],
})
const small = model("text-embedding-3-small")
const embedded = (input: unknown) => quoteOf(embeddings, parseEmbeddings({ model: small.name, input }), small)
const FOOD = "The food was delicious."
const sayHello = parseResponses({ model: mini.name, input: "Say hello." })
const responded = pricedOf(
  { usage: { input_tokens: 1000, input_tokens_details: { cached_tokens: 400 }, output_tokens: 200 } },
  mini,
  0,
  undefined,
  responses.json,
).charge_nano
const search = model("gpt-5-search")
const llama = model("local-llama")
const rule1 = { ...said(1), usage: usage(1000, 400, 200) }
const rule1Usage = { prompt_tokens: 1000, cached_tokens: 400, completion_tokens: 200 }
const left = chargedStream("client_left", 300)
const lost = chargedStream("upstream_lost", 300)
const overheld = held({ max_tokens: 10 })
const overcharge = charged({ ...said(1), usage: usage(12, 0, 50) }, mini, 0, overheld)
const omni = model("gpt-5-omni")
const kinds = {
  prompt_tokens: 1000,
  completion_tokens: 300,
  prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 200, audio_tokens: 50 },
  completion_tokens_details: { reasoning_tokens: 120 },
  server_tool_use: { web_search_requests: 1 },
}
const omniUsage = pricedOf({ ...said(1), usage: kinds }, omni).usage
const omniLines = omniUsage === null ? [] : linesOf(omniUsage, omni.price)
const contract = soldAt(mini, {
  id: "",
  model: mini.name,
  price_multiplier_bp: null,
  prices: { input: "0.2", output: "1.6" },
})
const AVAILABLE_NANO = parseUsd("0.0021") ?? 0n

/** By the text that is just before the amount, or in its row. */
const amounts: readonly [told: string, amount_nano: bigint][] = [
  ["| as shown |", held({})],
  ['| with `"max_tokens": 200` |', held({ max_tokens: 200 })],
  ['| with `"max_tokens": 200, "n": 3` |', held({ max_tokens: 200, n: 3 })],
  ["| with a picture beside the text", held({ ...picture, max_tokens: 200 })],
  ["the error says that the call must hold", held({})],
  ["on an account with", AVAILABLE_NANO],
  ["must hold 0.016394 USD, that", AVAILABLE_NANO],
  ["400 of them cached, and 200 completion tokens:", charged(rule1)],
  ["42 bytes of text are 10 tokens:", charged(said(42))],
  ["`{}` is one token:", charged({})],
  ["an HTML page with status 200:", charged("<html></html>")],
  ["1,000 bytes of text are 250 tokens:", chargedStream("completed", 1000)],
  ["stops after 300 bytes of text, 75 tokens:", lost],
  ["only a role and keepalives:", chargedStream("completed", 0)],
  ["| prompt, not cached |", cost(600, 0, 0)],
  ["| prompt, cached |", cost(400, 400, 0)],
  ["| completion |", cost(0, 0, 200)],
  ["| **charge** |", charged(rule1)],
  ["with an answer of 42 bytes cost", charged(said(42), mini, 40 / 4)],
  ["disconnects after 300 bytes of text, it pays for 75 tokens (", lost],
  ["and for the 10 tokens of its prompt:", left],
  ["without a price per call, and", charged({ ...said(1), usage: usage(1000, 0, 200) }, search)],
  ["completion tokens cost", charged({ ...said(1), usage: usage(1000, 0, 200) })],
  ['The first call above with `"max_tokens": 200` then holds', held({ max_tokens: 200 }, search)],
  ["of which 400 are cached, and 200 output tokens cost", responded],
  ['"input":"Say hello."}` holds', quoteOf(responses, sayHello, mini).amount_nano],
  ["bytes with its quotes and holds", embedded(FOOD).amount_nano],
  ["is 4 tokens and holds", embedded([791, 3691, 574, 18406]).amount_nano],
  [
    "25 bytes are 6 tokens,",
    ceilToNano(BigInt(Math.floor(embedded(FOOD).estimate_bytes / 4)) * small.price.input_pico),
  ],
  ["Its calls hold", held({}, llama)],
  ["and are charged", charged(rule1, llama)],
  ...omniLines.map(({ kind, count, cost_pico }): [string, bigint] => [
    `| \`${kind}\` | ${count} |`,
    cost_pico / PICO_PER_NANO,
  ]),
  ["0.01 USD | | **charge** |", charged({ ...said(1), usage: kinds }, omni)],
  ["At 1.25 the first call above holds", heldFor(quoted({}).cost_pico, 12_500)],
  ["with 200 completion tokens are charged", ceilToNano(costPico(rule1Usage, mini.price), 12_500)],
  ["0.0007 USD instead of", charged(rule1)],
  ["and 200 completion tokens is charged", charged(rule1, contract)],
  ["It costs", charged(rule1)],
  ["With a multiplier of 0.9, its charge is", ceilToNano(costPico(rule1Usage, mini.price), 9_000)],
  ["The example call is charged", charged(rule1, contract)],
  ["A call to another model that costs", charged(rule1)],
  ["USD is charged", ceilToNano(costPico(rule1Usage, mini.price), 9_000)],
  ["and after the change", ceilToNano(costPico(rule1Usage, mini.price), 8_500)],
  ['With `"max_tokens": 10` the first call holds', overheld],
  ["tokens anyway, the charge is", overcharge],
  ["and the overage is", overcharge - overheld],
  ["as `expired` and charges its last checkpoint: for example", lost],
  ["later settles the call by the provider's usage:", charged(rule1)],
  ["The difference of", charged(rule1) - lost],
]

describe("docs/billing.md", () => {
  test.each(amounts)("%s …", (told, amount_nano) => {
    const at = page.indexOf(told)
    expect(at).toBeGreaterThan(-1)
    const shown = /(\d+(?:\.\d+)?) USD/.exec(page.slice(at + told.length))?.[1]
    expect(shown).toBe(printUsd(amount_nano))
  })

  test("has no amount that is not computed here, but for the size of a nano-USD", () => {
    const told = [...page.matchAll(/(\d+(?:\.\d+)?) USD/g)].map(([, amount = ""]) => amount)
    const computed = new Set([...amounts.map(([, amount_nano]) => printUsd(amount_nano)), "0.000000001"])
    expect(told.length).toBeGreaterThanOrEqual(amounts.length)
    expect(told.filter((amount) => !computed.has(amount))).toEqual([])
  })

  test("D12: the bounds of the table are those of the quote", () => {
    const plain = quoted({})
    expect([plain.prompt_bytes, plain.output_tokens_bound]).toEqual([40, 8192])
    const shown = quoted(picture)
    expect([shown.prompt_bytes, shown.prompt_tokens_bound - shown.prompt_bytes]).toEqual([131, 4_096])
    expect(page).toContain(
      `the largest \`max_tokens\` that fits is ${largestMaxTokens(plain, mini, AVAILABLE_NANO)}.`,
    )
  })

  test("D92: the example of hidden reasoning is what the gateway computes", () => {
    const { seen, error_percent, suggestion } = estimateBody({
      ...{ model: mini.name, operation: "chat", calls: 100, prompt_bytes: 40_000, prompt_tokens: 10_000 },
      ...{ output_bytes: 183_520, output_tokens: 49_600 + 111_600, reasoning_tokens: 111_600 },
      ...{ reasoning_calls: 100, bytes_per_token: mini.bytes_per_token, hidden_output: 0 },
    })
    for (const told of [
      "100 calls reported 49,600 tokens of text and 111,600 of reasoning",
      "their text had 183,520 bytes",
      `${seen.bytes_per_token} bytes per token and ${seen.hidden_output.toLocaleString("en")} hidden tokens`,
      `is ${-(error_percent.output ?? 0)} % too low`,
      suggestion?.slice("Set ".length, -1) ?? "none",
    ])
      expect(page).toContain(told)
  })

  test("D44: a model that costs nothing by accident is refused, as the page says", () => {
    const yaml = blocks.filter(({ language }) => language === "yaml")[1]?.text ?? ""
    const load = (text: string) => () =>
      loadConfig(text, { env: { OPENAI_API_KEY: "sk" }, readFile: () => "" })
    expect(load(yaml)).not.toThrow()
    expect(load(yaml.replace("    free: true", "    part_tokens: 1"))).toThrow("free: true")
    expect(load(yaml.replace(/price: .*\}/, 'price: { input: "0", output: "0" }'))).toThrow("free: true")
  })
})
