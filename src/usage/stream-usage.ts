import type { UsageReading } from "../wire/usage.ts"
import { type Counted, type Expected, merged, readingOf, type UsageRules } from "./reading.ts"

/** The usage of a stream so far: from event to event the last valid number wins (D4, D87). */
export class StreamUsage {
  readonly #rules: UsageRules
  #counted: Counted | null = null
  #reading: Extract<UsageReading, { state: "valid" }> | null = null
  #is_invalid = false

  constructor(rules: UsageRules) {
    this.#rules = rules
  }

  /**
   * Takes the counts of an event. Returns whether they are valid, together with what earlier events counted if `adds` is
   * set; invalid ones change nothing.
   */
  take(next: Counted | "missing" | "invalid", expected: Expected, adds: boolean): boolean {
    if (next === "missing") return false
    const valid = next === "invalid" ? null : this.#valid(next, expected, adds)
    if (valid === null) this.#is_invalid = true
    else [this.#counted, this.#reading] = valid
    return valid !== null
  }

  #valid(next: Counted, expected: Expected, adds: boolean) {
    const own = adds ? null : readingOf(next, this.#rules, expected)
    if (own?.state === "invalid") return null
    const counted = merged(this.#counted, next)
    const reading = counted === next && own !== null ? own : readingOf(counted, this.#rules, expected)
    return reading.state === "valid" ? ([counted, reading] as const) : null
  }

  /** The usage that counts; why there is none otherwise. */
  get reading(): UsageReading {
    return this.#reading ?? { state: this.#is_invalid ? "invalid" : "missing" }
  }
}
