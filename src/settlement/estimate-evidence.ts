import { buckets, parentOf } from "../kinds.ts"
import type { Evidence } from "../meter/reading.ts"
import type { Usage } from "../wire/usage.ts"
import type { Verdict } from "./decide.ts"

/** The bytes of a call's output, and the tokens that the provider reported. */
export interface EstimateEvidence {
  readonly prompt_tokens: number
  readonly output_bytes: number
  /** Of text and reasoning: without audio and images. */
  readonly output_tokens: number
  readonly reasoning_tokens: number
}

/** Evidence for estimates (D92); null without final, plausible usage, or without output where there is some. */
export function estimateEvidence(
  { output_bytes }: Evidence,
  verdict: Verdict,
  generates: boolean,
): EstimateEvidence | null {
  if (verdict.outcome !== "settled" || verdict.basis !== "usage" || verdict.failure !== null) return null
  if (verdict.notes.includes("usage_implausible")) return null
  if (verdict.reported === null || (generates && output_bytes === 0)) return null
  const { prompt_tokens, buckets: counts } = verdict.reported
  const output_tokens = textTokens(verdict.reported)
  const reasoning_tokens = Math.min(counts?.reasoning ?? 0, output_tokens)
  return { prompt_tokens, output_bytes, output_tokens, reasoning_tokens }
}

function textTokens({ completion_tokens, buckets: counts }: Usage): number {
  if (counts === undefined) return completion_tokens
  let tokens = completion_tokens
  for (const bucket of buckets)
    if (parentOf(bucket) === "output" && bucket !== "reasoning") tokens -= counts[bucket] ?? 0
  return Math.max(0, tokens)
}
