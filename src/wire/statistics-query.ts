import { type Static, Type } from "@sinclair/typebox"
import { invalidField } from "./fault.ts"
import { id, ids, model, moment, query, wholeNumber, word } from "./parameter.ts"

/** The query strings of the operators' statistics (D51). */

/** What a timeline is split by. */
export const splits = ["model", "key", "account"] as const
export type Split = (typeof splits)[number]

const DAY_MS = 86_400_000
/** The hours that are looked at when `from` is not given. */
const DEFAULT_HOURS = 24
/** The most days that one answer looks at. */
const MAX_DAYS = 92
/** The most accounts of one filter. */
const MAX_ACCOUNTS = 100
/** How many groups a timeline shows one by one. */
export const DEFAULT_GROUPS = 6
const MAX_GROUPS = 100

const span = {
  from: Type.Optional(
    moment(
      `Only calls that ended at or after this time. Default: ${DEFAULT_HOURS} hours before \`to\`. Maximum: ${MAX_DAYS} days before \`to\`.`,
      { format: "date-time" },
    ),
  ),
  to: Type.Optional(moment("Only calls that ended before this time. Default: now.", { format: "date-time" })),
  account: Type.Optional(
    ids(MAX_ACCOUNTS, `Only calls of these accounts: up to ${MAX_ACCOUNTS} ids, separated by commas.`),
  ),
  key: Type.Optional(id("Only calls made with this key.")),
  model: Type.Optional(model("Only calls to this model, by the name that clients use.")),
}

/** Which calls are looked at; a filter that is not given leaves nothing out. */
export const StatisticsQuery = query(span)

/** Which calls are looked at, and how they are split. */
export const TimelineQuery = query({
  ...span,
  by: Type.Optional(word(splits, "What to group by. Default: `model`.")),
  groups: Type.Optional(wholeNumber(MAX_GROUPS, DEFAULT_GROUPS, "How many groups to list one by one.")),
})

/** The calls that ended from `from` on and before `to`, and pass the filters. */
export interface StatisticsSpan {
  readonly from: Date
  readonly to: Date
  readonly account_ids: readonly string[] | undefined
  readonly key_id: string | undefined
  readonly model: string | undefined
}

/**
 * Without `to` until now, the calls of this millisecond too; without `from` the last 24 hours. Throws `invalid_request`
 * for a span that is none, or too long.
 */
export function statisticsSpan(asked: Static<typeof StatisticsQuery>, now: Date): StatisticsSpan {
  const { to = new Date(now.getTime() + 1), account, key, model } = asked
  const { from = new Date(Math.max(0, to.getTime() - DEFAULT_HOURS * 3_600_000)) } = asked
  if (from >= to) throw invalidField("from", "a time before `to`")
  if (to.getTime() - from.getTime() > MAX_DAYS * DAY_MS) {
    throw invalidField("from", `a time at most ${MAX_DAYS} days before \`to\``)
  }
  return { from, to, account_ids: account, key_id: key, model }
}
