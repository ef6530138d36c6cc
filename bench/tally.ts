import type { Report } from "./job.ts"
import { Latencies } from "./latencies.ts"

/** What became of one call; times as `performance.now()` has them. */
export interface Outcome {
  readonly start_ms: number
  readonly end_ms: number
  /** The first event with output; of a JSON answer its first byte. Null when nothing came. */
  readonly first_ms: number | null
  /** What went wrong, in a few words; null when nothing did. */
  readonly failure: string | null
}

/**
 * Counts what a load does. Times are of calls that began within the measured time, whenever they end. Counts are of
 * everything that happened within the measured time.
 */
export class Tally {
  readonly #latency = new Latencies()
  readonly #ttft = new Latencies()
  readonly #inter_chunk = new Latencies()
  readonly #failures: Record<string, number> = {}
  #from_ms = Number.POSITIVE_INFINITY
  #until_ms = Number.POSITIVE_INFINITY
  #calls = 0
  #events = 0

  /** Sets the measured time; its end may be set later. */
  measure(from_ms: number, until_ms = Number.POSITIVE_INFINITY): void {
    this.#from_ms = from_ms
    this.#until_ms = until_ms
  }

  stop(until_ms: number): void {
    this.#until_ms = until_ms
  }

  noteEvents(count: number, gap_ms: number | null, now_ms: number): void {
    if (!this.#measures(now_ms)) return
    this.#events += count
    if (gap_ms !== null) this.#inter_chunk.record(gap_ms)
    if (count > 1) this.#inter_chunk.record(0, count - 1)
  }

  noteCall({ start_ms, end_ms, first_ms, failure }: Outcome): void {
    if (failure !== null) {
      this.#failures[failure] = (this.#failures[failure] ?? 0) + 1
      return
    }
    if (this.#measures(end_ms)) this.#calls += 1
    if (!this.#measures(start_ms)) return
    this.#latency.record(end_ms - start_ms)
    if (first_ms !== null) this.#ttft.record(first_ms - start_ms)
  }

  report(): Omit<Report, "cpu_ms" | "grown_bytes"> {
    return {
      measured_ms: this.#until_ms - this.#from_ms,
      calls: this.#calls,
      events: this.#events,
      failures: this.#failures,
      latency: this.#latency.encoded,
      ttft: this.#ttft.encoded,
      inter_chunk: this.#inter_chunk.encoded,
    }
  }

  #measures(ms: number): boolean {
    return ms >= this.#from_ms && ms <= this.#until_ms
  }
}
