import { describe, expect, test } from "bun:test"
import { describe as describeRequest } from "../../src/admission/describe.ts"
import { applyModelPolicy } from "../../src/admission/model-policy.ts"
import { largestMaxTokens } from "../../src/admission/quote.ts"
import type { Model } from "../../src/config/config.ts"
import { GatewayError } from "../../src/errors.ts"
import type { Price } from "../../src/money.ts"
import { chat as operation } from "../../src/operations/chat.ts"
import { messages } from "../../src/operations/messages.ts"
import { responses } from "../../src/operations/responses.ts"
import { type ChatRequest, parseChat, parseMessages, parseResponses } from "../../src/wire/requests.ts"
import { compressed, mp3, png } from "./files.ts"
import { aModel, quoteOf } from "./model.ts"

const chat = (fields: object = {}) =>
  parseChat({ model: "m", messages: [{ role: "user", content: "hello" }], ...fields })
const quote = (request: ChatRequest, model: Model) => quoteOf(operation, request, model)
const says = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })

describe("D60 the hold is at the dearest price that each token can have", () => {
  const plain = { input_pico: 1_000n, cached_input_pico: 100n, output_pico: 4_000n, per_call_nano: 0n }
  const held = (price: Price, fields: object = {}, context_tokens: number | null = null) =>
    quote(chat({ max_tokens: 10, ...fields }), aModel({ price, context_tokens, part_tokens: 100 }))
      .amount_nano
  /** Of `[{"role":"user","content":"hello"}]`. */
  const BYTES = 35n
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
    const amount = (data: string) => {
      const part = { type: "image_url", image_url: { url: `data:;base64,${data}` } }
      const quoted = quote(chat({ max_tokens: 10, ...says(part) }), aModel({ price, part_tokens: 100 }))
      return quoted.amount_nano - BigInt(quoted.prompt_bytes) - 40n
    }
    expect([png(), mp3(160)].map(amount)).toEqual([300n, 700n])
    const file = { type: "file", file: { file_data: compressed.PDF?.(60) } }
    expect(held(price, says(file), 1_000)).toBe(7_000n + 40n)
  })
  test("a context that is full of the dearest", () => {
    const price = priced({ audio_input: 7_000n })
    const part = { type: "input_audio", input_audio: { data: mp3(160) } }
    expect(held(price, says(part), 110)).toBe(700n + 10n + 40n)
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
    const price = priced({ web_search: 10_000_000_000n, image_input: 2_000n })
    expect(held(price)).toBe(BYTES + 40n)
    expect(held(price, { enable_search: true }, 1_000)).toBe(10n * 10_000_000n + 2_000n + 40n)
  })
})

const plain = { input_pico: 1_000n, cached_input_pico: 100n, output_pico: 4_000n, per_call_nano: 0n }
const FREE = { ...plain, input_pico: 0n, cached_input_pico: 0n, output_pico: 0n }

/** The error of a request for a model, or what is sent. */
function answerOf(fields: object, parts: Partial<Model>, headers?: Record<string, string>) {
  const request = chat(fields)
  const texts = operation.texts(request)
  const asked = applyModelPolicy(
    "chat",
    request,
    texts,
    describeRequest("chat", texts, headers),
    aModel(parts),
    headers,
  )
  return asked instanceof GatewayError ? asked : texts.with({}).join("")
}
const faultOf = (fields: object, parts: Partial<Model>, headers?: Record<string, string>) => {
  const answer = answerOf(fields, parts, headers)
  return answer instanceof GatewayError
    ? [answer.code, answer.detail.param, answer.detail.fields?.missing]
    : null
}

describe("D61 what has no price is refused, by its field and the price that is missing", () => {
  const buckets = { audio_input: 1n, audio_output: 1n, web_search: 0n, cache_write_1h: 1n }
  test.each<[string, object, string, keyof typeof buckets]>([
    ["audio", says({ type: "input_audio" }), "messages", "audio_input"],
    ["spoken output", { modalities: ["audio"] }, "modalities", "audio_output"],
    ["a search", { web_search_options: {} }, "web_search_options", "web_search"],
    ["a cache of an hour", { cache_control: { ttl: "1h" } }, "cache_control", "cache_write_1h"],
  ])("%s", (_, fields, param, missing) => {
    expect(faultOf(fields, { price: plain })).toEqual(["invalid_request", param, missing])
    expect(faultOf(fields, { price: { ...plain, buckets }, context_tokens: 9 })).toBeNull()
    expect(faultOf(fields, { price: FREE })).toBeNull()
  })

  test.each<[object, string, string]>([
    [{ speed: "x" }, "speed", "speed"],
    [{ inference_geo: "x" }, "inference_geo", "inference_geo"],
    [{ modalities: ["image"] }, "modalities", "image_output"],
    [{ plugins: [{ id: "file-parser" }] }, "plugins", "page"],
    [{ prompt_cache_options: { ttl: "12h" } }, "prompt_cache_options", "cache_ttl"],
    [{ vllm_xargs: {} }, "vllm_xargs", "refused"],
    [{ tools: [{ type: "function" }, { type: "code_interpreter" }] }, "tools", "tool_run:code_interpreter"],
    [{ tools: [{ type: "future_tool" }] }, "tools", "hosted_tool"],
  ])("%j", (fields, param, missing) => {
    expect(faultOf(fields, { price: { ...plain, buckets }, context_tokens: 9 })).toEqual([
      "invalid_request",
      param,
      missing,
    ])
    expect(faultOf(fields, { price: FREE })).toBeNull()
    expect(faultOf({ [param]: null }, { price: plain })).toBeNull()
  })

  test("fees: runs of a tool as the model holds searches, and every page of documents", () => {
    const price = { ...plain, buckets: { page: 2_000_000n }, tool_runs: { x_search: 5_000_000n } }
    const free = (fields: object) => {
      const { cost_pico } = quote(chat({ max_tokens: 1, ...fields }), aModel({ price, context_tokens: 100 }))
      return cost_pico - 100n * 1_000n - 4_000n
    }
    const tools = [{ type: "x_search" }]
    expect(faultOf({ tools }, { price, context_tokens: 100 })).toBeNull()
    expect(free({ tools })).toBe(10n * 5_000_000n)
    const posts = { ...price, tool_runs: { x_search: 5_000_000n, x_posts: 3_000_000n, file_search: 1n } }
    const with_posts = aModel({ price: posts, context_tokens: 100 })
    const held = (fields: object) => quote(chat({ max_tokens: 1, ...fields }), with_posts).cost_pico
    expect(held({ tools }) - 100n * 1_000n - 4_000n).toBe(10n * 8_000_000n)
    expect(held({ tools: [{ type: "web_fetch" }] }) - 100n * 1_000n - 4_000n).toBe(10n * 3_000_000n)
    const bytes = 57n * 1_000n
    expect(free({ plugins: [{ id: "file-parser" }] })).toBe(1_000n * 2_000_000n - 100_000n + bytes)
  })

  test.each(["flex", "priority", "", 5, true, { type: "flex" }])("the service tier %j", (service_tier) => {
    expect(faultOf({ service_tier }, { price: plain })).toEqual([
      "invalid_request",
      "service_tier",
      "service_tier",
    ])
  })
  test("not a service tier that has one", () => {
    const service_tiers = [{ name: "flex", price: plain, tiers: [] }]
    expect(faultOf({ service_tier: "flex" }, { price: plain, service_tiers })).toBeNull()
    expect(faultOf({ service_tier: "priority" }, { price: plain, service_tiers })?.[1]).toBe("service_tier")
  })
  test.each([null, "auto", "default"])("not the service tier %j", (service_tier) => {
    expect(faultOf({ service_tier }, { price: plain })).toBeNull()
  })

  test("D65 a beta for larger prompts needs the prices of larger prompts", () => {
    const headers = { "anthropic-beta": "context-1m-2025-08-07" }
    expect(faultOf({}, { price: plain }, headers)).toEqual([
      "invalid_request",
      "anthropic-beta",
      "large_prompt",
    ])
    expect(
      faultOf({}, { price: plain, tiers: [{ above_tokens: 200_000, price: plain }] }, headers),
    ).toBeNull()
  })
})

const ROUNDS = { hold_rounds: 4, max_rounds: 8 }

describe("D89 an open prompt holds contexts", () => {
  const CONTEXT = 1_000_000
  const mcp = { tools: [{ type: "mcp", server_url: "https://mcp.example" }] }
  const ask = (fields: object, model: Partial<Model> = {}) =>
    quoteOf(
      responses,
      parseResponses({ model: "m", input: "hi", ...fields }),
      aModel({ context_tokens: CONTEXT, ...model }),
    )

  test.each<[string, object, { hold_rounds: number; max_rounds: number }, held: number, plausible: number]>([
    ["by default", mcp, { hold_rounds: 1, max_rounds: 32 }, 1, 32],
    ["rounds of the operator", mcp, ROUNDS, 4, 8],
    ["fewer held by the request", { ...mcp, max_tool_calls: 2 }, ROUNDS, 3, 8],
    ["one by the request", { ...mcp, max_tool_calls: 0 }, ROUNDS, 1, 8],
    ["more by the request", { ...mcp, max_tool_calls: 90 }, ROUNDS, 4, 8],
    ["by the uses of a tool", { tools: [{ type: "web_fetch", max_uses: 1 }] }, ROUNDS, 2, 8],
    ["what is only hidden", { previous_response_id: "r" }, ROUNDS, 1, 1],
  ])("%s", (_, fields, open, held, plausible) => {
    const { prompt_tokens_bound, limits, prompt_bytes } = ask(fields, { open })
    expect(prompt_tokens_bound).toBe(held * CONTEXT)
    expect(limits.prompt_tokens).toBe(plausible * CONTEXT + prompt_bytes + 131_072)
  })

  test("without context_tokens it is refused, by its field", () => {
    expect(faultOf({ data_sources: [{}] }, { price: plain })).toEqual([
      "invalid_request",
      "data_sources",
      "context_tokens",
    ])
    expect(faultOf({ data_sources: [{}] }, { price: FREE })).toBeNull()
  })

  test.each<[object[], number]>([
    [[], 0],
    [[{ name: "f" }, { type: "custom", name: "g" }], 346],
    [[{ type: "bash_20250124", name: "bash" }, { type: "text_editor_20250728" }], 346 + 245 + 700],
    [[{ type: "computer_20251124" }], 346 + 1_234],
  ])("D12 the instructions for the tools %j are held, and no estimate counts them", (tools, tokens) => {
    const asked = parseMessages({
      model: "m",
      max_tokens: 1,
      messages: [{ role: "user", content: "hi" }],
      tools,
    })
    const { prompt_tokens_bound, prompt_bytes, estimate_bytes } = quoteOf(messages, asked, aModel({}))
    expect([prompt_tokens_bound - prompt_bytes, estimate_bytes - prompt_bytes]).toEqual([tokens, 0])
  })
})

describe("D61 what an operator refuses and sets", () => {
  const refusing = (path: string, value: string | null = null) => ({ price: FREE, refuse: [{ path, value }] })
  test.each<[string, string | null, object, boolean]>([
    ["new_field", null, { new_field: 1 }, true],
    ["new_field", null, { New_Field: 1 }, true],
    ["new_field", null, { new_field: null }, false],
    ["new_field", null, {}, false],
    ["new_field.mode", "pro", { new_field: { mode: "pro" } }, true],
    ["new_field.mode", "pro", { new_field: { mode: "basic" } }, false],
    ["tools.type", "custom", { tools: [{ type: "function" }, { type: "custom" }] }, true],
    ["modalities", "audio", { modalities: ["text", "audio"] }, true],
    ["modalities", "text,audio", { modalities: ["text", "audio"] }, false],
    ["new_field", "5", { new_field: 5 }, true],
    ["new_field", "true", { new_field: [JSON.rawJSON("1e400"), { toString: 1 }, true] }, true],
  ])("%s=%p of %j is refused: %p", (path, value, fields, is_refused) => {
    expect(faultOf(fields, refusing(path, value))).toEqual(
      is_refused ? ["invalid_request", path, undefined] : null,
    )
  })

  test("D78 each field is read once, however many rules there are: a large one is parsed for that", () => {
    const read: string[] = []
    const request = chat({ tools: [{ type: "function" }] })
    const watched = new Proxy(request, {
      get(target, name) {
        read.push(String(name))
        return Reflect.get(target, name)
      },
    })
    const refuse = ["a", "b", "c"].map((value) => ({ path: "tools.type", value }))
    const texts = operation.texts(request)
    const described = describeRequest("chat", texts)
    applyModelPolicy("chat", watched, texts, described, aModel({ price: FREE, refuse }))
    expect(read).toEqual(["tools"])
  })

  test("what is set is sent and measured, in the place of what the client said", () => {
    const set = { "new_field.order": ["a"], store: false, provider: { only: ["x"] } }
    expect(answerOf({ New_Field: { x: 1 }, store: true }, { price: plain, set })).toBe(
      '{"model":"m","messages":[{"role":"user","content":"hello"}],"new_field":{"order":["a"]},"store":false,"provider":{"only":["x"]}}',
    )
    expect(faultOf({}, { price: plain, set: { service_tier: "flex" } })?.[2]).toBe("service_tier")
    const provider = () => answerOf({ provider: { only: ["y"] } }, { price: plain, set })
    expect(provider).toThrow("it can change what the provider charges")
  })
})
