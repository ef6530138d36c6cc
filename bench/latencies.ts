import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
} from "hdr-histogram-js"

export interface LatencySummary {
  readonly count: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

const US_PER_MS = 1000

/** A distribution of times as an HDR histogram: whole microseconds, three significant digits. */
export class Latencies {
  readonly #histogram: Histogram

  constructor(histogram: Histogram = build({ numberOfSignificantValueDigits: 3 })) {
    this.#histogram = histogram
    histogram.autoResize = true
  }

  /** Decodes a distribution; throws when `encoded` is none. */
  static decode(encoded: string): Latencies {
    return new Latencies(decodeFromCompressedBase64(encoded, 32))
  }

  static merged(parts: readonly Latencies[]): Latencies {
    const all = new Latencies()
    for (const part of parts) all.#histogram.add(part.#histogram)
    return all
  }

  record(ms: number, count = 1): void {
    this.#histogram.recordValueWithCount(Math.max(0, Math.round(ms * US_PER_MS)), count)
  }

  get count(): number {
    return this.#histogram.totalCount
  }

  /** The value that `quantile` of all values, from 0 to 1, do not exceed; 0 when there are none. */
  at(quantile: number): number {
    return this.count === 0 ? 0 : this.#histogram.getValueAtPercentile(quantile * 100) / US_PER_MS
  }

  get summary(): LatencySummary {
    const { count } = this
    return {
      count,
      p50: this.at(0.5),
      p90: this.at(0.9),
      p99: this.at(0.99),
      max: count === 0 ? 0 : this.#histogram.maxValue / US_PER_MS,
    }
  }

  /** The histogram in HdrHistogram's compressed form. */
  get encoded(): string {
    return encodeIntoCompressedBase64(this.#histogram)
  }
}
