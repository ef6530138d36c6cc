import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { WHOLE_MESSAGE } from "../../src/meter/messages-reading.ts"
import { count, merged } from "../../src/usage/counted.ts"
import { ANY_USAGE, readUsage } from "../../src/usage/reading.ts"
import { type JsonObject, MAX_TOKENS, type UsageReading } from "../../src/wire/usage.ts"

const plain = { input_tokens: 10, output_tokens: 5 }
const split = (five: number, hour: number) => ({
  cache_creation: { ephemeral_5m_input_tokens: five, ephemeral_1h_input_tokens: hour },
})

describe("D64 input is what was read anew, from a cache, and written to one", () => {
  type Tokens = [prompt: number, cached: number, out: number]
  const rows: [what: string, usage: JsonObject, charged: Tokens, buckets?: object, notes?: string[]][] = [
    ["neither read nor written", {}, [10, 0, 5]],
    [
      "null where there was nothing",
      { cache_read_input_tokens: null, cache_creation: null, output_tokens_details: null },
      [10, 0, 5],
    ],
    ["read from a cache", { cache_read_input_tokens: 100 }, [110, 100, 5]],
    ["written, without a split", { cache_creation_input_tokens: 30 }, [40, 0, 5], { cache_write: 30 }],
    [
      "written for both times",
      { cache_read_input_tokens: 100, cache_creation_input_tokens: 30, ...split(10, 20) },
      [140, 100, 5],
      { cache_write: 10, cache_write_1h: 20 },
    ],
    [
      "more written than the split says: the rest for five minutes",
      { cache_creation_input_tokens: 50, ...split(10, 20) },
      [60, 0, 5],
      { cache_write: 30, cache_write_1h: 20 },
    ],
    [
      "less written than the split says",
      { cache_creation_input_tokens: 15, ...split(0, 20) },
      [25, 0, 5],
      { cache_write_1h: 15 },
      ["details_clamped"],
    ],
    ["only a split", { ...split(3, 4) }, [17, 0, 5], { cache_write: 3, cache_write_1h: 4 }],
    [
      "malformed reads and writes count as none",
      { cache_read_input_tokens: "7", cache_creation_input_tokens: -1 },
      [10, 0, 5],
      {},
      ["cached_malformed", "details_malformed"],
    ],
    [
      "thinking is part of the output",
      { output_tokens_details: { thinking_tokens: 4 } },
      [10, 0, 5],
      { reasoning: 4 },
    ],
    [
      "searches",
      { server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 } },
      [10, 0, 5],
      { web_search: 2 },
    ],
    [
      "a compaction is not in the usage beside it",
      {
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
      [1240, 200, 55],
      { cache_write: 30 },
    ],
    [
      "another model's part counts as this model's own, and is noted",
      { iterations: [{ type: "advisor_message", model: "larger", input_tokens: 7, output_tokens: 3 }] },
      [17, 0, 8],
      {},
      ["unpriced"],
    ],
    [
      "another model that answered in its place is noted",
      { iterations: [{ type: "fallback_message", model: "other", input_tokens: 10, output_tokens: 5 }] },
      [10, 0, 5],
      {},
      ["unpriced"],
    ],
    ["iterations that are none", { iterations: [3] }, [10, 0, 5], {}, ["details_malformed"]],
    [
      "iterations that are no list",
      { iterations: { type: "compaction" } },
      [10, 0, 5],
      {},
      ["details_malformed"],
    ],
    [
      "plain ways of serving",
      { service_tier: "priority", speed: "standard", inference_geo: "not_available" },
      [10, 0, 5],
    ],
    ["a dearer speed", { speed: "fast" }, [10, 0, 5], {}, ["unpriced"]],
    ["a dearer place", { inference_geo: "us" }, [10, 0, 5], {}, ["unpriced"]],
  ]
  test.each(rows)("%s", (_, usage, [prompt, cached, out], buckets = {}, notes = []) => {
    expect(readUsage({ ...plain, ...usage }, ANY_USAGE, WHOLE_MESSAGE)).toEqual({
      state: "valid",
      usage: {
        prompt_tokens: prompt,
        cached_tokens: cached,
        completion_tokens: out,
        buckets: { web_search: 0, ...buckets },
      },
      notes,
    } as UsageReading)
  })
})

describe("D60 writes to a cache for an hour that the request asks for", () => {
  const WRITTEN = { cache_creation_input_tokens: 30 }
  const both = { cache_write: 10, cache_write_1h: 20 }
  test.each<[string, JsonObject, JsonObject]>([
    ["without a split", WRITTEN, { cache_write_1h: 30 }],
    ["the split is null", { ...WRITTEN, cache_creation: null }, { cache_write_1h: 30 }],
    ["the split has both", { ...WRITTEN, ...split(10, 20) }, both],
    ["the split says five minutes", { ...WRITTEN, ...split(30, 0) }, { cache_write: 30 }],
    ["the split says less", { ...WRITTEN, ...split(0, 20) }, both],
    ["under OpenAI's names", { prompt_tokens_details: { cache_write_tokens: 7 } }, { cache_write_1h: 7 }],
    ["nothing written", { cache_creation_input_tokens: 0 }, {}],
  ])("%s", (_, usage, buckets) => {
    const rules = { ...ANY_USAGE, writes_for_an_hour: true }
    expect(readUsage({ ...plain, ...usage }, rules)).toMatchObject({ state: "valid", notes: [] })
    const reading = readUsage({ ...plain, ...usage }, rules)
    expect(reading.state === "valid" ? (reading.usage.buckets ?? {}) : null).toEqual(buckets)
  })
})

describe("D1 nothing is coerced", () => {
  const rows: [what: string, usage: unknown, state: UsageReading["state"]][] = [
    ["no input", { output_tokens: 5 }, "invalid"],
    ["no output", { input_tokens: 5 }, "invalid"],
    ["too much together", { ...plain, cache_read_input_tokens: MAX_TOKENS }, "invalid"],
  ]
  test.each(rows)("%s", (_, usage, state) =>
    expect(readUsage(usage, ANY_USAGE, WHOLE_MESSAGE).state).toBe(state),
  )

  test("more than the request can have caused counts up to the bound", () => {
    const rules = { ...ANY_USAGE, limits: { prompt_tokens: 10, completion_tokens: 5 } }
    for (const more of [
      { output_tokens: 6 },
      { cache_creation_input_tokens: 1 },
      { cache_read_input_tokens: 7 },
    ]) {
      expect(readUsage({ ...plain, ...more }, rules, WHOLE_MESSAGE)).toMatchObject({
        usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 5 },
        notes: ["usage_implausible"],
      })
    }
  })
})

test("D64 the usage at the start of a stream says nothing of its output: input only", () => {
  const start = { ...plain, output_tokens: 1, server_tool_use: { web_search_requests: 0 } }
  expect(readUsage(start, ANY_USAGE, { output: false })).toEqual({
    state: "valid",
    usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 0 },
    notes: [],
  })
  expect(readUsage({ input_tokens: 10 }, ANY_USAGE, { output: false }).state).toBe("valid")
})

describe("D4, D64 a later number replaces, and what is absent, null or 0 erases nothing", () => {
  const tokens = fc.oneof(fc.nat(1000), fc.constant(null))
  const said = fc.record(
    { input_tokens: tokens, output_tokens: tokens, cache_read_input_tokens: tokens },
    { requiredKeys: [] },
  )
  const counted = (usage: JsonObject) => {
    const found = count(usage, ANY_USAGE.reader)
    if (found === null) throw new Error("invalid")
    return found
  }
  const promptOf = ({ input_tokens, cache_read_input_tokens }: JsonObject) =>
    Number(input_tokens ?? 0) + Number(cache_read_input_tokens ?? 0)
  test("for any two events", () => {
    fc.assert(
      fc.property(said, said, (known, later) => {
        const { counts } = merged(counted(known), counted(later))
        const zeros_count = promptOf(later) >= promptOf(known)
        const wanted = (name: keyof typeof known, is_prompt: boolean) => {
          const [before, after] = [known[name] ?? undefined, later[name] ?? undefined]
          return after === undefined || (after === 0 && before !== undefined && !(is_prompt && zeros_count))
            ? before
            : after
        }
        expect(counts.prompt).toBe(wanted("input_tokens", true))
        expect(counts.cached).toBe(wanted("cache_read_input_tokens", true))
        expect(counts.output).toBe(wanted("output_tokens", false))
      }),
    )
  })
})
