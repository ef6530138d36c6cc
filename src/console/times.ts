/** Formats times for people, in UTC, because days, limits and reports are in UTC too. */

const DATE = { month: "short", day: "numeric" } as const
const CLOCK = { hour: "2-digit", minute: "2-digit" } as const
const SECOND = { second: "2-digit" } as const

/** An RFC 3339 time with its zone: `Nov 21, 2026, 09:33:00 UTC`. */
export function showMoment(text: string): string {
  const shown = formatted(text, { year: "numeric", ...DATE, ...CLOCK, ...SECOND })
  return shown === text ? text : `${shown} UTC`
}

/** For a list: in another year than this one without the seconds, and in this year without the year. */
export function showBrief(text: string, now_ms: number): string {
  const is_this_year = text.slice(0, 4) === new Date(now_ms).toISOString().slice(0, 4)
  return formatted(
    text,
    is_this_year ? { ...DATE, ...CLOCK, ...SECOND } : { year: "numeric", ...DATE, ...CLOCK },
  )
}

/** The same time to the millisecond: `2026-11-21 09:33:00.000 UTC`. */
export function showUtc(text: string): string {
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? text : at.toISOString().replace("T", " ").replace("Z", " UTC")
}

/** `380 ms`, `2.42 s`, `1 min 5 s`, `3 h 20 min`, `2 d 4 h`. */
export function showDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 59_995) return `${Number((ms / 1_000).toPrecision(3))} s`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 3_600) return pair(seconds, 60, "min", 1, "s")
  if (seconds < 86_400) return pair(seconds, 3_600, "h", 60, "min")
  return pair(seconds, 86_400, "d", 3_600, "h")
}

/** A relative time: `just now`, `5 min ago`, `in 3 d`. */
export function showAgo(text: string, now_ms: number): string {
  const ms = now_ms - Date.parse(text)
  if (Number.isNaN(ms)) return text
  if (Math.abs(ms) < 10_000) return "just now"
  const [size_ms, unit] = SIZES.find(([least]) => Math.abs(ms) >= least) ?? [1_000, "s"]
  const count = Math.floor(Math.abs(ms) / size_ms)
  return ms > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`
}

const SIZES = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
] as const

/** Time labels of an axis, from seconds since 1970: the time of day, with the date where it changes. */
export function showAxisTimes(values_s: readonly number[]): readonly string[] {
  const texts = values_s.map((value_s) => new Date(value_s * 1_000).toISOString())
  const days = texts.map((text) => formatted(text, DATE))
  const clocks = texts.map((text) => formatted(text, CLOCK))
  if (new Set(clocks).size === 1) return days
  return clocks.map((clock, at) => (days[at] === days[at - 1] ? clock : `${clock}\n${days[at]}`))
}

function pair(seconds: number, size: number, unit: string, rest_size: number, rest_unit: string): string {
  const rest = Math.floor((seconds % size) / rest_size)
  const whole = `${Math.floor(seconds / size)} ${unit}`
  return rest === 0 ? whole : `${whole} ${rest} ${rest_unit}`
}

function formatted(text: string, style: Intl.DateTimeFormatOptions): string {
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) return text
  return new Intl.DateTimeFormat(undefined, { ...style, timeZone: "UTC", hourCycle: "h23" }).format(at)
}

export const ranges = ["1h", "24h", "7d", "30d"] as const
export type TimeRange = (typeof ranges)[number]

const HOURS: Readonly<Record<TimeRange, number>> = { "1h": 1, "24h": 24, "7d": 7 * 24, "30d": 30 * 24 }

export const RANGE_NAMES: Readonly<Record<TimeRange, string>> = {
  "1h": "last hour",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
}

export function rangeOf(text: string | undefined): TimeRange {
  return ranges.find((range) => range === text) ?? "24h"
}

/** The range until `now_ms`, as `from` and `to` of a query. */
export function spanOf(range: TimeRange, now_ms: number): { from: string; to: string } {
  const from = new Date(now_ms - HOURS[range] * 3_600_000)
  return { from: from.toISOString(), to: new Date(now_ms).toISOString() }
}

/** The pause before the next poll, so that an open page uses at most a twentieth of a busy database's time. */
export function pauseAfter(took_ms: number, least_ms: number): number {
  return Math.max(least_ms, 20 * took_ms)
}
