/** Times in requests and answers: RFC 3339 with an offset, printed in UTC with milliseconds. */

const TIME =
  /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/
const LATEST_MS = Date.UTC(9999, 11, 31)

/** The time in `text`, truncated to milliseconds; null if it is not an RFC 3339 time from 1970 to 9999. */
export function parseTime(text: string): Date | null {
  const [, day] = TIME.exec(text) ?? []
  if (day === undefined || !isDay(day)) return null
  const time = new Date(text)
  return time.getTime() >= 0 && time.getTime() <= LATEST_MS ? time : null
}

/** True if this day exists. `Date` reads February 30 as March 2. */
function isDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day)
}

/** The months of UTC from that of `since` to that of `now`, the newest first: `2026-11`. */
export function monthsSince(since: Date, now: Date): string[] {
  const months: string[] = []
  const first = Date.UTC(since.getUTCFullYear(), since.getUTCMonth())
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()))
  for (; month.getTime() >= first; month.setUTCMonth(month.getUTCMonth() - 1))
    months.push(month.toISOString().slice(0, "2026-11".length))
  return months
}

export function printTime(time: Date): string {
  return time.toISOString()
}
