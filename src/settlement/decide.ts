import type { Model } from "../config/config.ts"
import { estimateTokens } from "../meter/output.ts"
import { type Evidence, isUsable, type JsonEvidence, type StreamEvidence } from "../meter/reading.ts"
import type { Failure, Note } from "../wire/call.ts"
import type { Usage, UsageReading } from "../wire/usage.ts"

/** The basis of a settlement: what the provider reported, what the gateway estimated on top, and why (D28). */
export type Verdict =
  | {
      readonly outcome: "settled"
      readonly basis: "usage" | "partial" | "estimate"
      readonly reported: Usage | null
      readonly estimated: { readonly prompt_tokens: number; readonly completion_tokens: number }
      readonly failure: Failure | null
      readonly notes: readonly Note[]
    }
  | { readonly outcome: "released"; readonly failure: Failure; readonly notes: readonly Note[] }

/** The terms of an estimate (D6). */
export interface EstimateTerms {
  /** UTF-8 bytes of output per estimated token. */
  readonly bytes_per_token: number
  /** The prompt tokens of an estimate, where it charges any. */
  readonly prompt_tokens_estimate: number
  readonly estimate_prompt: Model["estimate"]["prompt"]
  /** Tokens of hidden reasoning, added if the client cut its stream. */
  readonly hidden_output_tokens?: number | undefined
  /** True if an estimate charges output. If not, it charges the prompt of every answer (D67). */
  readonly estimate_output: boolean
}

/** Decides by the settlement rules 1-6 what a call is charged for. */
export function decide(evidence: Evidence, terms: EstimateTerms): Verdict {
  const { usage, notes } = usableUsage(evidence)
  const broken = evidence.ending === "completed" ? null : evidence.ending

  if (evidence.shape === "json" && evidence.body !== "object") {
    return { outcome: "released", failure: jsonFailure(evidence), notes } // rule 3
  }
  if (usage.state === "valid") {
    const later = usage.output_unknown ? evidence.output_bytes : bytesAfterUsage(evidence)
    const is_last = evidence.shape === "json" || broken === null || evidence.usage_final
    const hidden_tokens = usage.usage.completion_tokens === 0 && !is_last ? hiddenOutput(evidence, terms) : 0
    return {
      outcome: "settled", // rule 1, and rules 4 and 5 for partial usage
      basis: is_last && later === 0 ? "usage" : "partial",
      reported: usage.usage,
      estimated: {
        prompt_tokens: 0,
        completion_tokens: (later > 0 ? estimateTokens(later, terms.bytes_per_token) : 0) + hidden_tokens,
      },
      failure: broken ?? (later > 0 ? "usage_missing" : isTooLarge(evidence) ? "upstream_error" : null),
      notes,
    }
  }
  if (evidence.shape === "json" || evidence.output_bytes > 0) {
    return {
      outcome: "settled", // rule 2, rule 4, and rule 5 for observed output
      basis: "estimate",
      reported: null,
      estimated: {
        prompt_tokens: chargesPrompt(evidence, terms) ? promptEstimate(terms) : 0,
        completion_tokens: terms.estimate_output
          ? estimateTokens(evidence.output_bytes, terms.bytes_per_token) + hiddenOutput(evidence, terms)
          : 0,
      },
      failure: broken ?? (usage.state === "missing" ? "usage_missing" : "usage_invalid"),
      notes,
    }
  }
  return { outcome: "released", failure: streamFailure(evidence), notes } // rule 6
}

function bytesAfterUsage({ output_bytes_after_usage = 0 }: Evidence): number {
  return output_bytes_after_usage
}

/** True if an estimate charges the prompt (D6). Otherwise a client could avoid paying for it by cutting the stream. */
function chargesPrompt(evidence: Evidence, { estimate_prompt, estimate_output }: EstimateTerms): boolean {
  const is_client_cut = estimate_prompt === "client_cut" && mayBeCutByClient(evidence)
  return !estimate_output || estimate_prompt === "always" || is_client_cut
}

/** The prompt tokens of an estimate: at least one if output is not charged, because a success is not free (rule 2, D67). */
function promptEstimate({ prompt_tokens_estimate, estimate_output }: EstimateTerms): number {
  return estimate_output ? prompt_tokens_estimate : Math.max(1, prompt_tokens_estimate)
}

/** Tokens of hidden reasoning, for which a client that leaves early would otherwise not pay (D6). */
function hiddenOutput(evidence: Evidence, { hidden_output_tokens = 0 }: EstimateTerms): number {
  return mayBeCutByClient(evidence) ? hidden_output_tokens : 0
}

/** True if a stream was cut by its client, or at a size limit, which a request can cause. */
function mayBeCutByClient(evidence: Evidence): boolean {
  const { shape, ending } = evidence
  return (
    shape === "stream" && (ending === "client_left" || ending === "client_stalled" || isTooLarge(evidence))
  )
}

/** An answer that is charged and not delivered (D5), or cut within an event (D31). */
function isTooLarge(evidence: Evidence): boolean {
  return evidence.too_large === true
}

/** The usage that the settlement uses: 0/0 next to output is a placeholder (D2). */
function usableUsage(evidence: Evidence): { usage: UsageReading; notes: readonly Note[] } {
  const { usage, output_bytes } = evidence
  const notes: Note[] = isTooLarge(evidence) ? ["response_too_large"] : []
  if (usage.state !== "valid") return { usage, notes }
  if (!isUsable(usage, output_bytes))
    return { usage: { state: "invalid" }, notes: [...notes, "usage_placeholder"] }
  return { usage, notes: notes.length === 0 ? usage.notes : [...notes, ...usage.notes] }
}

/** Failures that follow from the ending alone. */
const ENDED_BY: { readonly [ending in Evidence["ending"]]?: Failure } = {
  upstream_silent: "upstream_timeout",
  deadline: "upstream_timeout",
  client_left: "client_left",
}

/** The reason why a JSON answer is not charged (D5, D10, D28): who ended it, otherwise its fault. */
function jsonFailure({ ending, body }: JsonEvidence): Failure {
  if (body === "error") return "upstream_error"
  const is_whole = ending === "completed" || ending === "upstream_lost"
  return is_whole ? (body === "blank" ? "usage_missing" : "usage_invalid") : (ENDED_BY[ending] ?? "no_output")
}

/** The most specific reason why a stream has nothing to charge (rule 6, D28). */
function streamFailure({ ending, usage, error }: StreamEvidence): Failure {
  if (error) return "upstream_error"
  return ENDED_BY[ending] ?? (usage.state === "missing" ? "no_output" : "usage_invalid")
}
