import type { Outcome } from "./client.ts"
import type { JobReport } from "./job.ts"
import { Latencies } from "./latencies.ts"

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
  #made = 0
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
    this.#made += 1
    if (failure !== null) {
      this.#failures[failure] = (this.#failures[failure] ?? 0) + 1
      return
    }
    if (this.#measures(end_ms)) this.#calls += 1
    if (!this.#measures(start_ms)) return
    this.#latency.record(end_ms - start_ms)
    if (first_ms !== null) this.#ttft.record(first_ms - start_ms)
  }

  report(): Omit<JobReport, "cpu_ms" | "memory"> {
    return {
      measured_ms: this.#until_ms - this.#from_ms,
      calls: this.#calls,
      events: this.#events,
      made: this.#made,
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
