import { Cutoff, type Signal } from "../call/cutoff.ts"
import type { Upstream } from "../config/config.ts"

/** The reason for which the gateway stops waiting for a provider's answer. */
type AbandonReason = "client_left" | "gateway_stopped"

/** Delay before it watches for a disconnect, because most JSON calls have ended by then. */
const WATCH_AFTER_MS = 100

/**
 * The wait for a provider's answer. It ends at a shutdown (D34), or when the client has left and the drain time is over
 * (D9).
 */
export class AnswerWait {
  readonly #cutoff = new Cutoff()
  readonly #client: Signal
  readonly #stopped: Signal
  /** Time for which the answer is read on once the client has left; null to stop immediately. */
  #drain_ms: number | null = null
  readonly #wait: Timer
  #is_watching = false
  #drain: Timer | undefined
  #reason: AbandonReason | null = null
  #left_ms: number | null = null

  constructor(client: Signal, stopped: Signal) {
    this.#client = client
    this.#stopped = stopped
    this.#wait = setTimeout(this.#watchClient, WATCH_AFTER_MS)
    stopped.addEventListener("abort", this.#stop)
    this.#checkClient()
    if (stopped.aborted) this.#stop()
  }

  get signal(): Signal {
    return this.#cutoff
  }

  /** The reason for which the client no longer waits, even if the answer is still read; null while it waits. */
  get reason(): AbandonReason | null {
    this.#checkClient()
    return this.#reason
  }

  /** The reason for which the wait is over; null while it lasts. */
  get abandoned(): AbandonReason | null {
    // Read first, because it checks for a disconnect, which may end the wait.
    const { reason } = this
    return this.#cutoff.aborted ? reason : null
  }

  /**
   * Called right before a provider is asked. Ends the wait if the client has left (D9). `drain_ms`: time to read on
   * after a disconnect.
   */
  beginAttempt(drain_ms: number | null): void {
    this.#drain_ms = drain_ms
    if (this.reason !== null) this.#cutoff.abort()
  }

  /** Milliseconds since the client left; 0 while it waits. */
  get gone_for_ms(): number {
    return this.#left_ms === null ? 0 : performance.now() - this.#left_ms
  }

  /** Stops watching the client: the answer is complete, or the relay of a stream watches it from now on. */
  end(): void {
    clearTimeout(this.#wait)
    clearTimeout(this.#drain)
    if (this.#is_watching) this.#client.removeEventListener("abort", this.#onClientLeft)
    this.#stopped.removeEventListener("abort", this.#stop)
  }

  readonly #watchClient = (): void => {
    this.#is_watching = true
    this.#client.addEventListener("abort", this.#onClientLeft)
    this.#checkClient()
  }

  #checkClient(): void {
    if (this.#client.aborted && this.#left_ms === null) this.#onClientLeft()
  }

  readonly #onClientLeft = (): void => {
    this.#reason ??= "client_left"
    this.#left_ms = performance.now()
    if (this.#drain_ms === null) this.#cutoff.abort()
    else this.#drain = setTimeout(() => this.#cutoff.abort(), this.#drain_ms)
  }

  readonly #stop = (): void => {
    this.#reason ??= "gateway_stopped"
    this.#cutoff.abort()
  }
}

/** The drain time of a JSON answer once the client has left (D9), at most `total`; null to cut it. */
export function jsonDrain({ on_disconnect, timeouts }: Upstream): number | null {
  return on_disconnect.json === "drain" ? timeouts.total_ms : null
}

/**
 * The same for a stream. `auto` drains if the charge depends on the provider's usage; otherwise it reads on for
 * `leave_wait_ms`.
 */
export function streamDrain(
  { on_disconnect: { stream, drain_for_ms } }: Upstream,
  leave_wait_ms: number,
  is_hiding: () => boolean,
): number | null {
  if (stream === "abort") return null
  return stream === "drain" || is_hiding() ? drain_for_ms : leave_wait_ms
}
