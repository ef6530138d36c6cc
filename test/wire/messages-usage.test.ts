import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { mergeUsage, readMessagesUsage } from "../../src/wire/messages-usage.ts"
import { type JsonObject, MAX_TOKENS, type UsageReading } from "../../src/wire/usage.ts"

const plain = { input_tokens: 10, output_tokens: 5 }

describe("D64 input is what was read anew, from a cache, and written to one", () => {
  const rows: [what: string, usage: JsonObject, charged: JsonObject, notes: string[]][] = [
    ["neither read nor written", plain, { prompt: 10, cached: 0, out: 5 }, []],
    [
      "null where there was nothing",
      { ...plain, cache_read_input_tokens: null, cache_creation: null, output_tokens_details: null },
      { prompt: 10, cached: 0, out: 5 },
      [],
    ],
    [
      "read from a cache",
      { ...plain, cache_read_input_tokens: 100 },
      { prompt: 110, cached: 100, out: 5 },
      [],
    ],
    [
      "written, without a split",
      { ...plain, cache_creation_input_tokens: 30 },
      { prompt: 40, cached: 0, out: 5, cache_write: 30 },
      [],
    ],
    [
      "written for both times",
      {
        ...plain,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 30,
        cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
      },
      { prompt: 140, cached: 100, out: 5, cache_write: 10, cache_write_1h: 20 },
      [],
    ],
    [
      "more written than the split says: the rest for five minutes",
      {
        ...plain,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
      },
      { prompt: 60, cached: 0, out: 5, cache_write: 30, cache_write_1h: 20 },
      [],
    ],
    [
      "less written than the split says",
      { ...plain, cache_creation_input_tokens: 15, cache_creation: { ephemeral_1h_input_tokens: 20 } },
      { prompt: 25, cached: 0, out: 5, cache_write_1h: 15 },
      ["details_clamped"],
    ],
    [
      "only a split",
      { ...plain, cache_creation: { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 4 } },
      { prompt: 17, cached: 0, out: 5, cache_write: 3, cache_write_1h: 4 },
      [],
    ],
    [
      "malformed reads and writes count as none",
      { ...plain, cache_read_input_tokens: "7", cache_creation_input_tokens: -1 },
      { prompt: 10, cached: 0, out: 5 },
      ["cached_malformed", "details_malformed"],
    ],
    [
      "thinking is part of the output",
      { ...plain, output_tokens_details: { thinking_tokens: 4 } },
      { prompt: 10, cached: 0, out: 5, reasoning: 4 },
      [],
    ],
    [
      "searches",
      { ...plain, server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 } },
      { prompt: 10, cached: 0, out: 5, web_search: 2 },
      [],
    ],
    [
      "a compaction is not in the usage beside it",
      {
        ...plain,
        iterations: [
          {
            type: "compaction",
            input_tokens: 1000,
            output_tokens: 50,
            cache_read_input_tokens: 200,
            cache_creation_input_tokens: 30,
          },
          { type: "message", model: "m", input_tokens: 10, output_tokens: 5 },
        ],
      },
      { prompt: 1240, cached: 200, out: 55, cache_write: 30 },
      [],
    ],
    [
      "another model's part counts as this model's own, and is noted",
      {
        ...plain,
        iterations: [{ type: "advisor_message", model: "larger", input_tokens: 7, output_tokens: 3 }],
      },
      { prompt: 17, cached: 0, out: 8 },
      ["unpriced"],
    ],
    [
      "another model that answered in its place is noted",
      {
        ...plain,
        iterations: [{ type: "fallback_message", model: "other", input_tokens: 10, output_tokens: 5 }],
      },
      { prompt: 10, cached: 0, out: 5 },
      ["unpriced"],
    ],
    [
      "iterations that are none",
      { ...plain, iterations: [3] },
      { prompt: 10, cached: 0, out: 5 },
      ["details_malformed"],
    ],
    [
      "plain ways of serving",
      { ...plain, service_tier: "priority", speed: "standard", inference_geo: "not_available" },
      { prompt: 10, cached: 0, out: 5 },
      [],
    ],
    ["a dearer speed", { ...plain, speed: "fast" }, { prompt: 10, cached: 0, out: 5 }, ["unpriced"]],
    ["a dearer place", { ...plain, inference_geo: "us" }, { prompt: 10, cached: 0, out: 5 }, ["unpriced"]],
  ]
  test.each(rows)("%s", (_, usage, { prompt, cached, out, ...buckets }, notes) => {
    expect(readMessagesUsage(usage)).toEqual({
      state: "valid",
      usage: {
        prompt_tokens: prompt,
        cached_tokens: cached,
        completion_tokens: out,
        buckets: { web_search: 0, ...buckets },
      },
      notes,
    } as ReturnType<typeof readMessagesUsage>)
  })
})

describe("D1 nothing is coerced", () => {
  const rows: [what: string, usage: unknown, state: UsageReading["state"]][] = [
    ["absent", undefined, "missing"],
    ["null", null, "missing"],
    ["a list", [], "invalid"],
    ["no input", { output_tokens: 5 }, "invalid"],
    ["no output", { input_tokens: 5 }, "invalid"],
    ["text", { ...plain, input_tokens: "10" }, "invalid"],
    ["a fraction", { ...plain, output_tokens: 1.5 }, "invalid"],
    ["below zero", { ...plain, output_tokens: -1 }, "invalid"],
    ["too much together", { ...plain, cache_read_input_tokens: MAX_TOKENS }, "invalid"],
    ["more than was asked for", { ...plain, output_tokens: 6 }, "implausible"],
    ["more than was sent", { ...plain, cache_creation_input_tokens: 1 }, "implausible"],
  ]
  const limits = { prompt_tokens: 10, completion_tokens: 5 }
  test.each(rows)("%s", (_, usage, state) => expect(readMessagesUsage(usage, limits).state).toBe(state))
})

describe("D64 the usage at the start of a stream says nothing of its output", () => {
  test("input only", () => {
    const start = { ...plain, output_tokens: 1, server_tool_use: { web_search_requests: 0 } }
    expect(readMessagesUsage(start, undefined, false)).toEqual({
      state: "valid",
      usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 0 },
      notes: [],
    })
    expect(readMessagesUsage({ input_tokens: 10 }, undefined, false).state).toBe("valid")
  })
})

describe("D64 a later field replaces, null and absent change nothing", () => {
  const field = fc.constantFrom("input_tokens", "output_tokens", "cache_read_input_tokens", "iterations")
  const said = fc.dictionary(field, fc.oneof(fc.nat(), fc.constant(null)))
  test("for any two events", () => {
    fc.assert(
      fc.property(said, said, (known, later) => {
        const merged = mergeUsage(known, later)
        for (const name of Object.keys({ ...known, ...later }))
          expect(merged[name]).toEqual(later[name] ?? known[name])
      }),
    )
  })
})
