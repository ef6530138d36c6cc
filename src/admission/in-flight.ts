import type { Call, CallRegistry } from "../call/call.ts"
import { GatewayError } from "../errors.ts"
import { FairShare } from "../ledger/database/fair-share.ts"

/** The calls of this process, each from its headers until its settlement is durable (D33, D34). */
export class InFlight implements CallRegistry {
  readonly #calls = new Set<Call>()
  readonly #slots = new FairShare()
  #running = 0
  #idle: (() => void)[] = []
  #cut = false
  #finished_calls = 0
  #cut_calls = 0

  get size(): number {
    return this.#slots.used
  }

  /** Takes a slot, before the body of the call is read. Throws `overloaded` if an account has its share of `limit` (D78). */
  takeSlot(account_id: string, limit: number): void {
    if (this.#cut || !this.#slots.acquire(account_id, 1, limit)) throw new GatewayError("overloaded")
  }

  /** Counts a call as running, before anything is held. Throws `overloaded` after a cut. */
  startRunning(): void {
    if (this.#cut) throw new GatewayError("overloaded")
    this.#running += 1
  }

  /** Called for a call that was not admitted. It keeps its slot until `releaseSlot`. */
  refuse(): void {
    this.#stopRunning()
  }

  add(call: Call): void {
    this.#calls.add(call)
    if (this.#cut) call.stop()
  }

  /** Stops every running call, and every call that is being held. No other call is admitted afterwards (D34). */
  cut(): void {
    this.#cut = true
    for (const call of [...this.#calls]) call.stop()
  }

  /** Called when a call has ended. Its settlement is not durable yet. */
  close(call: Call): void {
    if (!this.#calls.delete(call)) return
    if (call.stopped.aborted) this.#cut_calls += 1
    else this.#finished_calls += 1
    this.#stopRunning()
  }

  get ended(): { readonly finished: number; readonly cut: number } {
    return { finished: this.#finished_calls, cut: this.#cut_calls }
  }

  /** Releases a slot, because the call was refused or its settlement is durable. */
  releaseSlot(account_id: string): void {
    this.#slots.release(account_id, 1)
  }

  calls(): readonly Call[] {
    return [...this.#calls]
  }

  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #stopRunning(): void {
    this.#running -= 1
    if (this.#running > 0) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}
