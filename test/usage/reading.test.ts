import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ANY_USAGE, readUsage } from "../../src/usage/reading.ts"
import type { Note } from "../../src/wire/call.ts"
import { MAX_TOKENS } from "../../src/wire/usage.ts"

/** As it comes off the wire: JSON text, so that `1e400` and `-0` are what a provider can really send. */
const parsed = (json: string): unknown => JSON.parse(json)

const NINE = '"prompt_tokens":9,"completion_tokens":2'

describe("D1 valid usage", () => {
  const rows: [string, string, tokens?: [prompt: number, completion: number]][] = [
    ["plain", `{${NINE}}`],
    ["D2 zero is a number", '{"prompt_tokens":0,"completion_tokens":0}', [0, 0]],
    ["D2 no completion", '{"prompt_tokens":9,"completion_tokens":0}', [9, 0]],
    ["no prompt", '{"prompt_tokens":0,"completion_tokens":2}', [0, 2]],
    [
      "the most there may be",
      '{"prompt_tokens":100000000,"completion_tokens":100000000}',
      [MAX_TOKENS, MAX_TOKENS],
    ],
    ["a whole number in another spelling", '{"prompt_tokens":9.0,"completion_tokens":2e0}'],
    ["D3 a total that does not add up", `{${NINE},"total_tokens":-5}`],
    [
      "D3 details that nothing is charged by",
      `{${NINE},"completion_tokens_details":{"accepted_prediction_tokens":99}}`,
    ],
    [
      "D60 details of nothing",
      `{${NINE},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":null}}`,
    ],
    ["a key named __proto__", `{"__proto__":{},${NINE}}`],
    ["a duplicated key: the last wins", `{"prompt_tokens":1,${NINE}}`],
  ]
  test.each(rows)("%s", (_, json, [prompt_tokens, completion_tokens] = [9, 2]) => {
    const usage = { prompt_tokens, cached_tokens: 0, completion_tokens }
    expect(readUsage(parsed(json))).toEqual({ state: "valid", usage, notes: [] })
  })
})

describe("D1 missing usage", () => {
  test("absent", () => expect(readUsage(undefined)).toEqual({ state: "missing" }))
  test("D1 more than the request can have caused", () => {
    const limits = { prompt_tokens: 9, completion_tokens: 2 }
    const state = (prompt_tokens: number, completion_tokens: number) =>
      readUsage({ prompt_tokens, completion_tokens }, { ...ANY_USAGE, limits })
    const usage = { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 2 }
    expect(state(9, 2)).toEqual({ state: "valid", usage, notes: [] })
    for (const reading of [state(10, 2), state(9, 3)])
      expect(reading).toEqual({ state: "valid", usage, notes: ["usage_implausible"] })
  })
  test("null", () => expect(readUsage(null)).toEqual({ state: "missing" }))
})

describe("D1 invalid usage: nothing is coerced", () => {
  const notCounts = [
    ...'"9" 9.5 -1 -0.5 true false null [] [9] {} "" 1e400 -1e400 9007199254740992'.split(" "),
    ..."9007199254740991 100000001 1e9 0.1".split(" "),
  ]
  test.each(notCounts.map((json) => [json]))("a count of %s", (json) => {
    expect(readUsage(parsed(`{"prompt_tokens":${json},"completion_tokens":2}`))).toEqual({ state: "invalid" })
    expect(readUsage(parsed(`{"prompt_tokens":9,"completion_tokens":${json}}`))).toEqual({ state: "invalid" })
  })

  const notUsage = [
    "{}",
    '{"prompt_tokens":9}',
    '{"completion_tokens":2}',
    '{"total_tokens":11}',
    '{"Prompt_tokens":9,"completion_tokens":2}',
    `{"__proto__":{${NINE}}}`,
    `{"usage":{${NINE}}}`,
    `[{${NINE}}]`,
    ...'[] 0 11 false true ""'.split(" "),
    '"{\\"prompt_tokens\\":9,\\"completion_tokens\\":2}"',
  ]
  test.each(notUsage.map((json) => [json]))("a usage of %s", (json) => {
    expect(readUsage(parsed(json))).toEqual({ state: "invalid" })
  })
})

describe("D3 cached tokens of a prompt of 10", () => {
  const rows: [string, string | null, number, Note[]][] = [
    ["some", '{"cached_tokens":4}', 4, []],
    ["none", '{"cached_tokens":0}', 0, []],
    ["all", '{"cached_tokens":10}', 10, []],
    ["absent details", null, 0, []],
    ["null details", "null", 0, []],
    ["empty details", "{}", 0, []],
    ["null", '{"cached_tokens":null}', 0, []],
    ["other details", '{"text_tokens":3}', 0, []],
    ["more than the prompt", '{"cached_tokens":11}', 10, ["cached_clamped"]],
    ["far more than the prompt", '{"cached_tokens":9007199254740991}', 10, ["cached_clamped"]],
    ["no safe integer", '{"cached_tokens":9007199254740992}', 0, ["cached_malformed"]],
    ["a string", '{"cached_tokens":"4"}', 0, ["cached_malformed"]],
    ["a fraction", '{"cached_tokens":4.5}', 0, ["cached_malformed"]],
    ["negative", '{"cached_tokens":-4}', 0, ["cached_malformed"]],
    ["endless", '{"cached_tokens":1e400}', 0, ["cached_malformed"]],
    ["a boolean", '{"cached_tokens":true}', 0, ["cached_malformed"]],
    ["a list", '{"cached_tokens":[4]}', 0, ["cached_malformed"]],
    ["an object", '{"cached_tokens":{}}', 0, ["cached_malformed"]],
    ["details that are a number", "4", 0, ["cached_malformed"]],
    ["details that are a string", '"4"', 0, ["cached_malformed"]],
    ["details that are a list", "[4]", 0, ["cached_malformed"]],
    ["details that are a boolean", "true", 0, ["cached_malformed"]],
  ]
  test.each(rows)("%s", (_, details, cached_tokens, notes) => {
    const field = details === null ? "" : `,"prompt_tokens_details":${details}`
    expect(readUsage(parsed(`{"prompt_tokens":10,"completion_tokens":2${field}}`))).toEqual({
      state: "valid",
      usage: { prompt_tokens: 10, cached_tokens, completion_tokens: 2 },
      notes,
    })
  })
})

test("property: any JSON value is read, and what is valid can be priced", () => {
  const count = fc.oneof(fc.nat(), fc.double(), fc.jsonValue(), fc.constant(undefined))
  const details = fc.oneof(fc.jsonValue(), fc.record({ cached_tokens: count }, { requiredKeys: [] }))
  const usage = fc.record(
    { prompt_tokens: count, completion_tokens: count, prompt_tokens_details: details },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.oneof(usage, fc.jsonValue()), (value) => {
      const reading = readUsage(value)
      if (reading.state !== "valid") return
      const { prompt_tokens, cached_tokens, completion_tokens } = reading.usage
      for (const tokens of [prompt_tokens, cached_tokens, completion_tokens]) {
        expect(Number.isInteger(tokens) && tokens >= 0 && tokens <= MAX_TOKENS).toBe(true)
      }
      expect(cached_tokens).toBeLessThanOrEqual(prompt_tokens)
    }),
    { numRuns: 500 },
  )
})

describe("D60 buckets, under the names of several providers", () => {
  const rows: [string, object, object][] = [
    ["reasoning", { completion_tokens_details: { reasoning_tokens: 3 } }, { reasoning: 3 }],
    [
      "audio and images",
      {
        prompt_tokens_details: { audio_tokens: 4, image_tokens: 5 },
        completion_tokens_details: { audio_tokens: 6 },
      },
      { audio_input: 4, audio_output: 6, image_input: 5 },
    ],
    [
      "cache writes by another name",
      { prompt_tokens_details: { cache_creation_tokens: 7 } },
      { cache_write: 7 },
    ],
    [
      "those of an hour, which the sum includes",
      { cache_creation_input_tokens: 9, cache_creation: { ephemeral_1h_input_tokens: 4 } },
      { cache_write: 5, cache_write_1h: 4 },
    ],

    ["searches", { server_tool_use: { web_search_requests: 2 } }, { web_search: 2 }],
    ["searches by another name", { num_search_queries: 2 }, { web_search: 2 }],
    ["sources", { num_sources_used: 2 }, { web_search: 2 }],
    ["no searches, counted", { num_search_queries: 0 }, { web_search: 0 }],
  ]
  test.each(rows)("%s", (_, fields, buckets) => {
    const usage = { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 9, buckets }
    const said = { prompt_tokens: 9, completion_tokens: 9, ...fields }
    expect(readUsage(said)).toEqual({ state: "valid", usage, notes: [] })
  })

  test.each(['"3"', "-3", "1.5", "{}", "1e400"])(
    "%s is no count, is noted, and voids nothing else",
    (text) => {
      const said = parsed(
        `{"prompt_tokens":9,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":${text},"audio_tokens":2}}`,
      )
      expect(readUsage(said)).toEqual({
        state: "valid",
        usage: { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 9, buckets: { audio_output: 2 } },
        notes: ["details_malformed"],
      })
    },
  )
})
