const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/**
 * A duration: a whole number and a unit. The unit is required, because a bare number would be ambiguous. The number of
 * digits limits it to some days, because a timer of more than 2^31 - 1 ms would fire immediately.
 */
export const DURATION = /^(?:\d{1,8}ms|\d{1,6}s|\d{1,4}m|\d{1,2}h)$/

/** `50ms`, `15s`, `5m`, `1h` in milliseconds; null when `text` is no duration. */
export function parseDuration(text: string): number | null {
  const unit_ms = UNIT_MS[text.replace(/^\d+/, "")]
  return DURATION.test(text) && unit_ms !== undefined ? Number.parseInt(text, 10) * unit_ms : null
}
