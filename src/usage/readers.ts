/**
 * The readers of usage (D87): for each count the places where it may stand, in the words of all vendors. No two vendors mean
 * different things by one name, so there is one table. Data only; `counted.ts` reads by it. Sources: docs/billing.md.
 */

/** In a path, `in` and `out` stand for each of these names. */
export const DETAILS: Readonly<Record<string, readonly string[]>> = {
  in: ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"],
  out: ["completion_tokens_details", "output_tokens_details"],
}

/** The places of each count, in order: the first with a positive number decides; if there is none, any with 0. */
export const COUNTS = {
  prompt: "prompt_tokens input_tokens",
  output: "completion_tokens output_tokens",
  total: "total_tokens",
  // All that follow are a part of another count, or have another unit.
  cached: `in.cached_tokens in.cache_read_input_tokens cache_read_input_tokens prompt_cache_hit_tokens
    cached_tokens num_cached_tokens`,
  cached_audio: "in.cached_tokens_details.audio_tokens",
  write: `cache_creation_input_tokens in.cache_write_tokens in.cache_creation_tokens
    in.cache_creation_input_tokens`,
  write_5m: `cache_creation.ephemeral_5m_input_tokens in.cache_creation.ephemeral_5m_input_tokens
    in.cache_creation_token_details.ephemeral_5m_input_tokens`,
  write_1h: `cache_creation.ephemeral_1h_input_tokens in.cache_creation.ephemeral_1h_input_tokens
    in.cache_creation_token_details.ephemeral_1h_input_tokens`,
  audio_input: "in.audio_tokens",
  image_input: "in.image_tokens",
  reasoning: "out.reasoning_tokens out.thinking_tokens reasoning_tokens",
  audio_output: "out.audio_tokens",
  image_output: "out.image_tokens",
  searches: `server_tool_use.web_search_requests server_tool_use_details.web_search_requests
    server_side_tool_usage_details.web_search_calls tool_usage.web_search.num_requests
    tool_calls_details.web_search.invocation x_tools.web_search.count num_search_queries num_sources_used
    in.web_search_requests`,
  pages: "pages_processed",
} as const

export type CountName = keyof typeof COUNTS

/** Counts of tokens that a cache had or got. */
export const OF_CACHE = ["cached", "write", "write_5m", "write_1h"] as const satisfies readonly CountName[]
/** Counts that are a part of the prompt, or beside it. */
export const OF_PROMPT: readonly CountName[] = [
  "prompt",
  ...OF_CACHE,
  "cached_audio",
  "audio_input",
  "image_input",
]

/** Anthropic's names: counts whose path begins with `BESIDE` are beside this prompt. A total that says the contrary decides. */
export const FRESH_PROMPT = "input_tokens"
export const BESIDE = "cache_"

/** The provider's own cost: the first place decides. The number is that of the decimals of a USD in one unit. */
export const COSTS: Readonly<Record<string, number>> = {
  cost_in_usd_ticks: 10, // xAI
  "cost.total_cost": 0, // Perplexity
  cost: 0, // OpenRouter, LiteLLM
  estimated_cost: 0, // DeepInfra
}

export const OTHERS = {
  /** Runs of the provider's tools. `*` is the provider's name of the tool. */
  run: `server_side_tool_usage_details.*_calls server_side_tool_usage_details.*_fetched
    server_tool_use.*_requests tool_calls_details.*.invocation x_tools.*.count`,
  /** Parts and sums of counts, and numbers that cost nothing: tools that cost only tokens, seconds of Groq. */
  known: `in.text_tokens in.cached_tokens_details.text_tokens in.cached_tokens_details.image_tokens
    out.text_tokens out.accepted_prediction_tokens out.rejected_prediction_tokens prompt_cache_miss_tokens
    iterations server_tool_use.web_fetch_requests server_side_tool_usage_details.mcp_calls
    server_side_tool_usage_details.view_image_calls server_side_tool_usage_details.view_x_video_calls
    num_server_side_tools_used server_tool_use_details.tool_calls_executed cost.* cost_details.*
    server_tool_use_details.tool_calls_requested queue_time prompt_time completion_time total_time`,
  /** Numbers that cost something for which there is no kind of price: noted `unpriced`. */
  unpriced: "tool_usage.image_gen.total_tokens",
}

/** Texts that change the price unless they have one of these values: noted `unpriced`. */
export const PLAIN: Readonly<Record<string, readonly string[]>> = {
  speed: ["standard"],
  inference_geo: ["", "global", "not_available"],
}

/** The difference between providers. */
export interface UsageReader {
  /** The meaning of the rest of a total that its parts do not explain. It is charged only if it is known. */
  readonly rest: "output" | "unknown"
}

/** By the name that an upstream gives: `usage: gemini`. */
export const readers = {
  default: { rest: "unknown" },
  /** Gemini's and Vertex's OpenAI endpoints report thinking only in the total. */
  gemini: { rest: "output" },
} as const satisfies Readonly<Record<string, UsageReader>>

export type ReaderName = keyof typeof readers
export const readerNames: readonly ReaderName[] = ["default", "gemini"]
