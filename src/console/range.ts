/** The spans of time that the console looks at. */
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

/** From when to when: until `now_ms`, as `from` and `to` of a query. */
export function spanOf(range: Range, now_ms: number): { from: string; to: string } {
  const from = new Date(now_ms - HOURS[range] * 3_600_000)
  return { from: from.toISOString(), to: new Date(now_ms).toISOString() }
}

/**
 * How long to wait before asking again: `least_ms`, or twenty times what the last answer took, so that a page that is left open
 * keeps busy books from their work for a twentieth of the time at most.
 */
export function pauseAfter(took_ms: number, least_ms: number): number {
  return Math.max(least_ms, 20 * took_ms)
}
