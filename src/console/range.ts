/** The time ranges of the console. */
export const ranges = ["1h", "24h", "7d", "30d"] as const
export type Range = (typeof ranges)[number]

const HOURS: Readonly<Record<Range, number>> = { "1h": 1, "24h": 24, "7d": 7 * 24, "30d": 30 * 24 }

export const RANGE_NAMES: Readonly<Record<Range, string>> = {
  "1h": "last hour",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
}

export function rangeOf(text: string | undefined): Range {
  return ranges.find((range) => range === text) ?? "24h"
}

/** The range until `now_ms`, as `from` and `to` of a query. */
export function spanOf(range: Range, now_ms: number): { from: string; to: string } {
  const from = new Date(now_ms - HOURS[range] * 3_600_000)
  return { from: from.toISOString(), to: new Date(now_ms).toISOString() }
}

/**
 * The pause before the next poll: `least_ms`, or twenty times the duration of the last response, so that an open page uses at most
 * a twentieth of a busy database's time.
 */
export function pauseAfter(took_ms: number, least_ms: number): number {
  return Math.max(least_ms, 20 * took_ms)
}
