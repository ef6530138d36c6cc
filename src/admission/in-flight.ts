import type { Call, Places } from "../call.ts"
import { GatewayError } from "../errors.ts"

/**
 * The calls of this process. A call counts for the limit from admission until its settlement is durable (D33). It
 * counts as running until its settlement has begun; a shutdown waits for that (D34).
 */
export class InFlight implements Places {
  readonly #calls = new Set<Call>()
  #places = 0
  #running = 0
  #idle: (() => void)[] = []
  #cut = false
  #finished_calls = 0
  #cut_calls = 0

  /** The number of calls that count for the limit. */
  get size(): number {
    return this.#places
  }

  /** Throws `overloaded` at `limit` calls. Counts nothing, so it can be the first check of a request. */
  check(limit: number): void {
    if (this.#cut || this.#places >= limit) throw new GatewayError("overloaded")
  }

  /** Counts a call, before anything is held. Throws `overloaded` at `limit` calls. */
  enter(limit: number): void {
    this.check(limit)
    this.#places += 1
    this.#running += 1
  }

  /** Removes a call that was not admitted. */
  refuse(): void {
    this.leave()
    this.#rest()
  }

  add(call: Call): void {
    this.#calls.add(call)
    if (this.#cut) call.stop()
  }

  /** Stops every running call, and every call whose hold is being made. No other call is admitted from now on (D34). */
  cut(): void {
    this.#cut = true
    for (const call of [...this.#calls]) call.stop()
  }

  /** The call has ended; its settlement is on the way to the ledger. */
  close(call: Call): void {
    if (!this.#calls.delete(call)) return
    if (call.stopped.aborted) this.#cut_calls += 1
    else this.#finished_calls += 1
    this.#rest()
  }

  /** How many calls have ended so far, by themselves and by a cut. */
  get ended(): { readonly finished: number; readonly cut: number } {
    return { finished: this.#finished_calls, cut: this.#cut_calls }
  }

  /** The settlement of a call is durable: it no longer counts for the limit. */
  leave(): void {
    this.#places -= 1
  }

  /** The running calls. */
  calls(): readonly Call[] {
    return [...this.#calls]
  }

  /** Resolves when no call runs. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #rest(): void {
    this.#running -= 1
    if (this.#running > 0) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}
