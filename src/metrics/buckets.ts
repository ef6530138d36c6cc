/** Histogram buckets, in the unit of the metric. */

/** The buckets that the OpenTelemetry GenAI conventions recommend (D53). */
export const OPERATION_S = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]
export const FIRST_TOKEN_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
]
export const PER_TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
export const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)

/** For the gateway's own latencies: from 125 microseconds to 4 seconds. */
export const OWN_S = Array.from({ length: 16 }, (_, power) => 0.000125 * 2 ** power)
/** For the number of items in a batched ledger statement. */
export const BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256]
