import { describe, expect, test } from "bun:test"
import { count } from "../../src/usage/counted.ts"
import { ANY_USAGE, readingIn, readUsage, StreamUsage, WITH_OUTPUT } from "../../src/usage/reading.ts"
import type { JsonObject, Usage } from "../../src/wire/usage.ts"
import { chatSums, sums } from "./sums.ts"

/**
 * D87: what is special about the words of a provider. test/honest/property.test.ts compares the charges of calls in the words of
 * all providers with their bills.
 */

interface Expectation extends Partial<Usage> {
  readonly notes?: readonly string[]
  readonly unread?: readonly string[]
  readonly cost_nano?: bigint
  readonly unexplained?: number
}

function expectRead(usage: JsonObject, expected: Expectation): void {
  const reading = readUsage(usage, ANY_USAGE)
  const { notes = [], unread = [], cost_nano = null, unexplained = 0, ...tokens } = expected
  expect(reading).toMatchObject({ state: "valid", usage: { cached_tokens: 0, ...tokens }, notes })
  if (reading.state !== "valid") return
  expect(reading.usage.buckets ?? {}).toEqual(tokens.buckets ?? {})
  const { aside = { unread: [], unexplained_tokens: 0, provider_cost_nano: null } } = reading
  expect(aside).toEqual({
    unread: [...unread],
    unexplained_tokens: unexplained,
    provider_cost_nano: cost_nano,
  })
}

function tokens(
  prompt_tokens: number,
  cached_tokens: number,
  completion_tokens: number,
  rest: Expectation = {},
) {
  return { prompt_tokens, cached_tokens, completion_tokens, ...rest }
}

describe("D87 the words of providers", () => {
  const rows: [provider: string, usage: JsonObject, expected: Expectation][] = [
    [
      "xai chat: reasoning is beside the output, and the ticks agree",
      {
        ...chatSums(12, 2, 354),
        prompt_tokens_details: { text_tokens: 12, audio_tokens: 0, image_tokens: 0, cached_tokens: 11 },
        completion_tokens_details: { reasoning_tokens: 340, audio_tokens: 0 },
        num_sources_used: 0,
        cost_in_usd_ticks: 1_721_250,
      },
      tokens(12, 11, 342, { buckets: { reasoning: 340, web_search: 0 }, cost_nano: 172_125n }),
    ],
    [
      "xai responses: reasoning is inside, tools are counted by their names",
      {
        ...sums(216, 863, 1079),
        output_tokens_details: { reasoning_tokens: 237 },
        num_server_side_tools_used: 5,
        server_side_tool_usage_details: {
          web_search_calls: 2,
          x_search_calls: 1,
          code_interpreter_calls: 1,
          mcp_calls: 1,
          x_posts_fetched: 53,
        },
        context_details: { input_tokens: 0 },
      },
      tokens(216, 0, 863, {
        buckets: { reasoning: 237, web_search: 2 },
        tool_runs: { x_search: 1, code_interpreter: 1, x_posts: 53 },
      }),
    ],
    [
      "litellm: searches of any provider are among the details of the prompt",
      {
        ...chatSums(12, 8, 20),
        prompt_tokens_details: { text_tokens: 12, web_search_requests: 3 },
        completion_tokens_details: { accepted_prediction_tokens: 7, rejected_prediction_tokens: 9 },
      },
      { prompt_tokens: 12, completion_tokens: 8, buckets: { web_search: 3 } },
    ],
    [
      "mistral: seconds of audio are named",
      { ...chatSums(171, 9, 180), prompt_audio_seconds: 30 },
      tokens(171, 0, 9, { unread: ["prompt_audio_seconds"], notes: ["usage_unread"] }),
    ],
    [
      "openrouter",
      {
        ...chatSums(194, 2, 196),
        is_byok: false,
        cost: 0.0160614,
        cost_details: { upstream_inference_cost: 0.0001764 },
        server_tool_use_details: { web_search_requests: 1, tool_calls_executed: 1 },
      },
      tokens(194, 0, 2, { buckets: { web_search: 1 }, cost_nano: 16_061_400n }),
    ],
    [
      "perplexity: an object of costs, its parts known, its citations named",
      {
        ...chatSums(33, 7163, 7196),
        reasoning_tokens: 100,
        citation_tokens: 20_016,
        num_search_queries: 18,
        search_context_size: "low",
        cost: { input_tokens_cost: 0.001, search_queries_cost: 0.09, total_cost: 0.0955 },
      },
      tokens(33, 0, 7163, {
        buckets: { reasoning: 100, web_search: 18 },
        unread: ["citation_tokens"],
        notes: ["usage_unread"],
        cost_nano: 95_500_000n,
      }),
    ],
    [
      "deepinfra",
      { ...chatSums(10, 5, 15), estimated_cost: 0.00000225 },
      tokens(10, 0, 5, { cost_nano: 2_250n }),
    ],
  ]
  test.each(rows)("%s", (_, usage, expected) => expectRead(usage, expected))
})

describe("D87 the total decides what is inside and what is beside", () => {
  const details = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } })
  const rows: [what: string, usage: JsonObject, expected: Expectation][] = [
    [
      "reasoning beside",
      { ...chatSums(32, 9, 14_041), ...details(14_000) },
      tokens(32, 0, 14_009, { buckets: { reasoning: 14_000 } }),
    ],
    [
      "reasoning inside",
      { ...chatSums(32, 14_009, 14_041), ...details(14_000) },
      tokens(32, 0, 14_009, { buckets: { reasoning: 14_000 } }),
    ],
    [
      "no total: inside",
      { prompt_tokens: 32, completion_tokens: 100, ...details(60) },
      tokens(32, 0, 100, { buckets: { reasoning: 60 } }),
    ],
    ["a total of 0 is none", chatSums(32, 100, 0), tokens(32, 0, 100)],
    [
      "cached beside",
      { ...chatSums(8, 20, 18_929), prompt_tokens_details: { cached_tokens: 18_901 } },
      tokens(18_909, 18_901, 20),
    ],
    [
      "cached and reasoning beside",
      { ...chatSums(8, 20, 133), cached_tokens: 100, ...details(5) },
      tokens(108, 100, 25, { buckets: { reasoning: 5 } }),
    ],
    [
      "Anthropic's words inside",
      { ...sums(1000, 10, 1010), cache_read_input_tokens: 800 },
      tokens(1000, 800, 10),
    ],
    [
      "no total, and Anthropic's name for one of two cache counts: beside",
      { input_tokens: 6, output_tokens: 566, cache_creation_input_tokens: 20, num_cached_tokens: 15 },
      tokens(41, 15, 566, { buckets: { cache_write: 20 } }),
    ],
    [
      "two objects of details: the first of the table, in either order",
      {
        prompt_tokens: 2000,
        completion_tokens: 5,
        input_tokens_details: { audio_tokens: 1792 },
        prompt_tokens_details: { audio_tokens: 11 },
      },
      tokens(2000, 0, 5, { buckets: { audio_input: 11 } }),
    ],
    [
      "more than all parts",
      chatSums(758, 102, 1725),
      tokens(758, 0, 102, { unexplained: 865, notes: ["total_unexplained"] }),
    ],
    [
      "less than all parts",
      chatSums(758, 102, 800),
      tokens(758, 0, 102, { unexplained: -60, notes: ["total_unexplained"] }),
    ],
    [
      "no output count",
      { prompt_tokens: 80_004, total_tokens: 80_005, ...details(1) },
      tokens(80_004, 0, 1, { buckets: { reasoning: 1 } }),
    ],
  ]
  test.each(rows)("%s", (_, usage, expected) => expectRead(usage, expected))

  test("no output count and a total below the prompt, or none, is invalid (D1)", () => {
    expect(readUsage({ prompt_tokens: 9, total_tokens: 8 })).toEqual({ state: "invalid" })
    expect(readUsage({ prompt_tokens: 9 })).toEqual({ state: "invalid" })
    expect(readUsage({ prompt_tokens: 9, total_tokens: 9 })).toMatchObject({ output_unknown: true })
  })
})

describe("D87 places of the usage object", () => {
  const usage = { ...chatSums(1000, 10, 1010), cached_tokens: 800 }
  const read = {
    state: "valid",
    usage: { prompt_tokens: 1000, cached_tokens: 800, completion_tokens: 10 },
    notes: [],
  }
  const rows: [where: string, payload: JsonObject][] = [
    ["usage", { usage, x_groq: { usage: { prompt_tokens: 1, completion_tokens: 1 } } }],
    ["the last choice", { usage: null, choices: [{ index: 0 }, { index: 1, usage }] }],
    ["x_groq", { x_groq: { usage } }],
    ["the next place after an invalid one", { usage: { prompt_tokens: "1" }, x_groq: { usage } }],
  ]
  test.each(rows)("%s", (_, payload) => expect(readingIn(payload, ANY_USAGE)).toMatchObject(read))
})

describe("D87 what nobody reads is named, and bounded", () => {
  test("at any depth, in lists too, positive numbers only", () => {
    const usage = {
      prompt_tokens: 1,
      completion_tokens: 1,
      odd_vendor_units: { gpu_seconds: 7, none: 0, less: -1, text: "9", deep: [{ pages: 2 }, { pages: 3 }] },
      ["x".repeat(100)]: 1,
    }
    const unread = ["odd_vendor_units.gpu_seconds", "odd_vendor_units.deep[].pages", "x".repeat(64)]
    expectRead(usage, { prompt_tokens: 1, completion_tokens: 1, unread, notes: ["usage_unread"] })
  })

  test("D90 a cost that no call can have, which sums could not hold", () => {
    const costing = (cost: number) => ({ ...chatSums(10, 5, 15), cost })
    const tokens = { prompt_tokens: 10, completion_tokens: 5 }
    expectRead(costing(10_000), { ...tokens, cost_nano: 10_000_000_000_000n })
    for (const cost of [10_000.000000001, 1e10, 1e300])
      expectRead(costing(cost), { ...tokens, unread: ["cost"], notes: ["usage_unread"] })
  })

  test("at most 8 names, however many numbers there are", () => {
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`n${at}`, at]))
    const reading = readUsage({ prompt_tokens: 1, completion_tokens: 1, many })
    expect(reading.state === "valid" && reading.aside?.unread).toHaveLength(8)
  })

  test("at most 8 names of a stream, however many events bring new ones", () => {
    const usage = new StreamUsage(ANY_USAGE)
    for (let at = 0; at < 10_000; at++) {
      const counted = count({ prompt_tokens: 1, completion_tokens: 1, [`n${at}`]: 1 }, ANY_USAGE.reader)
      usage.take(counted ?? "invalid", WITH_OUTPUT, false)
    }
    const { reading } = usage
    expect(reading.state === "valid" && reading.aside?.unread).toHaveLength(8)
  })

  test("a usage that is nested 100,000 levels deep", () => {
    const deep = JSON.parse(
      `{"prompt_tokens":1,"completion_tokens":1,"a":${'{"a":'.repeat(1000)}1${"}".repeat(1000)}}`,
    )
    expect(readUsage(deep).state).toBe("valid")
  })
})
