import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"
import { readPriceList } from "../../src/cli/price-list.ts"
import { loadConfig } from "../../src/config/load.ts"
import { testFolder } from "../support/folder.ts"
import { type } from "./command.ts"

const LITELLM = join(import.meta.dir, "../fixtures/litellm-prices.json")
const GENAI = join(import.meta.dir, "../fixtures/genai-prices.json")

const folder = testFolder()

type Price = Readonly<Record<string, unknown>>
interface FileModel {
  readonly name: string
  readonly upstreams: readonly { readonly use: string; readonly model?: string }[]
  readonly price?: Price
  readonly free?: true
  readonly operations?: readonly string[]
  readonly max_output_tokens?: number | null
}

function model(name: string, price: Price, use = "openai", upstream_model?: string): FileModel {
  return {
    name,
    upstreams: [{ use, ...(upstream_model !== undefined && { model: upstream_model }) }],
    ...(Object.keys(price).length === 0 ? { free: true } : { price }),
  }
}

function configText(models: readonly FileModel[]): string {
  const upstream = (base_url: string) => ({ family: "chat", base_url })
  return JSON.stringify({
    upstreams: {
      openai: upstream("https://api.openai.com/v1"),
      claude: upstream("https://api.anthropic.com/v1"),
      openrouter: upstream("https://openrouter.example/v1"),
      elsewhere: upstream("https://elsewhere.example/v1"),
    },
    models: models.map((model) => ({ max_output_tokens: 1000, ...model, family: "chat" })),
  })
}

/** Types the command; the same is found as JSON and as text, with the same exit code. */
async function diff(list: string, models: readonly FileModel[], ...flags: string[]) {
  const path = join(folder, `${crypto.randomUUID()}.yaml`)
  writeFileSync(path, configText(models))
  const words = ["prices", "diff", list, "--config", path, ...flags]
  const [json, text] = await Promise.all([type([...words, "--json"]), type(words)])
  expect({ code: text.code, err: text.err }).toEqual({ code: json.code, err: json.err })
  const found = JSON.parse(json.out)
  expect(found.same).toBe(json.code === 0)
  return { code: json.code, err: json.err, text: text.out, format: found.format, models: found.models }
}

const keysIn = ({ not_chargeable }: { readonly not_chargeable: readonly { readonly key: string }[] }) =>
  not_chargeable.map(({ key }) => key)

const GPT = {
  input: "2.50",
  cached_input: "0.25",
  output: "15.00",
  web_search: "0.01",
  tiers: [{ above: 272_000, input: "5.00", cached_input: "0.50", output: "22.50" }],
}
const CLAUDE = {
  input: "3.00",
  cached_input: "0.30",
  output: "15.00",
  cache_write: "3.75",
  cache_write_1h: "6.00",
}

describe("prices that agree", () => {
  test.each([
    ["LiteLLM", LITELLM],
    ["genai-prices", GENAI],
  ])("exit with 0: %s", async (format, list) => {
    const claude = format === "LiteLLM" ? CLAUDE : { ...CLAUDE, per_call: "0.005" }
    const found = await diff(list, [
      model("gpt-large", GPT),
      model("fast", claude, "claude", "claude-middle"),
    ])
    expect(found).toMatchObject({ code: 0, err: "", format })
    expect(found.text).toContain("✓ gpt-large at openai, listed as ")
    expect(found.text).not.toContain("would need")
  })

  test("a kind that is not named costs what D60 says, so naming it at that price is no difference", async () => {
    const list = write({
      m: { ...PLAIN, output_cost_per_reasoning_token: 2e-6, cache_creation_input_token_cost: 1e-6 },
    })
    expect((await diff(list, [model("m", { input: "1", output: "2" })])).code).toBe(0)
  })

  test("a price that only the configuration has is said, and is no difference", async () => {
    const found = await diff(write({ m: PLAIN }), [model("m", { input: "1", output: "2", audio_input: "9" })])
    expect(found).toMatchObject({ code: 0, models: [{ only_configured: ["audio_input"] }] })
    expect(found.text).toContain("only in the configuration: audio_input")
  })

  test("free models are those whose prices are 0", async () => {
    const found = await diff(LITELLM, [model("local", {}), model("mine", {}, "openai", "claude-middle")])
    expect(found.models).toMatchObject([{ same: true }, { same: false }])
    const dear = await diff(LITELLM, [model("local", { input: "1", output: "1" })])
    expect(dear.models).toMatchObject([{ needed: { free: true } }])
  })
})

const PLAIN = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }

function write(list: object | string): string {
  const path = join(folder, `${crypto.randomUUID()}.json`)
  writeFileSync(path, typeof list === "string" ? list : JSON.stringify(list))
  return path
}

describe("prices that differ", () => {
  test("are shown one by one with the YAML that agrees, which then has no difference", async () => {
    const found = await diff(LITELLM, [
      model("gpt-large", { ...GPT, input: "2.75", per_call: "0.001" }),
      model("claude-middle", { input: "3.00", output: "15.00" }, "claude"),
    ])
    expect(found.code).toBe(1)
    expect(found.err).toBe("tollgate: 2 of 2 models differ from the list\n")
    expect(found.models[0].differences).toEqual([
      { kind: "input", service_tier: null, above: 0, configured: "2.75", listed: "2.50" },
    ])
    expect(found.models[1].differences).toEqual([
      { kind: "cached_input", service_tier: null, above: 0, configured: "3.00", listed: "0.30" },
      { kind: "cache_write", service_tier: null, above: 0, configured: "3.00", listed: "3.75" },
      { kind: "cache_write_1h", service_tier: null, above: 0, configured: "3.00", listed: "6.00" },
    ])
    const [, yaml = ""] = found.text.split("The configuration would need:\n\n")
    const needed: { models: { name: string; price?: Price }[] } = parse(yaml)
    expect(needed.models).toEqual([
      { name: "gpt-large", price: { ...GPT, per_call: "0.001" } },
      { name: "claude-middle", price: CLAUDE },
    ])
    const [gpt, claude] = needed.models.map(({ name, price = {} }, at) =>
      model(name, price, at === 0 ? "openai" : "claude"),
    )
    if (gpt === undefined || claude === undefined) throw new Error("two models are needed")
    expect((await diff(LITELLM, [gpt, claude])).code).toBe(0)
    expect(() => loadConfig(configText([gpt, claude]), { env: {}, readFile: () => "" })).not.toThrow()
  })

  test("by the size of the prompt (D62), each size once", async () => {
    const { tiers: _, ...flat } = GPT
    const found = await diff(LITELLM, [model("gpt-large", flat)])
    expect(found.models[0].differences).toEqual([
      { kind: "input", service_tier: null, above: 272_000, configured: "2.50", listed: "5.00" },
      { kind: "cached_input", service_tier: null, above: 272_000, configured: "0.25", listed: "0.50" },
      { kind: "output", service_tier: null, above: 272_000, configured: "15.00", listed: "22.50" },
    ])
    const tiered = await diff(write({ "gpt-large": PLAIN }), [
      model("gpt-large", { input: "9", output: "2", tiers: [{ above: 9, input: "9", output: "3" }] }),
    ])
    expect(tiered.models[0]).toMatchObject({
      differences: [
        { kind: "input", service_tier: null, above: 0, configured: "9.00", listed: "1.00" },
        { kind: "output", service_tier: null, above: 9, configured: "3.00", listed: "2.00" },
      ],
      needed: { price: { input: "1.00", output: "2.00" } },
    })
  })

  test("a price without a counterpart is a difference, even at the price of its parent", async () => {
    const list = write({ m: { ...PLAIN, input_cost_per_audio_token: 1e-6 } })
    const found = await diff(list, [model("m", { input: "1", output: "2" })])
    expect(found.models[0].differences).toEqual([
      { kind: "audio_input", service_tier: null, above: 0, configured: null, listed: "1.00" },
    ])
  })
})

describe("service tiers (D70)", () => {
  const FLEX = { input: "1.25", cached_input: "0.125", output: "15.00" }
  const list = () =>
    write({
      m: {
        ...PLAIN,
        input_cost_per_token_flex: 5e-7,
        input_cost_per_token_above_200k_tokens: 2e-6,
        input_cost_per_token_above_200k_tokens_priority: 4e-6,
        output_cost_per_reasoning_token_flex: 1e-6,
        input_cost_per_request_priority: 1,
      },
    })

  test("that are configured are compared; the others are named, and are no difference", async () => {
    const own = { ...GPT, web_search: "0.02", service_tiers: { flex: { ...FLEX, tiers: GPT.tiers } } }
    const found = await diff(LITELLM, [
      model("gpt-large", own),
      model("gpt-large-2", GPT, "openai", "gpt-large"),
    ])
    expect(found.models).toMatchObject([
      {
        same: false,
        not_configured: ["priority"],
        differences: [
          { kind: "web_search", service_tier: null, above: 0, configured: "0.02", listed: "0.01" },
          { kind: "input", service_tier: "flex", above: 272_000, configured: "5.00", listed: "1.25" },
          { kind: "cached_input", service_tier: "flex", above: 272_000, configured: "0.50", listed: "0.125" },
        ],
      },
      { same: true, not_configured: ["flex", "priority"] },
    ])
    expect(found.text).toContain("input (flex)")
    expect(found.text).toContain("service tiers without a configured price, which are refused: priority")
  })

  test("the YAML that agrees then has no difference, and can be loaded", async () => {
    const service_tiers = {
      flex: { input: "9", output: "9" },
      priority: { input: "9", output: "9" },
      scale: { input: "7", output: "8", tiers: [{ above: 5, input: "6", output: "5" }] },
    }
    const found = await diff(list(), [model("m", { input: "1", output: "2", service_tiers })])
    const { price } = found.models[0].needed
    expect(price).toEqual({
      input: "1.00",
      output: "2.00",
      tiers: [{ above: 200_000, input: "2.00", output: "2.00" }],
      service_tiers: {
        flex: { input: "0.50", output: "2.00" },
        priority: {
          input: "1.00",
          output: "2.00",
          tiers: [{ above: 200_000, input: "4.00", output: "2.00" }],
        },
        scale: { input: "7.00", output: "8.00", tiers: [{ above: 5, input: "6.00", output: "5.00" }] },
      },
    })
    const again = await diff(list(), [model("m", price)])
    expect(again).toMatchObject({ code: 0, models: [{ only_configured: ["scale"], not_configured: [] }] })
    expect(() => loadConfig(configText([model("m", price)]), { env: {}, readFile: () => "" })).not.toThrow()
    expect(keysIn(again.models[0])).toEqual(["input_cost_per_request_priority", "reasoning of flex"])
  })
})

describe("every key of a list is compared or named", () => {
  test("LiteLLM", async () => {
    const found = await diff(LITELLM, [
      model("gpt-large", GPT),
      model("claude-middle", CLAUDE, "claude"),
      model("talker", { input: "0.10", output: "0.40" }, "elsewhere"),
    ])
    const named = found.models.map(keysIn)
    expect(named).toEqual([
      ["input_cost_per_token_batches", "regional_processing_uplift_multiplier_eu"],
      ["provider_specific_entry"],
      ["output_cost_per_image", "search_context_cost_per_query", "web_search_billing_unit"],
    ])
    for (const key of named.flat())
      expect(found.text).toMatch(new RegExp(`not chargeable: .*\\b${key}\\b.* \\(`))
  })

  test("genai-prices, prices of other days and hours too", async () => {
    const found = await diff(GENAI, [model("gpt-large-2026-01-31", GPT)])
    expect(found).toMatchObject({
      code: 0,
      models: [
        {
          entry: "openai/gpt-large",
          not_chargeable: [
            { key: "prices from 2999-01-01" },
            { key: "prices from 00:30:00Z to 16:30:00Z" },
            { key: "storage_searches_kcount" },
          ],
        },
      ],
    })
  })

  test("a key that nobody knows yet, as long as it holds a number", async () => {
    const list = write({
      m: { ...PLAIN, cost_of_tomorrow: 1, plan: [{ a: { b: 2 } }], shape: "round", on: true },
    })
    const found = await diff(list, [model("m", { input: "1", output: "2" })])
    expect(keysIn(found.models[0])).toEqual(["cost_of_tomorrow", "plan"])
  })

  test("two keys for one kind that disagree, and a tier of a kind without a price", async () => {
    const list = write({
      m: {
        ...PLAIN,
        cache_read_input_token_cost: 1e-7,
        input_cost_per_token_cache_hit: 2e-7,
        cache_creation_input_token_cost_above_200k_tokens: 1e-5,
      },
    })
    const found = await diff(list, [model("m", { input: "1", cached_input: "0.1", output: "2" })])
    expect(found).toMatchObject({ code: 0 })
    expect(found.models[0].not_chargeable).toEqual([
      { key: "input_cost_per_token_cache_hit", reason: "contradicts another price of cached_input" },
      { key: "cache_write above 200000 tokens", reason: "the list has no price for smaller prompts" },
    ])
  })
})

describe("numbers are read from their text, exactly", () => {
  const rows: readonly (readonly [text: string, per_million: string | null])[] = [
    ["2.5e-06", "2.50"],
    ["2.5E-6", "2.50"],
    ["0.0000025", "2.50"],
    ["25e-7", "2.50"],
    ["2.500000e-06", "2.50"],
    ["1e-12", "0.000001"],
    ["0.999999999999", "999999.999999"],
    ["1e-13", null],
    ["1.0000000000000001e-07", null],
    ["3.3333333333333335e-05", null],
    ["1", null],
    ["-1e-6", null],
    ["1e-99", null],
    ['"1e-6"', null],
  ]
  test.each(rows)("%s USD per token is %p USD per 1M", async (text, per_million) => {
    const list = write(`{"m":{"input_cost_per_token":${text},"output_cost_per_token":2e-6}}`)
    const found = await diff(list, [model("m", { input: per_million ?? "1", output: "2" })])
    expect(found.code).toBe(per_million === null ? 1 : 0)
    if (per_million !== null) return
    const value = text.replaceAll('"', "")
    expect(found.models[0]).toMatchObject({ needed: null, not_exact: [{ key: "input_cost_per_token" }] })
    expect(found.text).toContain(`is ${text}, which cannot be charged exactly`)
    expect(found.models[0].not_exact[0].value).toContain(value)
  })

  test("genai-prices counts USD per 1M tokens, and per 1,000 searches or calls", () => {
    const list = readPriceList(
      `[{"id":"a","models":[{"id":"m","match":{"equals":"m"},"prices":
        {"input_mtok":0.000001,"output_mtok":1e0,"web_searches_kcount":0.000001,"requests_kcount":2.5,"cache_read_mtok":1e-7}}]}]`,
      new Date(),
    )
    const entry = list?.named("a/m")
    expect(
      Object.fromEntries([...(entry?.prices ?? [])].map(([kind, sizes]) => [kind, sizes.get(0)])),
    ).toEqual({
      input: 1n,
      output: 1_000_000n,
      web_search: 1_000n,
      per_call: 2_500_000_000n,
    })
    expect(entry?.not_exact).toEqual([{ key: "cache_read_mtok", value: "1e-7" }])
  })
})

describe("how an entry is found", () => {
  const plain = { input: "0.15", output: "0.60" }

  test("by the upstream's model name, with the upstream or a provider in front", async () => {
    const found = await diff(LITELLM, [
      model("a", plain, "openrouter", "lab/open-weights"),
      model("b", plain, "elsewhere", "talker"),
      model("c", plain, "openrouter", "open-weights"),
    ])
    expect(found.models.map(({ entry }: { entry: string }) => entry)).toEqual([
      "openrouter/lab/open-weights",
      "gemini/talker",
      "openrouter/lab/open-weights",
    ])
  })

  test("several are named and none is guessed; --map tells", async () => {
    const models = [model("weights", plain, "elsewhere", "lab/open-weights"), model("unknown", plain)]
    const found = await diff(LITELLM, models)
    expect(found.models).toMatchObject([
      { entry: null, candidates: ["openrouter/lab/open-weights", "together/lab/open-weights"], same: false },
      { entry: null, candidates: [], same: false },
    ])
    expect(found.text).toContain("2 entries match")
    expect(found.text).toContain("not in the list under this name; name the entry with --map 'unknown=ENTRY'")
    const map = "weights=openrouter/lab/open-weights,unknown=openrouter/lab/open-weights"
    expect(await diff(LITELLM, models, "--map", map)).toMatchObject({ code: 0 })
  })

  test("genai-prices: by the address of the upstream, else in every provider", async () => {
    const found = await diff(GENAI, [
      model("one", CLAUDE, "claude", "claude-middle-2"),
      model("two", CLAUDE, "elsewhere", "claude-middle"),
      model("three", CLAUDE, "openai", "claude-middle"),
    ])
    expect(found.models).toMatchObject([
      { entry: "anthropic/claude-middle" },
      { entry: null, candidates: ["anthropic/claude-middle", "reseller/claude-middle"] },
      { entry: null, candidates: [] },
    ])
    const mapped = await diff(GENAI, [model("two", CLAUDE)], "--map", "two=reseller/claude-middle")
    expect(mapped.models).toMatchObject([{ not_exact: [{ key: "input_mtok", value: "3.3000001" }] }])
  })

  test("each upstream of a model is compared", async () => {
    const upstreams = [
      { use: "openai", model: "gpt-large" },
      { use: "claude", model: "claude-middle" },
    ]
    const found = await diff(LITELLM, [{ name: "best", upstreams, price: GPT }])
    expect(found).toMatchObject({ code: 1, models: [{ same: true }, { same: false, upstream: "claude" }] })
  })

  test("an entry without a price for the output is not comparable", async () => {
    const found = await diff(LITELLM, [model("embedder", { input: "0.02", output: "1" })])
    expect(found).toMatchObject({ code: 1, models: [{ needed: null, differences: [] }] })
    expect(found.text).toContain("the entry has no price for the input or for the output")
  })
})

describe("what cannot be done is said in a sentence", () => {
  const config = write(configText([model("m", { input: "1", output: "2" })]))
  const NO_LIST = /is neither model_prices_and_context_window\.json/
  const rows: readonly (readonly [string, words: readonly string[], number, RegExp])[] = [
    ["a missing list", ["nowhere.json"], 1, /^tollgate: cannot read nowhere\.json: no such file/],
    ["a file that is not JSON", [write("{")], 1, NO_LIST],
    ["a file that is not a list", [write('{"a":1}')], 1, NO_LIST],
    ["no configuration", [LITELLM, "--config", "/nowhere.yaml"], 1, /cannot read the configuration file/],
    [
      "an invalid configuration",
      [LITELLM, "--config", write("models: 1")],
      1,
      /the configuration is invalid: .*models: /,
    ],
    ["a map without an entry", [LITELLM, "--map", "m"], 2, /--map: expected MODEL=ENTRY/],
    ["a map of an unknown model", [LITELLM, "--map", "x=y"], 2, /has no model x/],
    ["a map to an unknown entry", [LITELLM, "--map", "m=y"], 2, /has no entry y/],
  ]
  test.each(rows)("%s", async (_what, words, code, reason) => {
    const own = words.includes("--config") ? [] : ["--config", config]
    const ended = await type(["prices", "diff", ...words, ...own])
    expect(ended).toMatchObject({ code, out: "" })
    expect(ended.err).toMatch(reason)
  })
})

test("D67 a model that only makes embeddings needs no price of output, and is told none", async () => {
  const embeddings = { operations: ["embeddings"], max_output_tokens: null }
  const list = write({ small: { input_cost_per_token: 2e-8, mode: "embedding" } })
  const same = await diff(list, [{ ...model("small", { input: "0.02" }), ...embeddings }])
  expect([same.code, same.models[0].differences]).toEqual([0, []])
  const zero = write({ small: { input_cost_per_token: 2e-8, output_cost_per_token: 0 } })
  const { code, models } = await diff(zero, [{ ...model("small", { input: "0.03" }), ...embeddings }])
  expect([code, models[0].needed]).toEqual([1, { price: { input: "0.02" } }])
})
