import type { Call } from "../call/call.ts"
import { buckets, parentOf } from "../kinds.ts"
import type { CallLedger, Checkpoint, End, EndDetails, EstimateSample } from "../ledger/entries.ts"
import type { Evidence } from "../meter/reading.ts"
import type { Price, ServiceTier } from "../money.ts"
import type { Ending, Failure, Note } from "../wire/call.ts"
import type { Usage } from "../wire/usage.ts"
import { decide, type EstimateTerms, type Verdict } from "./decide.ts"
import { type Priced, priceVerdict, servedTier } from "./price.ts"

/** The longest wait of an answer's last byte for the settlement in the ledger (D32). */
export const SETTLE_WAIT_MS = 250

export type OnSettled = (call: Call, end: End) => void

/** Settles a call by its evidence (rules 1-6). A call ends once, so a second settlement is a broken invariant. */
export function settle(ledger: CallLedger, call: Call, evidence: Evidence, onSettled: OnSettled) {
  const verdict = decide(evidence, termsOf(call))
  const { charge_nano, usage, notes, terms_id } = priced(call, verdict, evidence)
  const details = detailsOf(call, chargeDetails(call, verdict, evidence))
  const end: End = {
    id: call.hold.id,
    outcome: verdict.outcome,
    charge_nano,
    basis: verdict.outcome === "settled" ? verdict.basis : "none",
    ending: evidence.ending,
    failure: verdict.failure,
    notes,
    usage,
    terms_id,
    ttft_ms: call.ttft_ms,
    duration_ms: call.duration_ms,
    freed_key_hash: null,
  }
  const settlement = closeCall(ledger, call, onSettled, details === null ? end : { ...end, details })
  recordEstimate(ledger, call, estimateEvidence(evidence, verdict, call.operation.generates))
  return settlement
}

/** Charges 0, records the failure (D28), and frees the `Idempotency-Key` (D43). */
export function release(
  ledger: CallLedger,
  call: Call,
  failure: Failure,
  ending: Ending | null,
  onSettled: OnSettled,
) {
  const details = detailsOf(call, null)
  return closeCall(ledger, call, onSettled, {
    ...(details !== null && { details }),
    id: call.hold.id,
    outcome: "released",
    charge_nano: 0n,
    basis: "none",
    ending,
    failure,
    notes: [],
    usage: null,
    terms_id: call.termsId(0),
    ttft_ms: call.ttft_ms,
    duration_ms: call.duration_ms,
    freed_key_hash: call.hold.idempotency?.key_hash ?? null,
  })
}

/** Details for the journal besides the charge: the ids of the answered request (D86), and `of_charge`; null for none. */
function detailsOf({ provider_ids }: Call, of_charge: EndDetails | null): EndDetails | null {
  if (of_charge === null && provider_ids.key === undefined && provider_ids.request_id === undefined)
    return null
  return { ...provider_ids, ...of_charge }
}

/** Details for the receipt besides the charge (D87, D90); null if there are none. */
function chargeDetails({ bounds, model }: Call, verdict: Verdict, { usage, output_bytes }: Evidence) {
  if (verdict.outcome === "released") return null
  const { prompt_tokens, completion_tokens } = verdict.estimated
  const is_estimate = prompt_tokens > 0 || completion_tokens > 0
  const aside = usage.state === "valid" ? usage.aside : undefined
  if (!is_estimate && aside === undefined) return null
  const { unread = [], unexplained_tokens = 0, provider_cost_nano = null } = aside ?? {}
  const { bytes_per_token } = model
  const estimate = { output_bytes, prompt_bytes: Math.round(bounds.estimate_bytes), bytes_per_token }
  return {
    ...(unread.length > 0 && { unread }),
    ...(unexplained_tokens !== 0 && { unexplained_tokens }),
    ...(provider_cost_nano !== null && { provider_cost_nano: String(provider_cost_nano) }),
    ...(is_estimate && { estimate }),
  }
}

/** The charge of a running call if its gateway died now (D13); null for none yet. */
export function checkpoint(call: Call): Checkpoint | null {
  const evidence = call.observed?.evidence("gateway_lost")
  if (evidence === undefined) return null
  const verdict = decide(evidence, termsOf(call))
  if (verdict.outcome === "released") return null
  const { charge_nano, usage, terms_id } = priced(call, verdict, evidence)
  return { id: call.hold.id, charge_nano, basis: verdict.basis, usage, terms_id }
}

/** Adds a call's evidence for estimates to the sums of this process (D92). */
function recordEstimate(
  ledger: CallLedger,
  { model, operation, bounds, shard }: Call,
  reported: EstimateEvidence | null,
) {
  if (reported === null) return
  ledger.shard(shard).recordEstimate({
    prompt_tokens: reported.prompt_tokens,
    output_bytes: reported.output_bytes,
    output_tokens: reported.output_tokens,
    reasoning_tokens: reported.reasoning_tokens,
    model: model.name,
    operation: operation.name,
    prompt_bytes: Math.round(bounds.estimate_bytes),
    bytes_per_token: model.bytes_per_token,
    hidden_output: model.estimate.hidden_output ?? 0,
  })
}

interface PricedAtTerms extends Priced, Pick<End, "terms_id"> {
  readonly price: Price
}

/**
 * The charge of a verdict, and its terms: the price for the size of its prompt and for its service tier (D62, D70). A tier that
 * the provider does not name counts only if the call costs at least as much at it as at the model's own price.
 */
export function priced(
  call: Call,
  verdict: Verdict,
  { service_tier }: Pick<Evidence, "service_tier">,
): PricedAtTerms {
  const served = servedTier(call.model, call.bounds.service_tier, service_tier ?? null)
  const own = served.is_presumed ? pricedAt(call, verdict, null) : null
  const at_tier = pricedAt(call, verdict, served.tier)
  const cost = own !== null && own.charge_nano > at_tier.charge_nano ? own : at_tier
  if (!served.is_unpriced || verdict.outcome !== "settled") return cost
  return { ...cost, notes: withNote(cost.notes, "unpriced") }
}

function pricedAt(call: Call, verdict: Verdict, tier: ServiceTier | null): PricedAtTerms {
  const { hold, bounds } = call
  const prompt_tokens = promptOf(verdict)
  const price = call.priceOf(prompt_tokens, tier)
  const { charge_nano, usage, notes } = priceVerdict(
    verdict,
    price,
    hold.amount_nano,
    bounds.searches,
    hold.price_multiplier_bp,
  )
  return { charge_nano, usage, notes, terms_id: call.termsId(prompt_tokens, tier), price }
}

function withNote(notes: readonly Note[], note: Note): readonly Note[] {
  return notes.includes(note) ? notes : [...notes, note]
}

function promptOf(verdict: Verdict): number {
  if (verdict.outcome === "released") return 0
  return verdict.reported?.prompt_tokens ?? verdict.estimated.prompt_tokens
}

function termsOf({ model, bounds, operation }: Call): EstimateTerms {
  return {
    bytes_per_token: model.bytes_per_token,
    prompt_tokens_estimate: Math.min(
      Math.floor(bounds.estimate_bytes / model.bytes_per_token),
      model.context_tokens ?? Number.POSITIVE_INFINITY,
    ),
    estimate_prompt: model.estimate.prompt,
    hidden_output_tokens: model.estimate.hidden_output ?? 0,
    estimate_output: operation.generates,
  }
}

/** `durable` resolves when the end is in the ledger. After 250 ms the spool on disk is enough, even if the disk refuses it (D32). */
function closeCall(ledger: CallLedger, call: Call, onSettled: OnSettled, end: End) {
  if (!call.close()) throw new Error(`call ${end.id} was closed twice`)
  const shard = ledger.shard(call.shard)
  const durable = new Promise<void>((resolve) => {
    const timeout = setTimeout(() => void shard.spooled(end.id).then(resolve), SETTLE_WAIT_MS)
    void shard.end(end).then(() => {
      clearTimeout(timeout)
      call.releaseSlot()
      resolve()
    })
  })
  onSettled(call, end)
  return { end, durable }
}

/** The bytes of a call's output, and the tokens that the provider reported: output tokens are those of text and reasoning. */
type EstimateEvidence = Pick<
  EstimateSample,
  "prompt_tokens" | "output_bytes" | "output_tokens" | "reasoning_tokens"
>

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
