const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/**
 * A duration in the way people write it: a whole number and a unit. A bare number is none: 15 of what?
 * The digits bound it to some days, because a timer of more than 2^31 - 1 ms would fire at once.
 */
export const DURATION = /^(?:\d{1,8}ms|\d{1,6}s|\d{1,4}m|\d{1,2}h)$/

/** `50ms`, `15s`, `5m`, `1h` in milliseconds; null when `text` is no duration. */
export function parseDuration(text: string): number | null {
  const unit_ms = UNIT_MS[text.replace(/^\d+/, "")]
  return DURATION.test(text) && unit_ms !== undefined ? Number.parseInt(text, 10) * unit_ms : null
}
