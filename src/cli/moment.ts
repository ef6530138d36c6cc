import { parseTime } from "../wire/time.ts"

/** `2026-11-21 09:30:00 UTC`. */
export function moment(time: string): string {
  return `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`
}

/** For a column of times, in UTC: `11-21 09:30:00` in the year of `now`, else `2025-11-21 09:30`. */
export function briefMoment(time: string, now_ms: number): string {
  const is_recent = new Date(now_ms).toISOString().slice(0, 4) === time.slice(0, 4)
  return is_recent
    ? `${time.slice(5, 10)} ${time.slice(11, 19)}`
    : `${time.slice(0, 10)} ${time.slice(11, 16)}`
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses RFC 3339, a day (its start in UTC) or a distance from now (`24h`). Returns RFC 3339, or null. */
export function parseMoment(text: string, now_ms: number, towards: "ago" | "ahead" = "ago"): string | null {
  const [, number = "", unit = ""] = /^(\d{1,5})([mhd])$/.exec(text) ?? []
  const unit_ms = UNIT_MS[unit]
  if (unit_ms !== undefined) {
    const distance_ms = Number(number) * unit_ms
    return new Date(towards === "ago" ? now_ms - distance_ms : now_ms + distance_ms).toISOString()
  }
  const time = parseTime(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text)
  return time === null ? null : time.toISOString()
}

/** `1.2 s`, `380 ms`. */
export function span(duration_ms: number): string {
  if (duration_ms < 1_000) return `${duration_ms} ms`
  const tenths = Math.round(duration_ms / 100)
  return `${Math.floor(tenths / 10)}.${tenths % 10} s`
}
