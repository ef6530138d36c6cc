import type { Model, Route } from "../config/config.ts"
import { ledgerTime } from "../id.ts"
import type { AttemptEntry, Hold, Rated } from "../ledger/entries.ts"
import type { Evidence } from "../meter/reading.ts"
import type { Price, Rate, ServiceTier } from "../money.ts"
import type { Operation } from "../operations/operation.ts"
import type { Trace } from "../traces/trace.ts"
import type { Ending, LostAttempt, ProviderIds } from "../wire/call.ts"
import { printTime } from "../wire/time.ts"
import type { UsageLimits } from "../wire/usage.ts"
import { Cutoff, type Signal } from "./cutoff.ts"

export interface CostBounds {
  /** Bytes that an estimate of the prompt counts: its text, its files, and `part_tokens` for other media (D6). */
  readonly estimate_bytes: number
  /** The number of choices (D12). */
  readonly n: number
  /** The most usage that the request can cause (D1). */
  readonly limits: UsageLimits
  /** Searches that are charged if the provider counts none (D60). */
  readonly searches: number
  /** The requested service tier; null without one, or for `auto` (D70). */
  readonly service_tier: string | null
  /** True if it may be charged for tokens that the client does not see (D9). */
  readonly is_hiding: boolean
  /** True if it asks for writes to a cache for one hour (D60). */
  readonly writes_for_an_hour: boolean
}

interface Observed {
  /** The evidence so far, as if the answer ended now with `ending`. */
  evidence(ending: Ending): Evidence
}

/** The registry of calls, from admission until they are settled. */
export interface CallRegistry {
  add(call: Call): void
  close(call: Call): void
}

/** An admitted call, the one owner of its hold (D13), with the model and prices of its admission. */
export class Call {
  readonly operation: Operation
  readonly hold: Hold
  readonly model: Model
  readonly bounds: CostBounds
  /** The shard of its account (D74). */
  readonly shard: number
  readonly admitted_ms = performance.now()
  /** The remaining amounts of its budgets per minute (D99). */
  rates: Rated["rates"]
  upstream: string | null = null
  /** The ids of the attempt that was answered (D86). */
  provider_ids: ProviderIds = NOTHING
  /** Whole milliseconds from admission to the first output; null before it. */
  ttft_ms: number | null = null
  trace: Trace | null = null
  /** The relay of its answer, for the checkpoint (D13); null before the answer. */
  observed: Observed | null = null
  readonly #stop = new Cutoff()
  readonly #terms_ids: readonly number[]
  readonly #registry: CallRegistry
  readonly #accepted: Pick<Call, "releaseSlot">
  /** The index of the first terms of the upstream that answers. */
  #first_terms: number | null = null
  #lost_attempts = 0
  #closed = false

  /**
   * `terms_ids`: the terms of the model's routes, in the order of `termsOf`. `accepted` has its slot in the limits
   * (D33, D38).
   */
  constructor(
    operation: Operation,
    hold: Hold,
    model: Model,
    terms_ids: readonly number[],
    bounds: CostBounds,
    registry: CallRegistry,
    accepted: Pick<Call, "releaseSlot">,
    shard: number,
  ) {
    this.operation = operation
    this.hold = hold
    this.model = model
    this.#terms_ids = terms_ids
    this.bounds = bounds
    this.shard = shard
    this.#registry = registry
    this.#accepted = accepted
    registry.add(this)
  }

  /** Aborted when a shutdown's deadline cuts the call (D34). */
  get stopped(): Signal {
    return this.#stop
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Called when a provider answers with a 2xx. Each route has the same number of terms (D56). */
  answeredBy(route: Route, provider_ids: ProviderIds = NOTHING): void {
    this.upstream = route.upstream.name
    this.provider_ids = provider_ids
    this.#first_terms = this.model.routes.indexOf(route) * (this.#terms_ids.length / this.model.routes.length)
  }

  /** The terms of the upstream that answers, for this prompt size and service tier (D62, D70); null before an answer. */
  termsId(prompt_tokens: number, tier: ServiceTier | null = null): number | null {
    if (this.#first_terms === null) return null
    const at = tiersReached(tier ?? this.model, prompt_tokens)
    return this.#terms_ids[this.#first_terms + termsBefore(this.model, tier) + at] ?? null
  }

  /** The price for a prompt of this size at a service tier (D62, D70). */
  priceOf(prompt_tokens: number, tier: ServiceTier | null = null): Price {
    const rate = tier ?? this.model
    return rate.tiers[tiersReached(rate, prompt_tokens) - 1]?.price ?? rate.price
  }

  /** The journal's entry of an attempt that did not become the answer (D93). */
  attemptEntry(attempt: LostAttempt): AttemptEntry {
    const { id, account_id } = this.hold
    return { ...attempt, id, account_id, ordinal: this.#lost_attempts++, ended_at: printTime(ledgerTime()) }
  }

  noteOutput(): void {
    this.ttft_ms ??= this.duration_ms
  }

  /** Whole milliseconds since its admission. */
  get duration_ms(): number {
    return Math.round(performance.now() - this.admitted_ms)
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Ends the call. Returns false if it had already ended. */
  close(): boolean {
    if (this.#closed) return false
    this.#closed = true
    this.observed = null
    this.#registry.close(this)
    return true
  }

  /** Releases its slot in the limits, once its settlement is durable. */
  releaseSlot(): void {
    this.#accepted.releaseSlot()
  }
}

const NOTHING: ProviderIds = {}

/** The number of terms of a route before those of a service tier; 0 for the model's own. */
function termsBefore({ tiers, service_tiers }: Model, tier: ServiceTier | null): number {
  if (tier === null) return 0
  const before = service_tiers.slice(0, service_tiers.indexOf(tier))
  return before.reduce((count, other) => count + 1 + other.tiers.length, 1 + tiers.length)
}

function tiersReached({ tiers }: Rate, prompt_tokens: number): number {
  let reached = 0
  while (prompt_tokens > (tiers[reached]?.above_tokens ?? Number.POSITIVE_INFINITY)) reached += 1
  return reached
}
