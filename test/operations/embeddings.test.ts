import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { largestMaxTokens } from "../../src/admission/quote.ts"
import { readAnswer, readJson } from "../../src/meter/json-reading.ts"
import { ceilToNano, type Price } from "../../src/money.ts"
import { embeddings } from "../../src/operations/embeddings.ts"
import { decide } from "../../src/settlement/decide.ts"
import { priceVerdict } from "../../src/settlement/price.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import { parseEmbeddings } from "../../src/wire/requests.ts"
import { aModel, quoteOf } from "../admission/model.ts"

const price: Price = { input_pico: 20_000n, cached_input_pico: 20_000n, output_pico: 0n, per_call_nano: 0n }
const model = aModel({ operations: ["embeddings"], price, max_output_tokens: 0, hold_output_tokens: 0 })
const asked = (fields: object) => parseEmbeddings({ model: "m", input: "hello", ...fields })
const quoted = (fields: object, of = model) => quoteOf(embeddings, asked(fields), of)

describe("D67 the bound of an input", () => {
  const rows: [string, object, number][] = [
    ["a text: the bytes of its JSON", { input: "hello" }, 7],
    ["an emoji", { input: "😀" }, 6],
    ["texts", { input: ["a", "b"] }, 9],
    ["tokens: their count", { input: [100_000, 100_001, 7] }, 3],
    ["lists of tokens", { input: [[100_000], [100_001, 7]] }, 3],
    [
      "fields that are no input",
      { dimensions: 256, encoding_format: "base64", user: "somebody", stream: null },
      7,
    ],
    ["what may be an instruction", { instruction: "retrieve" }, 7 + 10],
    ["the gateway's own field", { usage: { include: true } }, 7],
  ]
  test.each(rows)("%s", (_, fields, tokens) => {
    const { prompt_tokens_bound, output_tokens_bound, amount_nano, limits } = quoted(fields)
    expect({ prompt_tokens_bound, output_tokens_bound }).toEqual({
      prompt_tokens_bound: tokens,
      output_tokens_bound: 0,
    })
    expect(amount_nano).toBe(ceilToNano(BigInt(tokens) * price.input_pico))
    expect(limits.completion_tokens).toBe(0)
  })

  test("a model that makes text too holds no output for embeddings", () => {
    const both = aModel({ operations: ["chat", "embeddings"] })
    expect(quoted({}, both)).toMatchObject({ output_tokens_bound: 0, amount_nano: 7n * 250n })
    expect(largestMaxTokens(quoted({}, both), both, 1_000_000_000n)).toBeNull()
  })

  test("the context of the model is the most", () => {
    const small = aModel({ ...model, context_tokens: 2 })
    expect(quoted({ input: [1, 2, 3] }, small).prompt_tokens_bound).toBe(2)
  })
})

const bytesOf = (text: string) => new TextEncoder().encode(text)
const list = (fields: object) => ({ object: "list", data: [{ index: 0, embedding: [0.5, -1] }], ...fields })

/** What an answer is charged, in tokens, of an input of 40 bytes. */
function charged(body: object, hold_nano = 1_000_000n) {
  const evidence = readJson(embeddings.json, bytesOf(JSON.stringify(body)), "completed", ANY_USAGE)
  const verdict = decide(evidence, {
    bytes_per_token: 4,
    prompt_tokens_estimate: 10,
    estimate_prompt: "never",
    estimate_output: embeddings.generates,
  })
  const { charge_nano, usage } = priceVerdict(verdict, price, hold_nano)
  return { charge_nano, usage, failure: verdict.failure, basis: "basis" in verdict ? verdict.basis : null }
}

describe("D67 what an answer costs", () => {
  const ESTIMATE = { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 0 }
  const used = (prompt_tokens: number) => ({ prompt_tokens, cached_tokens: 0, completion_tokens: 0 })
  const rows: [string, object, object][] = [
    [
      "usage",
      list({ usage: { prompt_tokens: 8, total_tokens: 8 } }),
      { usage: used(8), basis: "usage", failure: null },
    ],
    [
      "a provider that says only the total",
      list({ usage: { total_tokens: 8 } }),
      { usage: used(8), basis: "usage", failure: null },
    ],
    [
      "output that some providers count as well is none",
      list({ usage: { prompt_tokens: 8, completion_tokens: 5, total_tokens: 13 } }),
      { usage: used(8), basis: "usage", failure: null },
    ],
    [
      "usage beside an error",
      { error: { message: "late" }, usage: { prompt_tokens: 8 } },
      { usage: used(8), basis: "usage" },
    ],
    ["no usage", list({}), { usage: ESTIMATE, basis: "estimate", failure: "usage_missing" }],
    [
      "usage of 0",
      list({ usage: { prompt_tokens: 0, total_tokens: 0 } }),
      { usage: ESTIMATE, failure: "usage_invalid" },
    ],
    [
      "usage that is none",
      list({ usage: { prompt_tokens: "8" } }),
      { usage: ESTIMATE, failure: "usage_invalid" },
    ],
    ["an object that says nothing (rule 2)", {}, { usage: ESTIMATE, failure: "usage_missing" }],
    ["an error", { error: { message: "no" } }, { usage: null, charge_nano: 0n, failure: "upstream_error" }],
    ["an error beside no vector", list({ error: {}, data: [] }), { usage: null, failure: "upstream_error" }],
    ["an error beside a vector", list({ error: {} }), { usage: ESTIMATE, failure: "usage_missing" }],
  ]
  test.each(rows)("%s", (_, body, expected) => {
    expect(charged(body)).toMatchObject(expected)
  })

  test("an estimate stays within the hold (D6), and is at least one token", () => {
    expect(charged(list({}), 100n).usage).toMatchObject({ prompt_tokens: 5 })
    const evidence = readJson(embeddings.json, bytesOf("{}"), "completed")
    const terms = { bytes_per_token: 4, prompt_tokens_estimate: 0, estimate_prompt: "never" } as const
    expect(decide(evidence, { ...terms, estimate_output: false })).toMatchObject({
      estimated: { prompt_tokens: 1, completion_tokens: 0 },
    })
  })

  test("tokens that the input counts out are not estimated again", () => {
    expect(quoted({ input: [[1, 2], [3]] }).estimate_bytes / model.bytes_per_token).toBe(3)
  })
})

test("D5 an answer that is not kept says the same as one that is, wherever it is cut", async () => {
  const number = fc.double({ noNaN: true, noDefaultInfinity: true })
  const vector = fc.oneof(fc.array(number, { maxLength: 8 }), fc.base64String({ maxLength: 40 }))
  const usage = fc.oneof(
    fc.record({ prompt_tokens: fc.integer({ min: -1, max: 9 }), total_tokens: fc.nat(9) }),
    fc.record({ total_tokens: fc.nat(9) }),
    fc.constant(null),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(vector), usage, fc.nat(400), async (vectors, usage, at) => {
      const bytes = bytesOf(JSON.stringify({ data: vectors.map((embedding) => ({ embedding })), usage }))
      const large = embeddings.json.openLarge()
      large.take(bytes.subarray(0, at))
      large.take(bytes.subarray(at))
      large.stop()
      const kept = readJson(embeddings.json, bytes, "completed")
      const read = await readAnswer(embeddings.json, { bytes, cut: false, large }, "completed", ANY_USAGE)
      expect(read).toEqual({ ...kept, too_large: true })
    }),
  )
})

test("property: no usage within the bound costs more than the hold", () => {
  const input = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.array(fc.string({ unit: "grapheme" }), { minLength: 1 }),
    fc.array(fc.nat(200_000), { minLength: 1 }),
  )
  fc.assert(
    fc.property(input, fc.bigInt(0n, 10n ** 9n), fc.nat(), (input, input_pico, used) => {
      const priced = aModel({ ...model, price: { ...price, input_pico, cached_input_pico: input_pico } })
      const { amount_nano, prompt_tokens_bound } = quoted({ input }, priced)
      const tokens = used % (prompt_tokens_bound + 1)
      expect(ceilToNano(BigInt(tokens) * input_pico)).toBeLessThanOrEqual(amount_nano)
    }),
  )
})
