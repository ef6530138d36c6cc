/** The service tier of a model's own price. */
export const OWN_TIER = "default"

/** What a request can ask for besides plain tokens, and what that needs. */
export interface Switch {
  /** For the error: the model has no price for … */
  readonly what: string
  /** The price that it needs; null where a price is none of its needs. */
  readonly price: string | null
  /** Whether the provider adds to the prompt: in every round of what it runs, or once (D89). */
  readonly opens?: "rounds" | "once"
}

/** A price that no model can have. */
export const NONE = ""

const SWITCHES: Readonly<Record<string, Switch>> = {
  service_tier: { what: "this service tier", price: "service_tiers" },
  speed: { what: "this speed", price: NONE },
  inference_geo: { what: "this inference region", price: NONE },
  hosted_tool: { what: "this tool, which the provider runs", price: NONE },
  plugin: { what: "this plugin", price: NONE },
  modality: { what: "this kind of output", price: NONE },
  payer: { what: "calls that another account pays", price: NONE },
  cache_ttl: { what: "writing to a cache for this time", price: NONE },
  refused: { what: "this field", price: NONE },
  large_prompt: { what: "larger prompts", price: "tiers" },
  audio_input: { what: "audio in a message", price: "audio_input" },
  audio_output: { what: "audio output", price: "audio_output" },
  image_output: { what: "image output", price: "image_output" },
  page: { what: "pages of documents", price: "page" },
  web_search: { what: "web searches", price: "web_search", opens: "rounds" },
  cache_write_1h: { what: "writing to a cache for one hour", price: "cache_write_1h" },
  work: { what: "what the provider adds to the prompt", price: null, opens: "rounds" },
  hidden: { what: "a prompt that only the provider has", price: null, opens: "once" },
}

/** What begins the name of a switch for a tool with a fee for each run. */
export const TOOL_RUN = "tool_run:"

export function switchOf(ask: string): Switch {
  const known = SWITCHES[ask]
  if (known !== undefined) return known
  return { what: "runs of this tool of the provider", price: ask, opens: "rounds" }
}

/** Whether the provider repeats the prompt for this, in every round of its tools. */
export function repeatsPrompt(ask: string): boolean {
  return switchOf(ask).opens === "rounds"
}
