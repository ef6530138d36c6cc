/**
 * How usage is read (D87): for each count the places where it may stand, in all vendors' words. No two vendors mean different
 * things by one name, so there is one table. Data only; `counted.ts` reads by it. Sources: docs/billing.md.
 */

/** In a path, `in` and `out` stand for each of these names. */
export const DETAILS: Readonly<Record<string, readonly string[]>> = {
  in: ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"],
  out: ["completion_tokens_details", "output_tokens_details"],
}

/**
 * All but `prompt`, `output` and `total` are a part of another count, or have another unit. The first place with a positive
 * number decides; if there is none, any place with 0.
 */
export const COUNTS = {
  prompt: ["prompt_tokens", "input_tokens"],
  output: ["completion_tokens", "output_tokens"],
  total: ["total_tokens"],
  cached: [
    "in.cached_tokens",
    "in.cache_read_input_tokens",
    "cache_read_input_tokens", // Anthropic, Databricks, LiteLLM
    "prompt_cache_hit_tokens", // DeepSeek
    "cached_tokens", // Moonshot, Together, StepFun
    "num_cached_tokens", // Mistral
  ],
  cached_audio: ["in.cached_tokens_details.audio_tokens"],
  write: [
    "cache_creation_input_tokens",
    "in.cache_write_tokens",
    "in.cache_creation_tokens",
    "in.cache_creation_input_tokens",
  ],
  write_5m: [
    "cache_creation.ephemeral_5m_input_tokens",
    "in.cache_creation.ephemeral_5m_input_tokens",
    "in.cache_creation_token_details.ephemeral_5m_input_tokens",
  ],
  write_1h: [
    "cache_creation.ephemeral_1h_input_tokens",
    "in.cache_creation.ephemeral_1h_input_tokens",
    "in.cache_creation_token_details.ephemeral_1h_input_tokens",
  ],
  audio_input: ["in.audio_tokens"],
  image_input: ["in.image_tokens"],
  reasoning: [
    "out.reasoning_tokens",
    "out.thinking_tokens",
    "reasoning_tokens", // Perplexity, SGLang
  ],
  audio_output: ["out.audio_tokens"],
  image_output: ["out.image_tokens"],
  searches: [
    "server_tool_use.web_search_requests",
    "server_tool_use_details.web_search_requests",
    "server_side_tool_usage_details.web_search_calls",
    "tool_usage.web_search.num_requests",
    "tool_calls_details.web_search.invocation",
    "x_tools.web_search.count",
    "num_search_queries",
    "num_sources_used",
  ],
  pages: ["pages_processed"],
} as const satisfies Readonly<Record<string, readonly string[]>>

export type Count = keyof typeof COUNTS

/** Anthropic's names: where the prompt has the first one, the others are beside it. A total that says the contrary decides. */
export const FRESH_PROMPT = "input_tokens"
export const BESIDE: readonly string[] = [
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "cache_creation",
]

/** Runs of the provider's tools. `*` is the provider's name of the tool. */
export const RUNS: readonly string[] = [
  "server_side_tool_usage_details.*_calls",
  "server_side_tool_usage_details.*_fetched",
  "server_tool_use.*_requests",
  "tool_calls_details.*.invocation",
  "x_tools.*.count",
]

/** What the provider says that the call costs, and how many decimals of a USD one unit is. */
export const COSTS: readonly (readonly [path: string, decimals: number])[] = [
  ["cost_in_usd_ticks", 10], // xAI
  ["cost.total_cost", 0], // Perplexity
  ["cost", 0], // OpenRouter, LiteLLM
  ["estimated_cost", 0], // DeepInfra
]

/** Numbers that are part of a count, or that cost nothing. */
export const KNOWN: readonly string[] = [
  "in.text_tokens",
  "in.cached_tokens_details.text_tokens",
  "in.cached_tokens_details.image_tokens",
  "out.text_tokens",
  "out.accepted_prediction_tokens",
  "out.rejected_prediction_tokens",
  "prompt_cache_miss_tokens",
  "iterations", // counted one by one
  // The provider's tools that cost only tokens.
  "server_tool_use.web_fetch_requests",
  "server_side_tool_usage_details.mcp_calls",
  "server_side_tool_usage_details.view_image_calls",
  "server_side_tool_usage_details.view_x_video_calls",
  // Sums of what is counted elsewhere.
  "num_server_side_tools_used",
  "server_tool_use_details.tool_calls_executed",
  "server_tool_use_details.tool_calls_requested",
  "cost.*",
  "cost_details.*",
  // Seconds of Groq.
  "queue_time",
  "prompt_time",
  "completion_time",
  "total_time",
]

/** Numbers that cost something for which there is no kind of price: noted `unpriced`. */
export const UNPRICED: readonly string[] = ["tool_usage.image_gen.total_tokens"]

/** Texts that change the price unless they have one of these values: noted `unpriced`. */
export const PLAIN: Readonly<Record<string, readonly string[]>> = {
  speed: ["standard"],
  inference_geo: ["", "global", "not_available"],
}

/** What tells providers apart. */
export interface Reader {
  /** What the rest of a total is that its parts do not explain: output, or unknown. It is charged only if it is known. */
  readonly rest: "output" | "unknown"
}

/** By the name that an upstream gives: `usage: gemini`. */
export const readers = {
  default: { rest: "unknown" },
  /** Gemini's and Vertex's OpenAI endpoints report thinking only in the total. */
  gemini: { rest: "output" },
} as const satisfies Readonly<Record<string, Reader>>

export type ReaderName = keyof typeof readers
export const readerNames: readonly ReaderName[] = ["default", "gemini"]
