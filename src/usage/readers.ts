/**
 * How a provider's usage is read (D87): for each count the places where it may stand. Data only; `told.ts` reads by it.
 * The sources for each provider: docs/billing.md.
 */

/** The counts of a usage. All but `prompt`, `output` and `total` are a part of another one, or units other than tokens. */
export const countNames = [
  "prompt",
  "output",
  "total",
  "cached",
  "cached_audio",
  "write",
  "write_5m",
  "write_1h",
  "audio_input",
  "image_input",
  "reasoning",
  "audio_output",
  "image_output",
  "searches",
  "pages",
] as const
export type Count = (typeof countNames)[number]

export interface Reader {
  /**
   * The paths of each count below the usage object. The first path with a positive number decides; if there is none, any
   * path with 0. `*` stands for any name.
   */
  readonly counts: Readonly<Record<Count, readonly string[]>>
  /**
   * Counts that are beside the prompt where `fresh_prompt` is the name of the prompt, and inside it otherwise. A total
   * that says the contrary decides.
   */
  readonly beside: readonly string[]
  readonly fresh_prompt: string
  /** Runs of the provider's tools. `{}` is the provider's name of the tool. */
  readonly runs: readonly string[]
  /** What the provider says that the call costs, and how many decimals of a USD one unit is. */
  readonly costs: readonly (readonly [path: string, decimals: number])[]
  /** Numbers that are part of a count, or that cost nothing. */
  readonly known: readonly string[]
  /** Numbers that cost something for which there is no kind of price: they are noted `unpriced`. */
  readonly unpriced: readonly string[]
  /** Texts that change the price unless they have one of these values: noted `unpriced`. */
  readonly plain: Readonly<Record<string, readonly string[]>>
  /** What the rest of a total is that its parts do not explain: output, or unknown. It is charged only if it is known. */
  readonly rest: "output" | "unknown"
}

const DETAILS = ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"] as const
const OUTPUT_DETAILS = ["completion_tokens_details", "output_tokens_details"] as const

function below(parents: readonly string[], ...names: readonly string[]): string[] {
  return names.flatMap((name) => parents.map((parent) => `${parent}.${name}`))
}

/** All names that are known, of all vendors: no two of them mean different things. */
const common: Reader = {
  counts: {
    prompt: ["prompt_tokens", "input_tokens"],
    output: ["completion_tokens", "output_tokens"],
    total: ["total_tokens"],
    cached: [
      ...below(DETAILS, "cached_tokens", "cache_read_input_tokens"),
      "cache_read_input_tokens", // Anthropic, Databricks, LiteLLM
      "prompt_cache_hit_tokens", // DeepSeek
      "cached_tokens", // Moonshot, Together, StepFun
      "num_cached_tokens", // Mistral
    ],
    cached_audio: below(DETAILS, "cached_tokens_details.audio_tokens"),
    write: [
      "cache_creation_input_tokens",
      ...below(DETAILS, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"),
    ],
    write_5m: splitOf("ephemeral_5m_input_tokens"),
    write_1h: splitOf("ephemeral_1h_input_tokens"),
    audio_input: below(DETAILS, "audio_tokens"),
    image_input: below(DETAILS, "image_tokens"),
    reasoning: [
      ...below(OUTPUT_DETAILS, "reasoning_tokens", "thinking_tokens"),
      "reasoning_tokens", // Perplexity, SGLang
    ],
    audio_output: below(OUTPUT_DETAILS, "audio_tokens"),
    image_output: below(OUTPUT_DETAILS, "image_tokens"),
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
  },
  beside: ["cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"],
  fresh_prompt: "input_tokens",
  runs: [
    "server_side_tool_usage_details.{}_calls",
    "server_side_tool_usage_details.{}_fetched",
    "server_tool_use.{}_requests",
    "tool_calls_details.{}.invocation",
    "x_tools.{}.count",
  ],
  costs: [
    ["cost_in_usd_ticks", 10], // xAI
    ["cost.total_cost", 0], // Perplexity
    ["cost", 0], // OpenRouter, LiteLLM
    ["estimated_cost", 0], // DeepInfra
  ],
  known: [
    ...below(
      DETAILS,
      "text_tokens",
      "cached_tokens_details.text_tokens",
      "cached_tokens_details.image_tokens",
    ),
    ...below(OUTPUT_DETAILS, "text_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"),
    "prompt_cache_miss_tokens",
    "iterations", // read one by one
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
  ],
  unpriced: ["tool_usage.image_gen.total_tokens"],
  plain: { speed: ["standard"], inference_geo: ["", "global", "not_available"] },
  rest: "unknown",
}

function splitOf(name: string): string[] {
  return [
    `cache_creation.${name}`,
    ...below(DETAILS, `cache_creation.${name}`, `cache_creation_token_details.${name}`),
  ]
}

/** By the name that an upstream gives: `usage: gemini`. */
export const readers = {
  default: common,
  /** Gemini's and Vertex's OpenAI endpoints report thinking only in the total. */
  gemini: { ...common, rest: "output" },
} as const satisfies Readonly<Record<string, Reader>>

export type ReaderName = keyof typeof readers
export const readerNames: readonly ReaderName[] = ["default", "gemini"]
