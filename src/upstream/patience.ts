import type { Upstream } from "../config/config.ts"
import { Cutoff, type Signal } from "../cutoff.ts"

/** Why nobody waits for a provider's answer any more. */
export type Impatience = "client_left" | "gateway_stopped"

/**
 * How long a provider's answer is wanted: until the client leaves, and for `drain_ms` longer when the upstream's
 * policy is to drain (D9), or until a shutdown's deadline cuts the call (D34).
 */
export class Patience {
  readonly #over = new Cutoff()
  readonly #client: Signal
  readonly #stopped: Signal
  readonly #drain_ms: number | null
  #drain: Timer | undefined
  #reason: Impatience | null = null
  /** When the client left. */
  #left_ms: number | null = null

  constructor(client: Signal, stopped: Signal, drain_ms: number | null) {
    this.#client = client
    this.#stopped = stopped
    this.#drain_ms = drain_ms
    client.addEventListener("abort", this.#leave)
    stopped.addEventListener("abort", this.#stop)
    if (client.aborted) this.#leave()
    if (stopped.aborted) this.#stop()
  }

  /** Aborted when the answer is not wanted any more. */
  get signal(): Signal {
    return this.#over
  }

  /** What happened to the other side, also while an answer is still drained; null while the client waits. */
  get reason(): Impatience | null {
    return this.#reason
  }

  /** A provider is about to be asked: for a client that is gone none is, whatever the policy (D9). */
  asking(): void {
    if (this.#reason !== null) this.#over.abort()
  }

  /** How much of a time to drain is left (D9): all of it while the client waits. */
  remaining(drain_ms: number): number {
    return this.#left_ms === null ? drain_ms : drain_ms - (performance.now() - this.#left_ms)
  }

  /** Stops watching: the answer is there. */
  end(): void {
    clearTimeout(this.#drain)
    this.#client.removeEventListener("abort", this.#leave)
    this.#stopped.removeEventListener("abort", this.#stop)
  }

  readonly #leave = (): void => {
    this.#reason ??= "client_left"
    this.#left_ms = performance.now()
    if (this.#drain_ms === null) this.#over.abort()
    else this.#drain = setTimeout(() => this.#over.abort(), this.#drain_ms)
  }

  readonly #stop = (): void => {
    this.#reason ??= "gateway_stopped"
    this.#over.abort()
  }
}

/** For how long an upstream's answer is read on once the client has left; null when it is cut at once (D9). */
export function drainFor({ on_disconnect }: Upstream, stream: boolean): number | null {
  const policy = stream ? on_disconnect.stream : on_disconnect.json
  return policy === "drain" ? on_disconnect.drain_for_ms : null
}
