import type { Config, Route } from "../config/config.ts"
import type { UpstreamBody } from "../wire/statistics.ts"

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000

/**
 * The result of an attempt. `failed`: no connection, no answer in time, or a 503, 504 or 529. `refused`: another 5xx, which
 * may be the request's own fault. `abandoned` says nothing about the upstream, and does not count.
 */
export type AttemptResult = "answered" | "failed" | "refused" | "abandoned"

/** The status of an upstream's circuit breaker. */
export interface BreakerStatus {
  /** `open`: calls are refused. `trying`: one call tests whether the upstream works again. */
  readonly state: "ready" | "open" | "trying"
  /** In a row. */
  readonly failures: number
  /** Time until a call may try the upstream again; 0: the next call will. Null when `ready`. */
  readonly tries_in_ms: number | null
}

/** Reports the result of an attempt. Only the first report counts. */
export type Report = (result: AttemptResult) => void

interface Breaker {
  /** In a row. */
  failures: number
  /** The first key with a refused request among these failures. */
  refused_key: string | null
  /** Whether these failures are more than refusals of one key. */
  is_shared: boolean
  /** Used while the breaker is open. */
  open_until_ms: number
  /** Calls that test whether the upstream works again. */
  trials: number
}

/**
 * A circuit breaker per upstream name (D33), kept across reloads. Five failures in a row open it for 10 s, unless all are
 * refusals of one key's requests. Then one call tries the upstream. Other calls are refused meanwhile, for at most another 10 s, so that one slow answer does not keep
 * the breaker open.
 */
export class CircuitBreakers {
  readonly #breakers = new Map<string, Breaker>()
  readonly #now_ms: () => number

  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms
  }

  /** Whether a call would try any of these routes now. If not, it is refused with a 503 before anything is held. */
  ready(routes: readonly Route[]): boolean {
    for (const { upstream } of routes) if (this.admits(upstream.name)) return true
    return false
  }

  /** Whether a call would try this upstream now. */
  admits(upstream: string): boolean {
    const breaker = this.#breakers.get(upstream)
    return breaker === undefined || !isOpen(breaker) || this.#now_ms() >= breaker.open_until_ms
  }

  /** The status of this upstream's breaker. */
  status(upstream: string): BreakerStatus {
    const breaker = this.#breakers.get(upstream)
    if (breaker === undefined) return { state: "ready", failures: 0, tries_in_ms: null }
    const { failures, trials, open_until_ms } = breaker
    if (!isOpen(breaker)) return { state: "ready", failures, tries_in_ms: null }
    const tries_in_ms = Math.max(0, Math.round(open_until_ms - this.#now_ms()))
    return { state: trials > 0 ? "trying" : "open", failures, tries_in_ms }
  }

  /** Permission for a key to try this upstream, or null while its breaker is open. The caller must report the result. */
  enter(upstream: string, key_id: string): Report | null {
    if (!this.admits(upstream)) return null
    const breaker = this.#breakers.get(upstream) ?? CLOSED()
    this.#breakers.set(upstream, breaker)
    const tries = isOpen(breaker)
    const mine_until_ms = this.#now_ms() + OPEN_MS
    if (tries) {
      breaker.open_until_ms = mine_until_ms
      breaker.trials += 1
    }
    let reported = false
    return (result) => {
      if (reported) return
      reported = true
      if (tries) breaker.trials -= 1
      if (result === "answered") {
        if (breaker.failures > 0) Object.assign(breaker, NO_FAILURES)
      } else if (result !== "abandoned") {
        const was_open = isOpen(breaker)
        noteFailure(breaker, result, key_id)
        if (tries || (!was_open && isOpen(breaker))) breaker.open_until_ms = this.#now_ms() + OPEN_MS
      } else if (tries && breaker.open_until_ms === mine_until_ms) {
        breaker.open_until_ms = this.#now_ms()
      }
    }
  }
}

const NO_FAILURES = { failures: 0, refused_key: null, is_shared: false }
const CLOSED = (): Breaker => ({ ...NO_FAILURES, open_until_ms: 0, trials: 0 })

/** D33: refusals of one key alone do not open the breaker. */
function noteFailure(breaker: Breaker, result: "failed" | "refused", key_id: string): void {
  breaker.failures += 1
  if (result === "refused") breaker.refused_key ??= key_id
  if (result === "failed" || breaker.refused_key !== key_id) breaker.is_shared = true
}

function isOpen({ failures, is_shared }: Breaker): boolean {
  return failures >= FAILURES_TO_OPEN && is_shared
}

/** The statuses of the configured upstreams in this process, in the order of the file (D51). */
export function upstreamStatuses(
  { upstreams, models }: Pick<Config, "upstreams" | "models">,
  breakers: CircuitBreakers,
  worker: number | null,
): readonly UpstreamBody[] {
  return upstreams.map(({ name, family }) => ({
    name,
    family,
    models: models
      .filter(({ routes }) => routes.some(({ upstream }) => upstream.name === name))
      .map((model) => model.name),
    worker,
    ...breakers.status(name),
  }))
}
