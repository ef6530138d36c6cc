import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { largestMaxTokens, moneyRefusal, type Quote } from "../../src/admission/quote.ts"
import type { Model } from "../../src/config/config.ts"
import { ceilToNano, heldFor, type Price, parseMultiplier } from "../../src/money.ts"
import { chat as operation } from "../../src/operations/chat.ts"
import { type ChatRequest, parseChat } from "../../src/wire/requests.ts"
import { priceOf } from "../support/price.ts"
import { png } from "./files.ts"
import { aModel, quoteOf } from "./model.ts"

const price = priceOf(250_000n, 25_000n, 2_000_000n)
const model = aModel({ price, max_output_tokens: 1_000, hold_output_tokens: 300, part_tokens: 4_096 })

const chat = (fields: object = {}) =>
  parseChat({ model: "m", messages: [{ role: "user", content: "hello" }], ...fields })
const quote = (request: ChatRequest, model: Model) => quoteOf(operation, request, model)
/** `[{"role":"user","content":"hello"}]` */
const BYTES = 35

const image = { type: "image_url", image_url: { url: `data:image/png;base64,${png()}` } }
const says = (content: unknown) => ({ messages: [{ role: "user", content }] })
/** Bytes of `[{"role":"user","content":…}]` around the content's own. */
const AROUND = 28

describe("D12 prompt bound: bytes of the JSON text of the prompt fields", () => {
  const rows: [string, object, bytes: number, added?: number][] = [
    ["messages", {}, BYTES],
    [
      "what is only in the client's spelling does not count",
      JSON.parse('{ "messages" : [ {"role":"user", "content":"h\\u0065llo"} ] }'),
      BYTES,
    ],
    ["two-byte characters", says("héé"), AROUND + 7],
    ["an escape counts as it is sent", says('"\n'), AROUND + 6],
    ["a lone surrogate counts as its escape", says("\ud800"), AROUND + 8],
    ["tools", { tools: [{ type: "function" }] }, BYTES + 21, 346],
    ["functions", { functions: [{ name: "f" }] }, BYTES + 14],
    ["a response format", { response_format: { type: "json_object" } }, BYTES + 22],
    ["a field nobody knows", { documents: ["x"] }, BYTES + 5],
    ["a field named __proto__", JSON.parse('{"__proto__":["x"]}'), BYTES + 5],
    ["fields inside a message", { messages: [{ role: "user", content: "hello", name: "x" }] }, BYTES + 11],
    ["a null prompt field", { tools: null }, BYTES + 4],
    [
      "model, limits, sampling and bookkeeping are no prompt",
      {
        model: "longer",
        stream: true,
        stream_options: { include_usage: true },
        n: 1,
        max_tokens: 5,
        max_completion_tokens: 5,
        temperature: 1,
        top_p: 1,
        seed: 1,
        stop: ["x"],
        user: "u",
        metadata: { a: "b" },
        logit_bias: { 1: 2 },
      },
      BYTES,
    ],
  ]
  test.each(rows)("%s", (_, fields, bytes, added = 0) => {
    expect(quote(chat(fields), model)).toMatchObject({
      prompt_bytes: bytes,
      prompt_tokens_bound: bytes + added,
    })
  })
})

describe("D1 what a request can have caused", () => {
  const rows: [string, object, prompt: number, completion: number][] = [
    ["a prompt, and what is added unseen", {}, BYTES + 131_072, 8 * 4_096],
    ["a small bound of the output", { max_tokens: 1 }, BYTES + 131_072, 8 * 4_096],
    ["a function", { tools: [{ type: "function" }] }, BYTES + 21 + 131_072, 8 * 4_096],
    ["choices", { max_tokens: 1, n: 3 }, BYTES + 131_072, 3 * 8 * 4_096],
  ]
  test.each(rows)("%s", (_, fields, prompt_tokens, completion_tokens) => {
    expect(quote(chat(fields), model).limits).toEqual({ prompt_tokens, completion_tokens })
  })

  test("the output that was asked for, at most the model's", () => {
    const large = aModel({ max_output_tokens: 100_000, hold_output_tokens: 10 })
    const completion = (fields: object) => quote(chat(fields), large).limits.completion_tokens
    expect(completion({})).toBe(800_000)
    expect(completion({ max_tokens: 10_000 })).toBe(100_000)
    expect(completion({ max_tokens: 50_000 })).toBe(400_000)
    expect(completion({ max_tokens: 200_000 })).toBe(800_000)
    expect(completion({ max_tokens: 1 })).toBe(100_000)
  })
})

describe("D12 output bound", () => {
  const rows: [string, object, number][] = [
    ["without a limit: hold_output_tokens", {}, 300],
    ["null is no limit", { max_tokens: null, max_completion_tokens: null }, 300],
    ["max_tokens", { max_tokens: 5 }, 5],
    ["max_completion_tokens", { max_completion_tokens: 5 }, 5],
    ["the larger of both", { max_tokens: 7, max_completion_tokens: 5 }, 7],
    ["above hold_output_tokens", { max_tokens: 301 }, 301],
    ["at most the model's", { max_tokens: 1_001 }, 1_000],
    ["at most the model's, however large", { max_completion_tokens: Number.MAX_SAFE_INTEGER }, 1_000],
    ["a larger one that another server reads", { max_tokens: 5, n_predict: 700 }, 700],
    ["a smaller one that another server reads", { max_tokens: 5, n_predict: 2 }, 5],
    ["only such a one, and smaller", { n_predict: 2 }, 300],
    ["only such a one, and larger", { max_output_tokens: 300.5 }, 301],
    ["such a one without an end", { max_tokens: 5, n_predict: -1 }, 1_000],
    ["such a one that is no number", { max_tokens: 5, n_predict: "9" }, 1_000],
    ["such a one that is null", { max_tokens: 5, n_predict: null }, 5],
    ["a budget of thinking", { max_tokens: 5, thinking_budget: 70 }, 75],
    ["a budget of thinking that is on", { max_tokens: 5, enable_thinking: true, thinking_budget: 70 }, 75],
    ["thinking without a budget", { max_tokens: 5, enable_thinking: true }, 1_000],
    ["thinking that is off", { max_tokens: 5, enable_thinking: false, thinking_budget: 0 }, 5],
  ]
  test.each(rows)("%s", (_, fields, bound) => {
    const quoted = quote(chat(fields), model)
    expect(quoted.output_tokens_bound).toBe(bound)
    expect(quoted.amount_nano).toBe(ceilToNano(BigInt(BYTES) * 250_000n + BigInt(bound) * 2_000_000n))
  })
})

test.each<[string, object, number]>([
  ["a budget of thinking", { thinking_budget: 1 }, 1_000],
  ["a budget beside thinking at the top", { thinking_budget: 1, enable_thinking: true }, 1_000],
  ["thinking that is off", { thinking_budget: 0, enable_thinking: false }, 5],
])("D12 within extra_body, %s is held as thinking without a budget", (_, extra_body, bound) => {
  const top = "enable_thinking" in extra_body && { enable_thinking: extra_body.enable_thinking }
  const quoted = quote(chat({ max_tokens: 5, ...top, extra_body }), model)
  expect(quoted.output_tokens_bound).toBe(bound)
  expect(quote(chat({ extra_body, ...top, max_tokens: 5 }), model).output_tokens_bound).toBe(bound)
})

test.each<[string, object, number]>([
  ["a limit", { max_tokens: 5 }, 1_000],
  ["no limit", {}, 1_000],
  ["thinking that is neither on nor off", { max_tokens: 5, enable_thinking: null }, 1_000],
  ["thinking that is off", { max_tokens: 5, enable_thinking: false }, 5],
  ["a budget", { max_tokens: 5, thinking_budget: 70 }, 75],
  ["a budget that is off", { max_tokens: 5, thinking_budget: false }, 1_000],
  ["no thinking only within extra_body", { max_tokens: 5, extra_body: { enable_thinking: false } }, 1_000],
])(
  "D12 a model with unlimited thinking holds it with %s, unless it is off or has a budget",
  (_, fields, bound) => {
    const thinking = { ...model, unlimited_thinking: true }
    expect(quote(chat(fields), thinking).output_tokens_bound).toBe(bound)
  },
)

test("D12 with a beta for larger outputs, the model's largest output bounds neither the hold nor what is plausible", () => {
  const large = { max_tokens: 300_000, anthropic_beta: ["output-300k-2026-03-24"] }
  expect(quote(chat(large), model)).toMatchObject({
    output_tokens_bound: 300_000,
    limits: { completion_tokens: 2_400_000 },
  })
  expect(quote(chat({ ...large, max_tokens: 5 }), model).output_tokens_bound).toBe(5)
  expect(quote(chat({ ...large, max_tokens: null }), model).output_tokens_bound).toBe(300)
  expect(quote(chat({ ...large, max_tokens: 2 ** 53 - 1 }), model).output_tokens_bound).toBe(100_000_000)
})

test("D12 a prediction is held as output too, because what the answer does not repeat is billed as output", () => {
  const prediction = { type: "content", content: "x".repeat(60) }
  const bytes = JSON.stringify(prediction).length
  expect(quote(chat({ max_tokens: 5, prediction: null }), model).output_tokens_bound).toBe(5)
  const quoted = quote(chat({ max_tokens: 5, prediction }), model)
  expect(quoted).toMatchObject({ prompt_bytes: BYTES + bytes, output_tokens_bound: 5 + bytes })
  expect(
    quote(chat({ max_tokens: 5, prediction: { content: "x".repeat(2_000) } }), model).output_tokens_bound,
  ).toBe(1_000)
})

test("D12 the largest limit that fits leaves room for what it does not bound", () => {
  const largest = (fields: object, as: object) =>
    largestMaxTokens(quote(chat(fields), model), model, quote(chat(as), model).amount_nano)
  const thinking = { thinking_budget: 70 }
  expect(largest({ max_tokens: 500, ...thinking }, { max_tokens: 100, ...thinking })).toBe(100)
  expect(largest({ max_tokens: 500, ...thinking }, { max_tokens: 70 })).toBeNull()
  expect(largest({ max_tokens: 500, n_predict: 200 }, { max_tokens: 300 })).toBe(300)
  expect(largest({ max_tokens: 500, n_predict: 200 }, { max_tokens: 199 })).toBeNull()
  expect(largest({ max_tokens: 5, n_predict: -1 }, { max_tokens: 1_000 })).toBe(1_000)
})

describe("D12 the amount", () => {
  const priced = (input: bigint, cached: bigint, output: bigint) =>
    aModel({
      price: { input_pico: input, cached_input_pico: cached, output_pico: output, per_call_nano: 0n },
    })
  const rows: [string, object, Price, bigint][] = [
    ["35 bytes and 10 tokens", { max_tokens: 10 }, price, 28_750n],
    ["n choices hold output n times, the prompt once", { max_tokens: 10, n: 3 }, price, 68_750n],
    [
      "cached input dearer than input",
      { max_tokens: 10 },
      { ...price, cached_input_pico: 300_000n },
      30_500n,
    ],
    ["one rounding, up", { max_tokens: 1 }, priceOf(1n, 0n, 966n), 2n],
    ["what divides is not rounded", { max_tokens: 1 }, priceOf(1n, 0n, 965n), 1n],
    ["at least 1 nano-USD", { max_tokens: 1 }, priceOf(0n, 0n, 0n), 1n],
  ]
  test.each(rows)("%s", (_, fields, price, amount_nano) => {
    const { input_pico, cached_input_pico, output_pico } = price
    expect(quote(chat(fields), priced(input_pico, cached_input_pico, output_pico)).amount_nano).toBe(
      amount_nano,
    )
  })

  test("an amount that the ledger could not write becomes the largest that it can", () => {
    const dear = aModel({
      price: priceOf(999_999_999_999n, 0n, 999_999_999_999n),
      max_output_tokens: 10_000_000,
      part_tokens: 10_000_000,
    })
    const request = chat({ n: 128, max_tokens: 10_000_000, ...says(Array(1_000).fill(image)) })
    expect(heldFor(quote(request, dear).cost_pico, parseMultiplier("1000") ?? 0)).toBe(2n ** 63n - 1n)
  })
})

const prices = fc.record({
  input_pico: fc.bigInt(0n, 10n ** 9n),
  cached_input_pico: fc.bigInt(0n, 10n ** 9n),
  output_pico: fc.bigInt(0n, 10n ** 9n),
  per_call_nano: fc.bigInt(0n, 10n ** 9n),
})
const anyModel = prices.map((price) =>
  aModel({ price, max_output_tokens: 100_000, hold_output_tokens: 50_000 }),
)
const texts = fc.string({ unit: "binary", maxLength: 50 })
const limits = fc.option(fc.integer({ min: 1, max: 200_000 }))
const choices = fc.integer({ min: 1, max: 128 })

describe("D12 properties", () => {
  test("no usage within the bounds costs more than what is held", () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(
        anyModel,
        texts,
        limits,
        choices,
        share,
        share,
        share,
        (model, content, max_tokens, n, p, c, o) => {
          const quoted = quote(chat({ ...says(content), max_tokens, n }), model)
          const prompt = Math.floor(p * quoted.prompt_tokens_bound)
          const cached = Math.floor(c * prompt)
          const output = Math.floor(o * quoted.output_tokens_bound * quoted.n)
          const { input_pico, cached_input_pico, output_pico, per_call_nano } = model.price
          const cost_pico =
            BigInt(prompt - cached) * input_pico +
            BigInt(cached) * cached_input_pico +
            BigInt(output) * output_pico +
            per_call_nano * 1_000n
          expect(ceilToNano(cost_pico)).toBeLessThanOrEqual(quoted.amount_nano)
        },
      ),
    )
  })

  test("more bytes, more output or more choices never hold less", () => {
    const step = fc.integer({ min: 0, max: 1_000 })
    fc.assert(
      fc.property(
        anyModel,
        texts,
        texts,
        fc.integer({ min: 1, max: 99_000 }),
        choices,
        step,
        (model, a, b, max_tokens, n, more) => {
          const held = (content: string, tokens: number, n: number) =>
            quote(chat({ ...says(content), max_tokens: tokens, n }), model).amount_nano
          const amount_nano = held(a, max_tokens, n)
          expect(held(a + b.replace(/[\udc00-\udfff]/g, ""), max_tokens, n)).toBeGreaterThanOrEqual(
            amount_nano,
          )
          expect(held(a, max_tokens + more, n)).toBeGreaterThanOrEqual(amount_nano)
          expect(held(a, max_tokens, Math.min(128, n + (more % 10)))).toBeGreaterThanOrEqual(amount_nano)
        },
      ),
    )
  })

  test("the largest max_tokens fits, and one more does not", () => {
    fc.assert(
      fc.property(
        anyModel,
        texts,
        limits,
        choices,
        fc.bigInt(-1_000n, 10n ** 10n),
        fc.integer({ min: 1, max: 30_000 }),
        (model, content, max_tokens, n, available_nano, price_multiplier_bp) => {
          const request = { ...says(content), n }
          const heldBy = ({ cost_pico }: Quote) => heldFor(cost_pico, price_multiplier_bp)
          const held = (tokens: number) => heldBy(quote(chat({ ...request, max_tokens: tokens }), model))
          const quoted = quote(chat({ ...request, max_tokens }), model)
          fc.pre(heldBy(quoted) > available_nano)
          const largest = largestMaxTokens(quoted, model, available_nano, price_multiplier_bp)
          if (largest === null) {
            expect(held(1)).toBeGreaterThan(available_nano)
            return
          }
          expect(held(largest)).toBeLessThanOrEqual(available_nano)
          expect(largest).toBeLessThan(quoted.output_tokens_bound)
          expect(held(largest + 1)).toBeGreaterThan(available_nano)
        },
      ),
    )
  })
})

describe("D12 the 402 says what is needed, what there is, and what would fit", () => {
  const quoted = quote(chat({ max_tokens: 10, n: 2 }), model)
  const needed = "0.00004875"
  const rows: [string, bigint, object, string][] = [
    [
      "a smaller answer fits",
      20_750n,
      { needed, available: "0.00002075", max_tokens: 3 },
      ", or set max_tokens to at most 3.",
    ],
    [
      "not quite three",
      20_749n,
      { needed, available: "0.000020749", max_tokens: 2 },
      ", or set max_tokens to at most 2.",
    ],
    [
      "just one token",
      12_750n,
      { needed, available: "0.00001275", max_tokens: 1 },
      ", or set max_tokens to at most 1.",
    ],
    ["not even one", 12_749n, { needed, available: "0.000012749" }, "."],
    ["the prompt alone is too much", 8_749n, { needed, available: "0.000008749" }, "."],
    ["the balance is negative", -1_500_000_000n, { needed, available: "-1.5" }, "."],
  ]
  test.each(rows)("%s", (_, available_nano, fields, end) => {
    const error = moneyRefusal(quoted, model, { outcome: "insufficient_balance", available_nano })
    expect(error).toMatchObject({ code: "insufficient_balance", status: 402 })
    expect(error.detail.fields).toEqual({ ...fields })
    expect(error.message).toStartWith(`This call needs a hold of ${needed} USD, but only `)
    expect(error.message).toEndWith(` USD is available. Add credit${end}`)
  })

  test.each([
    ["free output", { ...price, output_pico: 0n }, 1n],
    ["a free model, which still holds 1 nano-USD", priceOf(0n, 0n, 0n), 0n],
  ])("%s: no max_tokens would help", (_, price, available_nano) => {
    const free = aModel({ price })
    expect(
      moneyRefusal(quote(chat(), free), free, { outcome: "insufficient_balance", available_nano }).detail
        .fields,
    ).not.toHaveProperty("max_tokens")
  })
})
