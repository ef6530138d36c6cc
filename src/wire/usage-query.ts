import { type Static, Type } from "@sinclair/typebox"
import { invalidField } from "./fault.ts"
import { id, model, moment, query, word } from "./parameter.ts"

/** The query strings that ask for sums of usage (D48). */

/** What a client may sum by. */
export const groupings = ["model", "operation", "key", "day"] as const
/** What an operator may sum by. */
export const operatorGroupings = [...groupings, "account", "hour"] as const
export type Grouping = (typeof operatorGroupings)[number]

const DAY_MS = 86_400_000
/** The days that are summed when `from` is not given: the one `to` lies in is the last. */
const DEFAULT_DAYS = 30
/** The most days of one answer, a leap year; of one by hour, a month. */
const MAX_DAYS = 366
const MAX_DAYS_BY_HOUR = 31

function range<Word extends Grouping>(words: readonly Word[], most: string) {
  return {
    from: Type.Optional(
      moment(
        `The start of the range, inclusive: an RFC 3339 time, or a day, which starts at midnight UTC. Default: ${DEFAULT_DAYS} UTC days, the last of them the day in which the range ends. Maximum number of days before \`to\`: ${most}.`,
        { examples: ["2026-11-01"] },
      ),
    ),
    to: Type.Optional(
      moment("The end of the range, exclusive. Default: now.", {
        examples: ["2026-12-01"],
      }),
    ),
    by: Type.Optional(word<Grouping>(words, "What to group by.", { default: "day" })),
  }
}

/** What a client asks. */
export const UsageQuery = query(range(groupings, `${MAX_DAYS}`))

/** What an operator asks. */
export const OperatorUsageQuery = query({
  ...range(operatorGroupings, `${MAX_DAYS} (${MAX_DAYS_BY_HOUR} by hour)`),
  account: Type.Optional(id("Only calls of this account.")),
  key: Type.Optional(id("Only calls made with this key.")),
  model: Type.Optional(model("Only calls to this model, by the name that clients use.")),
})

/** What is summed and how: the calls that ended from `from` on and before `to`. */
export interface UsageRange {
  readonly from: Date
  readonly to: Date
  readonly by: Grouping
}

/**
 * Without `to` until now, the calls of this millisecond too; without `from` the last 30 UTC days, without `by` by day.
 * Throws `invalid_request` for a range that is none, or too long.
 */
export function usageRange(asked: Static<typeof UsageQuery>, now: Date): UsageRange {
  const { to = new Date(now.getTime() + 1), by = "day" } = asked
  const { from = daysBefore(to, DEFAULT_DAYS - 1) } = asked
  if (from > to) throw invalidField("from", "a time at or before `to`")
  const days = by === "hour" ? MAX_DAYS_BY_HOUR : MAX_DAYS
  if (to.getTime() - from.getTime() > days * DAY_MS) {
    throw invalidField("from", `a time at most ${days} days before \`to\``)
  }
  return { from, to, by }
}

/** The first moment of the UTC day that is so many days before the one that ends with `to`. */
function daysBefore(to: Date, days: number): Date {
  const last_ms = Math.max(0, to.getTime() - 1)
  return new Date(Math.max(0, Math.floor(last_ms / DAY_MS) - days) * DAY_MS)
}
