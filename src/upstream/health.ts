import type { Route } from "../config/config.ts"

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000

/** What a try of an upstream says about its health; a call that was given up says nothing. */
export type Finding = "answered" | "failed" | "abandoned"

/** Ends one try; only the first report counts. */
export type Report = (finding: Finding) => void

interface Breaker {
  /** In a row. */
  failures: number
  /** Meaningful while the failures have opened the breaker. */
  open_until_ms: number
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

  /** Leave to try this upstream, or null while its breaker is open. Whoever gets leave must report what came of it. */
  enter(upstream: string): Report | null {
    if (!this.admits(upstream)) return null
    const breaker = this.#breakers.get(upstream) ?? { failures: 0, open_until_ms: 0 }
    this.#breakers.set(upstream, breaker)
    const tries = isOpen(breaker)
    const mine_until_ms = this.#now_ms() + OPEN_MS
    if (tries) breaker.open_until_ms = mine_until_ms
    let reported = false
    return (finding) => {
      if (reported) return
      reported = true
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
