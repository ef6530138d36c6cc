import { endIn, idIn, invalid, modelIn, momentIn, readQuery, wordIn } from "./query.ts"

/** The query strings that ask for sums of usage (D48). */

/** What a client may sum by. */
export const groupings = ["model", "key", "day"] as const
/** What an operator may sum by. */
export const operatorGroupings = [...groupings, "account", "hour"] as const
export type Grouping = (typeof operatorGroupings)[number]

const RANGE = ["from", "to", "by"]
const DAY_MS = 86_400_000
/** The days that are summed when `from` is not given: the one `to` lies in is the last. */
export const DEFAULT_DAYS = 30
/** The most days of one answer, a leap year; of one by hour, a month. */
export const MAX_DAYS = 366
export const MAX_DAYS_BY_HOUR = 31

/** Which calls to sum and how: those that ended from `from` on and before `to`. */
export interface UsageQuery {
  readonly from: Date
  readonly to: Date
  readonly by: Grouping
  readonly account_id: string | undefined
  readonly key_id: string | undefined
  readonly model: string | undefined
}

/** Reads what a client asks; throws `invalid_request` with the parameter at fault. */
export function parseUsageQuery(query: URLSearchParams, now: Date): Pick<UsageQuery, "from" | "to" | "by"> {
  return parseRange(readQuery(query, RANGE), groupings, now)
}

/** Reads what an operator asks; throws `invalid_request` with the parameter at fault. */
export function parseOperatorUsageQuery(query: URLSearchParams, now: Date): UsageQuery {
  const given = readQuery(query, [...RANGE, "account", "key", "model"])
  return {
    ...parseRange(given, operatorGroupings, now),
    account_id: idIn(given, "account"),
    key_id: idIn(given, "key"),
    model: modelIn(given),
  }
}

/** Without `to` until now, without `from` the last 30 UTC days, without `by` by day. */
function parseRange(given: ReadonlyMap<string, string>, words: readonly Grouping[], now: Date) {
  const by = wordIn(given, "by", words) ?? "day"
  const to = endIn(given, now)
  const from = momentIn(given, "from") ?? daysBefore(to, DEFAULT_DAYS - 1)
  if (from > to) throw invalid("from", "`from`: expected a time at or before `to`.")
  const days = by === "hour" ? MAX_DAYS_BY_HOUR : MAX_DAYS
  if (to.getTime() - from.getTime() > days * DAY_MS) {
    throw invalid("from", `\`from\`: expected a time at most ${days} days before \`to\`.`)
  }
  return { from, to, by }
}

/** The first moment of the UTC day that is so many days before the one that ends with `to`. */
function daysBefore(to: Date, days: number): Date {
  const last_ms = Math.max(0, to.getTime() - 1)
  return new Date(Math.max(0, Math.floor(last_ms / DAY_MS) - days) * DAY_MS)
}
