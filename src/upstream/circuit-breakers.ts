import type { Config, Route } from "../config/config.ts"
import type { Trouble } from "../wire/alerts.ts"
import type { UpstreamBody } from "../wire/statistics.ts"
import { KeyCooldowns } from "./candidates.ts"

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000

/**
 * The result of an attempt. `unreachable`: nothing could be sent, which proves that the upstream is down. `failed`: no answer,
 * or a 5xx, which may be the request's own fault. `abandoned` says nothing about the upstream, and does not count.
 */
export type AttemptResult = "answered" | "unreachable" | "failed" | "abandoned"

interface BreakerStatus {
  /** `open`: calls are refused. `trying`: one call tests whether the upstream works again. */
  readonly state: "ready" | "open" | "trying"
  /** In a row. */
  readonly failures: number
  /** Time until a call may try the upstream again; 0 if the next call will. Null when `ready`. */
  readonly tries_in_ms: number | null
  /** Number of accounts for which it is skipped although it is not skipped for all. */
  readonly accounts_skipped: number
}

/** Reports the result of an attempt. Only the first report counts. */
type BreakerReport = (result: AttemptResult) => void

interface Breaker {
  /** In a row. */
  failures: number
  /** The account of the first of these failures that happened after the call was sent. */
  failed_account: string | null
  /** True if these failures open it. */
  opens: boolean
  /** True if one of them could not be sent. */
  is_unreachable: boolean
  /** Used while the breaker is open. */
  open_until_ms: number
  /** Calls that test whether the upstream works again. */
  trials: number
}

/** Maximum number of accounts' breakers. Above it, those that are not open are dropped. */
const MAX_ACCOUNTS = 10_000

/**
 * Circuit breakers (D33), kept across reloads: one for each upstream, and one for each account whose calls failed
 * there. Five failures in a row open a breaker for 10 s. The upstream's breaker opens only if they are of two accounts
 * or one was `unreachable`; without an `unreachable` one it refuses only accounts whose last call failed. After the 10
 * s one call tries the upstream. Other calls are refused meanwhile, for at most another 10 s, so that one slow answer
 * does not keep the breaker open.
 */
export class CircuitBreakers {
  readonly cooldowns: KeyCooldowns
  readonly #shared = new Map<string, Breaker>()
  /** By upstream and account, for accounts whose last call failed. */
  readonly #own = new Map<string, Map<string, Breaker>>()
  readonly #now_ms: () => number

  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms
    this.cooldowns = new KeyCooldowns(now_ms)
  }

  /** True if a call of the account would try any of these routes now. If not, it is refused with a 503 before anything is held. */
  ready(routes: readonly Route[], account_id: string): boolean {
    for (const { upstream } of routes) if (this.admits(upstream.name, account_id)) return true
    return false
  }

  /** True if a call of the account would try this upstream now; without an account, by the upstream's breaker alone. */
  admits(upstream: string, account_id: string | null = null): boolean {
    const shared = this.#shared.get(upstream)
    if (account_id === null) return this.#admits(shared)
    const own = this.#own.get(upstream)?.get(account_id)
    // Failures that requests can cause do not refuse an account whose last call was answered.
    if (own === undefined && shared?.is_unreachable !== true) return true
    return this.#admits(shared) && this.#admits(own)
  }

  status(upstream: string): BreakerStatus {
    const accounts_skipped = [...(this.#own.get(upstream)?.values() ?? [])].filter(
      (breaker) => !this.#admits(breaker),
    ).length
    const breaker = this.#shared.get(upstream)
    if (breaker === undefined) return { state: "ready", failures: 0, tries_in_ms: null, accounts_skipped }
    const { failures, trials, open_until_ms } = breaker
    if (!isOpen(breaker)) return { state: "ready", failures, tries_in_ms: null, accounts_skipped }
    const tries_in_ms = Math.max(0, Math.round(open_until_ms - this.#now_ms()))
    return { state: trials > 0 ? "trying" : "open", failures, tries_in_ms, accounts_skipped }
  }

  /** Permission for an account to try this upstream, or null while a breaker is open. The caller must report the result. */
  tryAcquire(upstream: string, account_id: string): BreakerReport | null {
    if (!this.admits(upstream, account_id)) return null
    const shared = this.#shared.get(upstream) ?? CLOSED()
    this.#shared.set(upstream, shared)
    const own = this.#own.get(upstream)?.get(account_id) ?? null
    const shared_trial_ms = this.#begin(shared)
    const own_trial_ms = own === null ? null : this.#begin(own)
    let reported = false
    return (result) => {
      if (reported) return
      reported = true
      this.#end(shared, shared_trial_ms, result, account_id)
      if (own !== null) this.#end(own, own_trial_ms, result, null)
      else if (result === "failed" || result === "unreachable")
        this.#end(this.#ownOf(upstream, account_id), null, result, null)
      if (result === "answered") this.#own.get(upstream)?.delete(account_id)
    }
  }

  #ownOf(upstream: string, account_id: string): Breaker {
    const of_upstream = this.#own.get(upstream) ?? new Map<string, Breaker>()
    this.#own.set(upstream, of_upstream)
    if (of_upstream.size >= MAX_ACCOUNTS)
      for (const [id, breaker] of of_upstream) if (!isOpen(breaker)) of_upstream.delete(id)
    const breaker = of_upstream.get(account_id) ?? CLOSED()
    of_upstream.set(account_id, breaker)
    return breaker
  }

  #admits(breaker: Breaker | undefined): boolean {
    return breaker === undefined || !isOpen(breaker) || this.#now_ms() >= breaker.open_until_ms
  }

  /**
   * Begins an attempt. If it tests whether the upstream works again, returns until when other calls are refused;
   * otherwise null.
   */
  #begin(breaker: Breaker): number | null {
    if (!isOpen(breaker)) return null
    breaker.open_until_ms = this.#now_ms() + OPEN_MS
    breaker.trials += 1
    return breaker.open_until_ms
  }

  /** Ends an attempt. `trial_ms`: the result of `#begin`. The account is null for an account's own breaker. */
  #end(breaker: Breaker, trial_ms: number | null, result: AttemptResult, account_id: string | null): void {
    if (trial_ms !== null) breaker.trials -= 1
    if (result === "answered") {
      if (breaker.failures > 0) Object.assign(breaker, NO_FAILURES)
    } else if (result !== "abandoned") {
      const was_open = isOpen(breaker)
      noteFailure(breaker, result, account_id)
      if (trial_ms !== null || (!was_open && isOpen(breaker)))
        breaker.open_until_ms = this.#now_ms() + OPEN_MS
    } else if (trial_ms !== null && breaker.open_until_ms === trial_ms) {
      breaker.open_until_ms = this.#now_ms()
    }
  }
}

const NO_FAILURES = { failures: 0, failed_account: null, opens: false, is_unreachable: false }
const CLOSED = (): Breaker => ({ ...NO_FAILURES, open_until_ms: 0, trials: 0 })

/** Opens the breaker of an upstream only for failures of two accounts, or one that could not be sent (D33). */
function noteFailure(breaker: Breaker, result: "unreachable" | "failed", account_id: string | null): void {
  breaker.failures += 1
  breaker.is_unreachable ||= result === "unreachable"
  if (account_id === null || result === "unreachable") {
    breaker.opens = true
    return
  }
  breaker.failed_account ??= account_id
  if (breaker.failed_account !== account_id) breaker.opens = true
}

function isOpen({ failures, opens }: Breaker): boolean {
  return failures >= FAILURES_TO_OPEN && opens
}

/** The possible troubles of the configured upstreams; `is_on` if this process has them now. */
export function troublesOf(
  { upstreams }: Pick<Config, "upstreams">,
  breakers: CircuitBreakers,
): readonly Trouble[] {
  return upstreams.flatMap(({ name: upstream, keys }) => [
    { upstream, key: null, trouble: "down", is_on: breakers.status(upstream).state !== "ready" },
    ...keys.map(
      (key): Trouble => ({
        upstream,
        key: key.name,
        trouble: "account_refused",
        is_on: breakers.cooldowns.status(key)?.reason === "refused",
      }),
    ),
  ])
}

/** The statuses of the configured upstreams in this process, in the order of the file (D51). */
export function upstreamStatuses(
  { upstreams, models }: Pick<Config, "upstreams" | "models">,
  breakers: CircuitBreakers,
  worker: number | null,
): readonly UpstreamBody[] {
  return upstreams.map(({ name, family, keys }) => ({
    name,
    family,
    models: models
      .filter(({ routes }) => routes.some(({ upstream }) => upstream.name === name))
      .map((model) => model.name),
    worker,
    ...breakers.status(name),
    keys: keys.map((key) => {
      const cooldown = breakers.cooldowns.status(key)
      return { name: key.name, state: cooldown?.reason ?? "ready", rests_ms: cooldown?.remaining_ms ?? null }
    }),
  }))
}
