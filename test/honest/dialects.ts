import { outputOf, promptOf, type Work } from "./price-list.ts"
import { isOnlyThinking } from "./provider.ts"

/** How each provider says what a call took: the words of its usage, and where it stands (`presets.md` has the sources). */

export type Kind = keyof Work | "service_tier"

/** Where the usage of a chat stream stands. */
export type Place =
  | "own chunk" // without choices
  | "finish" // beside the last finish_reason
  | "choice" // within the last choice
  | "x_groq"
  | "x_groq and finish"
  | "second finish" // a further chunk with a finish_reason
  | "empty delta"
  | "every chunk" // cumulative
  | "two parts" // the prompt first, the output at the end

export interface Dialect {
  readonly name: string
  readonly operation: "chat" | "responses" | "messages" | "embeddings"
  /** The reader that an upstream of this provider names. */
  readonly reader: "default" | "gemini"
  /** What its usage tells apart; the rest is billed with its parent. */
  readonly tells: ReadonlySet<Kind>
  /** Null if it only answers with JSON. */
  readonly stream: Place | null
  /** `variant` is any number, where the provider does not always say the same. */
  usage(work: Work, variant: number): object
  /** False if its usage does not say for how long what was written to the cache is kept. */
  readonly splits_writes?: boolean
  /** Whether text is repeated beside the delta. */
  readonly repeats_text?: boolean
  /** The provider's own events between those of the model. */
  readonly comment?: string
}

const sums = (work: Work) => ({
  prompt_tokens: promptOf(work),
  completion_tokens: outputOf(work),
  total_tokens: promptOf(work) + outputOf(work),
})
const written = (work: Work) => work.cache_write + work.cache_write_1h
const cached = (work: Work) => work.cached_input + work.cached_audio_input
const wholesale = (work: Work) => (promptOf(work) + 4 * outputOf(work)) / 2_000_000

function openai(work: Work): object {
  return {
    ...sums(work),
    prompt_tokens_details: {
      cached_tokens: cached(work),
      cache_write_tokens: written(work),
      audio_tokens: work.audio_input + work.cached_audio_input,
      image_tokens: work.image_input,
      text_tokens: promptOf(work) - work.audio_input - work.cached_audio_input - work.image_input,
      cached_tokens_details: { audio_tokens: work.cached_audio_input, text_tokens: work.cached_input },
    },
    completion_tokens_details: {
      reasoning_tokens: work.reasoning,
      audio_tokens: work.audio_output,
      text_tokens: work.output,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}

function inside(work: Work): object {
  return {
    ...sums(work),
    prompt_tokens_details: cached(work) === 0 ? null : { cached_tokens: cached(work) },
    completion_tokens_details: work.reasoning === 0 ? null : { reasoning_tokens: work.reasoning },
  }
}

function responsesSums(work: Work): object {
  return {
    input_tokens: promptOf(work),
    output_tokens: outputOf(work),
    total_tokens: promptOf(work) + outputOf(work),
    input_tokens_details: { cached_tokens: cached(work), cache_write_tokens: written(work) },
    output_tokens_details: { reasoning_tokens: work.reasoning },
  }
}

function anthropic(work: Work, variant: number): object {
  return {
    input_tokens: promptOf(work) - cached(work) - written(work),
    cache_read_input_tokens: cached(work),
    cache_creation_input_tokens: written(work),
    ...((variant !== 0 || work.cache_write_1h > 0) && {
      cache_creation: {
        ephemeral_5m_input_tokens: work.cache_write,
        ephemeral_1h_input_tokens: work.cache_write_1h,
      },
    }),
    output_tokens: outputOf(work),
    output_tokens_details: { thinking_tokens: work.reasoning },
    ...(work.web_search > 0 && {
      server_tool_use: { web_search_requests: work.web_search, web_fetch_requests: 2 },
    }),
    service_tier: "standard",
    inference_geo: "global",
  }
}

function xaiChat(work: Work): object {
  return {
    ...sums(work),
    completion_tokens: outputOf(work) - work.reasoning,
    prompt_tokens_details: {
      text_tokens: promptOf(work) - work.audio_input - work.image_input,
      audio_tokens: work.audio_input,
      image_tokens: work.image_input,
      cached_tokens: cached(work),
    },
    completion_tokens_details: { reasoning_tokens: work.reasoning, audio_tokens: 0 },
    num_sources_used: work.web_search,
    cost_in_usd_ticks: Math.round(wholesale(work) * 1e10),
  }
}

function gemini(work: Work): object {
  const { completion_tokens, ...said } = sums(work)
  if (isOnlyThinking(work)) return said
  return { ...said, completion_tokens: completion_tokens - work.reasoning }
}

/** Claude behind an OpenAI shape: caches beside the prompt, or inside it. Only the total says which. */
function databricks(work: Work, variant: number): object {
  const beside = variant % 2 === 0 ? cached(work) + written(work) : 0
  return {
    ...sums(work),
    prompt_tokens: promptOf(work) - beside,
    cache_read_input_tokens: cached(work),
    cache_creation_input_tokens: written(work),
  }
}

function perplexity(work: Work): object {
  return {
    ...sums(work),
    reasoning_tokens: work.reasoning,
    num_search_queries: work.web_search,
    search_context_size: "low",
    cost: { input_tokens_cost: 0.001, output_tokens_cost: 0.002, total_cost: wholesale(work) },
  }
}

function dialect(
  name: string,
  tells: readonly Kind[],
  usage: Dialect["usage"],
  stream: Place | null,
  rest: Partial<Dialect> = {},
): Dialect {
  return { name, operation: "chat", reader: "default", tells: new Set(tells), usage, stream, ...rest }
}

const OPENAI: readonly Kind[] = [
  "cached_input",
  "cached_audio_input",
  "cache_write",
  "audio_input",
  "image_input",
  "reasoning",
  "audio_output",
  "service_tier",
]
const CLAUDE: readonly Kind[] = ["cached_input", "cache_write", "cache_write_1h", "reasoning", "web_search"]
const RESPONSES = { operation: "responses" } as const
const MESSAGES = { operation: "messages" } as const

export const DIALECTS: readonly Dialect[] = [
  dialect("openai chat", OPENAI, openai, "own chunk"),
  dialect(
    "openai responses",
    ["cached_input", "cache_write", "reasoning", "web_search", "service_tier"],
    (work) => responsesSums(work),
    "finish",
    RESPONSES,
  ),
  dialect("anthropic", CLAUDE, anthropic, "finish", MESSAGES),
  dialect(
    "xai chat",
    ["cached_input", "audio_input", "image_input", "reasoning", "web_search"],
    xaiChat,
    "own chunk",
  ),
  dialect(
    "xai responses",
    ["cached_input", "reasoning", "web_search"],
    (work) => ({
      ...responsesSums(work),
      num_server_side_tools_used: work.web_search + 1,
      server_side_tool_usage_details: { web_search_calls: work.web_search, mcp_calls: 1 },
      cost_in_usd_ticks: Math.round(wholesale(work) * 1e10),
    }),
    "finish",
    RESPONSES,
  ),
  dialect("gemini", ["reasoning"], gemini, "finish", { reader: "gemini" }),
  dialect(
    "deepseek",
    ["cached_input", "reasoning"],
    (work) => ({
      ...sums(work),
      prompt_cache_hit_tokens: cached(work),
      prompt_cache_miss_tokens: promptOf(work) - cached(work),
      prompt_tokens_details: { cached_tokens: cached(work) },
      completion_tokens_details: { reasoning_tokens: work.reasoning },
    }),
    "finish",
    { comment: ": keep-alive\n\n" },
  ),
  dialect(
    "moonshot",
    ["cached_input", "reasoning"],
    (work) => ({ ...inside(work), cached_tokens: cached(work) }),
    "choice",
  ),
  dialect(
    "mistral",
    ["cached_input"],
    (work) => ({ ...sums(work), num_cached_tokens: cached(work) }),
    "finish",
  ),
  dialect(
    "groq",
    ["cached_input", "reasoning"],
    (work) => ({
      ...inside(work),
      queue_time: 0.01,
      prompt_time: 0.02,
      completion_time: 0.3,
      total_time: 0.33,
    }),
    "x_groq",
  ),
  dialect("groq of 2026", ["cached_input", "reasoning"], inside, "x_groq and finish"),
  dialect(
    "together",
    ["cached_input"],
    (work) => ({ ...sums(work), cached_tokens: cached(work) }),
    "finish",
    {
      repeats_text: true,
    },
  ),
  dialect(
    "dashscope",
    ["cached_input", "cache_write", "reasoning"],
    (work) => ({
      ...sums(work),
      prompt_tokens_details: {
        cached_tokens: cached(work),
        cache_creation_input_tokens: written(work),
        cache_type: "ephemeral",
      },
      completion_tokens_details: { reasoning_tokens: work.reasoning },
    }),
    "own chunk",
  ),
  dialect("databricks", ["cached_input", "cache_write"], databricks, "own chunk"),
  dialect(
    "litellm",
    ["cached_input", "cache_write", "reasoning"],
    (work) => ({ ...openai(work), cost: wholesale(work) }),
    "empty delta",
  ),
  dialect(
    "openrouter",
    ["cached_input", "cache_write", "reasoning", "web_search", "image_output"],
    (work) => ({
      ...sums(work),
      prompt_tokens_details: {
        cached_tokens: cached(work),
        cache_write_tokens: written(work),
        audio_tokens: 0,
      },
      completion_tokens_details: { reasoning_tokens: work.reasoning, image_tokens: work.image_output },
      server_tool_use_details: { web_search_requests: work.web_search, tool_calls_executed: work.web_search },
      is_byok: false,
      cost: wholesale(work),
      cost_details: { upstream_inference_cost: wholesale(work) / 2 },
    }),
    "second finish",
    { comment: ": OPENROUTER PROCESSING\n\n" },
  ),
  dialect("perplexity", ["reasoning", "web_search"], perplexity, "every chunk"),
  dialect("usage in two parts", [], sums, "two parts"),
  dialect("vllm", ["cached_input"], inside, "own chunk"),
  dialect("vllm, continuous usage", [], sums, "every chunk"),
  dialect("ollama", [], sums, "own chunk"),
  dialect(
    "minimax messages",
    ["cached_input", "cache_write", "cache_write_1h"],
    (work) => ({
      input_tokens: promptOf(work) - cached(work) - written(work),
      cache_read_input_tokens: cached(work),
      cache_creation_input_tokens: written(work),
      output_tokens: outputOf(work),
    }),
    "finish",
    { ...MESSAGES, splits_writes: false },
  ),
  dialect(
    "vllm messages",
    [],
    (work) => ({ input_tokens: promptOf(work), output_tokens: outputOf(work) }),
    "finish",
    MESSAGES,
  ),
  dialect(
    "openai embeddings",
    [],
    (work) => ({ prompt_tokens: promptOf(work), total_tokens: promptOf(work) }),
    null,
    { operation: "embeddings" },
  ),
]
