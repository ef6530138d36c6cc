import { describe, expect, test } from "bun:test"
import { shownBody } from "../../src/meter/cost.ts"
import { chat } from "../../src/operations/chat.ts"
import { everyCut } from "./cuts.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** Where the usages of an answer stand that comes in these chunks. */
function usagesIn(chunks: readonly Uint8Array[]) {
  const large = chat.json.openLarge()
  for (const chunk of chunks) large.take(chunk)
  return large.usages
}

describe("D49 the cost in a JSON answer", () => {
  test.each<[string, string, bigint, string]>([
    ["behind the tokens", '{"usage":{"a":1},"z":-0}', 310_000n, '{"usage":{"a":1,"cost":0.00031},"z":-0}'],
    ["nothing", '{"usage":{"a":1}}', 0n, '{"usage":{"a":1,"cost":0}}'],
    ["a fortune", '{"usage":{}}', 12_345_678_901_234_567n, '{"usage":{"cost":12345678.901234567}}'],
    [
      "in place of the provider's own",
      '{"usage":{"cost":9,"a":1}}',
      5n,
      '{"usage":{"cost":0.000000005,"a":1}}',
    ],
    [
      "at the top level, where the usage of Moonshot is not",
      '{"choices":[{"usage":{"a":1}}]}',
      5n,
      '{"choices":[{"usage":{"a":1}}],"usage":{"a":1,"cost":0.000000005}}',
    ],
    [
      "in the usage that counts",
      '{"usage":1,"usage":{"a":1}}',
      5n,
      '{"usage":1,"usage":{"a":1,"cost":0.000000005}}',
    ],
    [
      "all else byte for byte",
      '\uFEFF { "n" : 1e400, "seed":12345678901234567890,\n"usage" : {"a" :1 } ,"s":"é\\u00e9" }\n',
      5n,
      '\uFEFF { "n" : 1e400, "seed":12345678901234567890,\n"usage" : {"a" :1 ,"cost":0.000000005} ,"s":"é\\u00e9" }\n',
    ],
  ])("%s", (_, body, charge_nano, expected) => {
    const bytes = encoder.encode(body)
    expect(decoder.decode(shownBody(bytes, true, charge_nano))).toBe(expected)
    const usages = usagesIn([bytes])
    // Of a large answer only the usage at the top is read.
    if (usages.some(({ is_top }) => is_top))
      expect(decoder.decode(shownBody(bytes, true, charge_nano, usages))).toBe(expected)
  })

  test("D41 the cost of a large answer replaces the provider's own, and a choice's is removed", () => {
    const bytes = encoder.encode('{"choices":[{"usage":{"cost":9}}],"usage":{"a":1,"cost":9}}')
    const shown = shownBody(bytes, false, 5n, usagesIn([bytes]))
    expect(decoder.decode(shown)).toBe('{"choices":[{"usage":{}}],"usage":{"a":1,"cost":0.000000005}}')
  })
})

describe("D24 the provider's own cost in a JSON answer", () => {
  test.each<[string, string, string]>([
    ["OpenRouter", '{"usage":{"a":1,"cost":9,"is_byok":false,"cost_details":{"b":1}}}', '{"usage":{"a":1}}'],
    ["DeepInfra", '{"usage":{"a":1, "estimated_cost" : 9 , "b":2}}', '{"usage":{"a":1 , "b":2}}'],
    ["a choice", '{"choices":[{"usage":{"cost":1}},{}]}', '{"choices":[{"usage":{}},{}]}'],
    ["twice", '{"usage":{"cost":1,"cost":2,"a":1,"cost":3}}', '{"usage":{"a":1}}'],
    ["x_groq", '{"x_groq":{"id":"a","usage":{"cost":1}}}', '{"x_groq":{"id":"a","usage":{}}}'],
    [
      "elsewhere it is a word",
      '{"cost":1,"choices":[{"message":{"cost":2}}]}',
      '{"cost":1,"choices":[{"message":{"cost":2}}]}',
    ],
    [
      "not an object",
      '{"usage":[{"cost":1}],"choices":{"usage":{"cost":1}}}',
      '{"usage":[{"cost":1}],"choices":{"usage":{"cost":1}}}',
    ],
    [
      "byte for byte",
      '\uFEFF {"n":1e400,"usage" : { "cost":1 , "a":0.10} }\n',
      '\uFEFF {"n":1e400,"usage" : { "a":0.10} }\n',
    ],
  ])("%s", (_, body, expected) => {
    const bytes = encoder.encode(body)
    expect(decoder.decode(shownBody(bytes, false, null))).toBe(expected)
    expect(shownBody(bytes, true, null)).toBe(bytes)
    for (const chunks of everyCut(bytes))
      expect(decoder.decode(shownBody(bytes, false, null, usagesIn(chunks)))).toBe(expected)
  })

  test("an answer without one is the same bytes", () => {
    const bytes = encoder.encode('{"choices":[{"message":{"content":"what it costs"}}],"usage":{"a":1}}')
    expect(shownBody(bytes, false, null)).toBe(bytes)
  })

  test.each([
    ['{"usage":{"cost":1},oops:1}', '{"usage":{},oops:1}'],
    [
      '{"usage":{"cost":1,oops},"x_groq":{"usage":{"cost":1}}}',
      '{"usage":{"cost":1,oops},"x_groq":{"usage":{}}}',
    ],
  ])("a large answer that is no JSON in its details: %s", (body, expected) => {
    const bytes = encoder.encode(body)
    expect(decoder.decode(shownBody(bytes, false, null, usagesIn([bytes])))).toBe(expected)
  })
})
