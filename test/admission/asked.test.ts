import { describe, expect, test } from "bun:test"
import { askedFor, NOTHING_ASKED, unpriced } from "../../src/admission/asked.ts"
import { largestMaxTokens, quote as quoteFor } from "../../src/admission/quote.ts"
import type { Model } from "../../src/config/config.ts"
import type { Price } from "../../src/money.ts"
import { chat as operation } from "../../src/operations/chat.ts"
import { type ChatRequest, parseChat } from "../../src/wire/chat-request.ts"
import { aModel } from "./model.ts"

const chat = (fields: object = {}) =>
  parseChat({ model: "m", messages: [{ role: "user", content: "hello" }], ...fields })
const quote = (request: ChatRequest, model: Model) => quoteFor(operation, request, model)
const says = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })

describe("D60 what a request asks for besides text", () => {
  const nothing = NOTHING_ASKED
  const rows: [string, object, object][] = [
    ["text", {}, {}],
    ["a plain service tier", { service_tier: "auto" }, {}],
    ["a part of audio", says({ type: "input_audio" }), { audio_input: "messages" }],
    ["audio by its address", says({ type: "audio_url" }), { audio_input: "messages" }],
    ["an image", says({ type: "image_url" }), {}],
    ["spoken output", { modalities: ["text", "audio"] }, { audio_output: "modalities" }],
    ["text output", { modalities: ["text"] }, {}],
    ["a voice", { audio: { voice: "x" } }, { audio_output: "audio" }],
    ["no voice", { audio: null }, {}],
    ["search options", { web_search_options: {} }, { web_search: "web_search_options" }],
    ["no search options", { web_search_options: null }, {}],
    ["search parameters", { search_parameters: { mode: "auto" } }, { web_search: "search_parameters" }],
    ["search parameters that are off", { search_parameters: { mode: "off" } }, {}],
    ["a switch", { enable_search: true }, { web_search: "enable_search" }],
    ["a switch that is off", { enable_search: false }, {}],
    ["a plugin", { plugins: [{ id: "web" }] }, { web_search: "plugins" }],
    ["another plugin", { plugins: [{ id: "file-parser" }] }, {}],
    ["a tool", { tools: [{ type: "web_search_20250305" }] }, { web_search: "tools" }],
    ["a tool without a type", { tools: [{ google_search: {} }] }, { web_search: "tools" }],
    ["a tool in its own spelling", { tools: [{ googleSearch: {} }] }, { web_search: "tools" }],
    ["a function of the client", { tools: [{ type: "function", function: { name: "web_search" } }] }, {}],
    ["a function without a type", { tools: [{ function: { name: "f" } }] }, {}],
    ["a custom tool of the client", { tools: [{ type: "custom", custom: { name: "f" } }] }, {}],
    ["functions in Gemini's form", { tools: [{ functionDeclarations: [{ name: "f" }] }] }, {}],
    ["a tool of the provider", { tools: [{ type: "code_interpreter" }] }, { hosted_tool: "tools" }],
    ["a tool of the provider, by its name", { tools: [{ url_context: {} }] }, { hosted_tool: "tools" }],
    ["tools that are none", { tools: "web_search" }, {}],
    ["a cache of an hour", { cache_control: { ttl: "1h" } }, { cache_write_1h: "cache_control" }],
    ["of a part", says({ type: "text", cache_control: { ttl: "1h" } }), { cache_write_1h: "messages" }],
    [
      "of a tool",
      { tools: [{ type: "function", cache_control: { ttl: "1h" } }] },
      { cache_write_1h: "tools" },
    ],
    [
      "of its function",
      { tools: [{ function: { cache_control: { ttl: "1h" } } }] },
      { cache_write_1h: "tools" },
    ],
    ["a cache of five minutes", says({ type: "text", cache_control: { type: "ephemeral" } }), {}],
    ["a service tier", { service_tier: "flex" }, { service_tier: "flex" }],
    ["the model's own", { service_tier: "default" }, { service_tier: "default" }],
    ["any service tier", { service_tier: "auto" }, {}],
    ["a service tier that is none", { service_tier: 5 }, { service_tier: "" }],
  ]
  test.each(rows)("%s", (_, fields, asked) => {
    expect(askedFor(chat(fields))).toEqual({ ...nothing, ...asked })
  })
})

describe("D60 the hold is at the dearest price that each token can have", () => {
  const plain = { input_pico: 1_000n, cached_input_pico: 100n, output_pico: 4_000n, per_call_nano: 0n }
  const held = (price: Price, fields: object = {}, context_tokens: number | null = null) =>
    quote(chat({ max_tokens: 10, ...fields }), aModel({ price, context_tokens, part_tokens: 100 }))
      .amount_nano
  /** Of `[{"role":"user","content":"hello"}]`, and with an empty list of parts. */
  const [BYTES, AROUND] = [35n, 30n]
  const priced = (buckets: Price["buckets"] & object): Price => ({ ...plain, buckets })

  test("text: input, cached or written to a cache", () => {
    expect(held(plain)).toBe(BYTES + 40n)
    expect(held(priced({ cache_write: 1_250n, cache_write_1h: 2_000n }))).toBe(2n * BYTES + 40n)
    expect(held(priced({ cache_write: 500n, audio_input: 9_000n, image_input: 9_000n }))).toBe(BYTES + 40n)
  })
  test("output: reasoning always, audio if it is asked for", () => {
    expect(held(priced({ reasoning: 5_000n, audio_output: 9_000n }))).toBe(BYTES + 50n)
    expect(held(priced({ audio_output: 9_000n }), { modalities: ["audio"] })).toBe(BYTES + 90n)
  })
  test("media: as what they are", () => {
    const price = priced({ image_input: 3_000n, audio_input: 7_000n })
    const part = (type: string) => held(price, says({ type }))
    expect([part("image_url"), part("input_audio"), part("file")]).toEqual([
      AROUND + 300n + 40n,
      AROUND + 700n + 40n,
      AROUND + 700n + 40n,
    ])
  })
  test("a context that is full of the dearest", () => {
    const price = priced({ audio_input: 7_000n })
    expect(held(price, says({ type: "input_audio", input_audio: { data: "AAAA" } }), 110)).toBe(
      700n + 10n + 40n,
    )
  })
  test("D62 prices of larger prompts, as far as the prompt can reach them", () => {
    const tiers = [
      { above_tokens: 34, price: { ...plain, input_pico: 500n, output_pico: 9_000n } },
      { above_tokens: 35, price: { ...plain, input_pico: 100_000n } },
    ]
    const quoted = (fields: object) =>
      quote(chat({ max_tokens: 10, ...fields }), aModel({ price: plain, tiers }))
    // 34 bytes at the model's own price are less than 35 at half of it, whose output is dearer.
    expect(quoted({}).amount_nano).toBe(18n + 90n)
    expect(quoted({ max_tokens: 1 }).amount_nano).toBe(34n + 4n)
    expect(quoted({ messages: [{ role: "user", content: "hello!" }] }).amount_nano).toBe(3_600n + 40n)
    expect(largestMaxTokens(quoted({}), aModel({ price: plain, tiers }), 108n)).toBe(10)
    expect(largestMaxTokens(quoted({}), aModel({ price: plain, tiers }), 107n)).toBe(9)
    expect(largestMaxTokens(quoted({}), aModel({ price: plain, tiers }), 37n)).toBeNull()
  })
  test("D70 service tiers, as far as the call can reach them", () => {
    const service_tiers = [
      { name: "flex", price: { ...plain, input_pico: 500n, output_pico: 2_000n }, tiers: [] },
      {
        name: "priority",
        price: { ...plain, input_pico: 2_000n, output_pico: 8_000n },
        tiers: [{ above_tokens: 34, price: { ...plain, input_pico: 3_000n, output_pico: 9_000n } }],
      },
    ]
    const model = aModel({ price: plain, service_tiers })
    const amount = (fields: object) => quote(chat({ max_tokens: 10, ...fields }), model).amount_nano
    const [own, dearest] = [BYTES + 40n, 3n * BYTES + 90n]
    expect(amount({})).toBe(dearest)
    expect(amount({ service_tier: "auto" })).toBe(dearest)
    expect(amount({ service_tier: "priority" })).toBe(dearest)
    // The provider may serve a call at the model's own price instead.
    expect(amount({ service_tier: "flex" })).toBe(own)
    expect(amount({ service_tier: "default" })).toBe(own)
    expect(largestMaxTokens(quote(chat(), model), model, dearest)).toBe(10)
    expect(largestMaxTokens(quote(chat(), model), model, dearest - 1n)).toBe(9)
  })
  test("searches, if any are asked for", () => {
    const price = priced({ web_search: 10_000_000_000n })
    expect(held(price)).toBe(BYTES + 40n)
    expect(held(price, { enable_search: true })).toBe(10n * 10_000_000n + BYTES + 4n + 40n)
  })
})

describe("D61 what has no price is refused, by its field and the price that is missing", () => {
  const plain = { input_pico: 1_000n, cached_input_pico: 100n, output_pico: 4_000n, per_call_nano: 0n }
  const priced = {
    ...plain,
    buckets: { audio_input: 1n, audio_output: 1n, web_search: 0n, cache_write_1h: 1n },
  }
  const faultOf = (fields: object, price: Price) => {
    const refused = unpriced(askedFor(chat(fields)), aModel({ price }))
    return refused === null ? null : [refused.code, refused.detail.param, refused.detail.fields?.missing]
  }
  test.each([
    ["audio", says({ type: "input_audio" }), "messages", "audio_input"],
    ["spoken output", { modalities: ["audio"] }, "modalities", "audio_output"],
    ["a voice", { audio: {} }, "audio", "audio_output"],
    ["a search", { web_search_options: {} }, "web_search_options", "web_search"],
    ["a tool that searches", { tools: [{ type: "web_search" }] }, "tools", "web_search"],
    ["a cache of an hour", { cache_control: { ttl: "1h" } }, "cache_control", "cache_write_1h"],
  ])("%s", (_, fields, param, missing) => {
    expect(faultOf(fields, plain)).toEqual(["invalid_request", param, missing])
    expect(faultOf(fields, priced)).toBeNull()
    expect(faultOf(fields, { ...plain, input_pico: 0n, cached_input_pico: 0n, output_pico: 0n })).toBeNull()
  })

  test.each(["speed", "inference_geo"])("%s, which no model has a price for", (field) => {
    expect(faultOf({ [field]: "x" }, priced)).toEqual(["invalid_request", field, field])
    expect(faultOf({ [field]: null }, priced)).toBeNull()
  })

  test("a tool that the provider runs, which no model has a price for", () => {
    const fields = { tools: [{ type: "function", function: { name: "f" } }, { type: "code_interpreter" }] }
    expect(faultOf(fields, priced)).toEqual(["invalid_request", "tools", "hosted_tool"])
  })

  test.each(["flex", "priority", "", 5, true, { type: "flex" }])("the service tier %j", (service_tier) => {
    expect(faultOf({ service_tier }, priced)).toEqual(["invalid_request", "service_tier", "service_tier"])
  })
  test("not a service tier that has one", () => {
    const service_tiers = [{ name: "flex", price: plain, tiers: [] }]
    const model = aModel({ price: plain, service_tiers })
    expect(unpriced(askedFor(chat({ service_tier: "flex" })), model)).toBeNull()
    expect(unpriced(askedFor(chat({ service_tier: "priority" })), model)?.detail.param).toBe("service_tier")
  })
  test.each([null, "auto", "default"])("not the service tier %j", (service_tier) => {
    expect(faultOf({ service_tier }, plain)).toBeNull()
  })
})
