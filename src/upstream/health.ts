import type { Route } from "../config/config.ts"

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000

/** What a try of an upstream says about its health; a call that was given up says nothing. */
export type Finding = "answered" | "failed" | "abandoned"

/** How an upstream does as far as this process knows. */
export interface Standing {
  /** `open`: calls are turned away. `trying`: one call finds out whether the upstream is back. */
  readonly state: "ready" | "open" | "trying"
  /** In a row. */
  readonly failures: number
  /** When the next call may try one that is not ready; 0: the next call will. */
  readonly tries_in_ms: number | null
}

/** Ends one try; only the first report counts. */
export type Report = (finding: Finding) => void

interface Breaker {
  /** In a row. */
  failures: number
  /** Meaningful while the failures have opened the breaker. */
  open_until_ms: number
  /** Calls that are finding out whether the upstream is back. */
  trials: number
}

/**
 * A breaker per upstream name (D33), kept across reloads of the configuration: five failures in a row open it for 10 s, then one
 * call tries. While that one is under way the others are turned away, for another 10 s at most, so that a slow answer does not
 * keep the upstream shut.
 */
export class Health {
  readonly #breakers = new Map<string, Breaker>()
  readonly #now_ms: () => number

  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms
  }

  /** Whether any of these routes would be tried now: false is a 503 before any hold. */
  ready(routes: readonly Route[]): boolean {
    return routes.some((route) => this.admits(route.upstream.name))
  }

  /** Whether a call to this upstream would be tried now. */
  admits(upstream: string): boolean {
    const breaker = this.#breakers.get(upstream)
    return breaker === undefined || !isOpen(breaker) || this.#now_ms() >= breaker.open_until_ms
  }

  /** How this upstream does. */
  standing(upstream: string): Standing {
    const breaker = this.#breakers.get(upstream)
    if (breaker === undefined) return { state: "ready", failures: 0, tries_in_ms: null }
    const { failures, trials, open_until_ms } = breaker
    if (!isOpen(breaker)) return { state: "ready", failures, tries_in_ms: null }
    const tries_in_ms = Math.max(0, Math.round(open_until_ms - this.#now_ms()))
    return { state: trials > 0 ? "trying" : "open", failures, tries_in_ms }
  }

  /** Leave to try this upstream, or null while its breaker is open. Whoever gets leave must report what came of it. */
  enter(upstream: string): Report | null {
    if (!this.admits(upstream)) return null
    const breaker = this.#breakers.get(upstream) ?? { failures: 0, open_until_ms: 0, trials: 0 }
    this.#breakers.set(upstream, breaker)
    const tries = isOpen(breaker)
    const mine_until_ms = this.#now_ms() + OPEN_MS
    if (tries) {
      breaker.open_until_ms = mine_until_ms
      breaker.trials += 1
    }
    let reported = false
    return (finding) => {
      if (reported) return
      reported = true
      if (tries) breaker.trials -= 1
      if (finding === "answered") {
        breaker.failures = 0
      } else if (finding === "failed") {
        breaker.failures += 1
        if (tries || breaker.failures === FAILURES_TO_OPEN) breaker.open_until_ms = this.#now_ms() + OPEN_MS
      } else if (tries && breaker.open_until_ms === mine_until_ms) {
        breaker.open_until_ms = this.#now_ms()
      }
    }
  }
}

function isOpen(breaker: Breaker): boolean {
  return breaker.failures >= FAILURES_TO_OPEN
}
