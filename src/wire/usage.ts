import type { Bucket } from "../kinds.ts"
import type { Note } from "./call.ts"

/** Tokens as charged. Cached tokens are part of the prompt tokens, never on top (D3). */
export interface Usage {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
  /** Tokens of kinds that can have their own price, and searches; absent if there were none (D60). */
  readonly buckets?: Buckets | undefined
  /** Runs of the provider's tools that are billed each, by the provider's name of the tool; absent if there were none. */
  readonly tool_runs?: Readonly<Record<string, number>> | undefined
}

interface UnchargedUsage {
  /** Paths of positive numbers that no reader knows: at most 8, each of at most 64 characters. */
  readonly unread: readonly string[]
  /** The total that the provider reported less the parts that explain it; 0 if it reported none. */
  readonly unexplained_tokens: number
  /** The provider's own cost of the call; null if it does not say. */
  readonly provider_cost_nano: bigint | null
}

/** Tokens, or searches. A provider's numbers may overlap; of charged usage no token is in two buckets. */
export type Buckets = Readonly<Partial<Record<Bucket, number>>>

/** The result of reading a `usage` field (D1). */
export type UsageReading =
  | {
      readonly state: "valid"
      readonly usage: Usage
      readonly notes: readonly Note[]
      /** Absent if there is nothing besides what is charged. */
      readonly aside?: UnchargedUsage | undefined
      /** The output was not counted: it is estimated if there was any (D87). */
      readonly output_unknown?: boolean | undefined
    }
  | { readonly state: "missing" }
  | { readonly state: "invalid" }

/** The most tokens of one kind; more makes the usage invalid (D1, D11). */
export const MAX_TOKENS = 100_000_000

/** The most tokens that a request can have caused (D1). */
export type UsageLimits = Pick<Usage, "prompt_tokens" | "completion_tokens">

/** The most that a provider can say that a call costs (D90): all tokens that it can have, at 100 USD per 1M. */
export const MAX_PROVIDER_COST_NANO = 10_000n * 1_000_000_000n

/** The limits if the request is not known. */
export const NO_LIMITS: UsageLimits = { prompt_tokens: MAX_TOKENS, completion_tokens: MAX_TOKENS }

const NOTHING: JsonObject = {}

export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : NOTHING
}

export function isMissing(value: unknown): boolean {
  return value === undefined || value === null
}

export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== ""
}

/** True if a value is written so. No object is: one of a client, or a number of any length, may have no text. */
export function isWritten(value: unknown, text: string): boolean {
  return typeof value !== "object" && String(value) === text
}

/** A safe integer of at least 0. */
export function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
}

/** Longer names are ignored. */
const MAX_TIER_LENGTH = 64

/** The served service tier that an answer or a chunk reports (D70); undefined if it reports none. */
export function readServiceTier({ service_tier: own, usage }: JsonObject): string | undefined {
  const reported = own ?? objectOf(usage).service_tier
  const service_tier = reported === "standard" ? "default" : reported
  const is_named = typeof service_tier === "string" && service_tier !== "" && service_tier !== "auto"
  return is_named && service_tier.length <= MAX_TIER_LENGTH ? service_tier : undefined
}

export type JsonObject = Record<string, unknown>

/** True if a parsed JSON value is an object: neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** The objects in a list; none of any other value. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** The value of a JSON text; undefined if it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
