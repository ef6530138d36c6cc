import type { Note } from "./call.ts"

/** Tokens as charged. Cached tokens are part of the prompt tokens, never on top (D3). */
export interface Usage {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

/** What a `usage` field says (D1). */
export type UsageReading =
  | { readonly state: "valid"; readonly usage: Usage; readonly notes: readonly Note[] }
  | { readonly state: "missing" }
  | { readonly state: "invalid" }
  /** More than the request can have caused. */
  | { readonly state: "implausible" }

/** The most tokens of one kind a provider is believed to have used; more makes the usage invalid (D1, D11). */
export const MAX_TOKENS = 100_000_000

/** The most tokens that a request can have caused (D1). */
export type UsageLimits = Pick<Usage, "prompt_tokens" | "completion_tokens">

/** Where nothing is known of the request. */
export const NO_LIMITS: UsageLimits = { prompt_tokens: MAX_TOKENS, completion_tokens: MAX_TOKENS }

/** Reads a provider's `usage` value; nothing is coerced (D1, D3). */
export function readUsage(value: unknown, limits: UsageLimits = NO_LIMITS): UsageReading {
  if (value === undefined || value === null) return { state: "missing" }
  if (!isObject(value)) return { state: "invalid" }
  const { prompt_tokens, completion_tokens, prompt_tokens_details } = value
  if (!isCount(prompt_tokens) || !isCount(completion_tokens)) return { state: "invalid" }
  if (prompt_tokens > limits.prompt_tokens || completion_tokens > limits.completion_tokens)
    return { state: "implausible" }
  const { tokens, notes } = readCached(prompt_tokens_details, prompt_tokens)
  return { state: "valid", usage: { prompt_tokens, cached_tokens: tokens, completion_tokens }, notes }
}

/** How many of the prompt's tokens were cached: never a reason to doubt the rest of the usage (D3). */
function readCached(details: unknown, prompt_tokens: number): { tokens: number; notes: readonly Note[] } {
  if (details === undefined || details === null) return { tokens: 0, notes: [] }
  if (!isObject(details)) return { tokens: 0, notes: ["cached_malformed"] }
  const cached = details.cached_tokens
  if (cached === undefined || cached === null) return { tokens: 0, notes: [] }
  if (!isWhole(cached)) return { tokens: 0, notes: ["cached_malformed"] }
  return { tokens: Math.min(cached, prompt_tokens), notes: cached > prompt_tokens ? ["cached_clamped"] : [] }
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
}

function isCount(value: unknown): value is number {
  return isWhole(value) && value <= MAX_TOKENS
}

/** A JSON object as it was parsed. */
export type JsonObject = Record<string, unknown>

/** Whether a parsed JSON value is an object: neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
