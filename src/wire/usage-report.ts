import { type Static, type TProperties, Type } from "@sinclair/typebox"
import { countedKinds, recordOf } from "../kinds.ts"
import { Money, Time, usd } from "./admin.ts"
import { invalidField } from "./fault.ts"
import { count, fields, nullable, text, titled } from "./field.ts"
import { id, model, moment, query, wordsOrTags } from "./parameter.ts"

/** The reports `GET /v1/usage` and `GET /admin/usage` (D48): their query strings and their bodies. */

const groupings = ["model", "operation", "key", "session", "end_user", "day"] as const
export const operatorGroupings = [...groupings, "account", "hour", "upstream", "upstream_key"] as const
/** `tag:` and the name of a tag groups by its values (D94). */
export type Grouping = (typeof operatorGroupings)[number] | `tag:${string}`

const DAY_MS = 86_400_000
/** The days of the default range. The last of them is the day of `to`. */
const DEFAULT_DAYS = 30
/** The most days of one report: a leap year, or a month by hour. */
const MAX_DAYS = 366
const MAX_DAYS_BY_HOUR = 31
const MAX_DIMENSIONS = 4

function range<Word extends (typeof operatorGroupings)[number]>(words: readonly Word[], most: string) {
  return {
    from: moment(
      `The start of the range, inclusive: an RFC 3339 time, or a day, which starts at midnight UTC. Default: ${DEFAULT_DAYS} UTC days, the last of them the day in which the range ends. Maximum number of days before \`to\`: ${most}.`,
      { examples: ["2026-11-01"] },
    ),
    to: moment("The end of the range, exclusive. Default: now.", {
      examples: ["2026-12-01"],
    }),
    by: wordsOrTags<Exclude<Grouping, `tag:${string}`>>(
      words,
      `What to group by: ${words.join(", ")}, or the values of a tag, such as \`tag:team\`. Up to ${MAX_DIMENSIONS}, separated by commas: \`model,day\` has a group for each model of each day.`,
      MAX_DIMENSIONS,
      "day",
    ),
  }
}

export const UsageQuery = query(range(groupings, `${MAX_DAYS}`))

export const OperatorUsageQuery = query({
  ...range(operatorGroupings, `${MAX_DAYS} (${MAX_DAYS_BY_HOUR} by hour)`),
  account: id("Only calls of this account."),
  key: id("Only calls made with this key."),
  model: model("Only calls to this model, by the name that clients use."),
})

/** The calls that ended from `from` on and before `to`, and their grouping. */
export type UsageRange = ReturnType<typeof usageRange>

/**
 * By default the last 30 UTC days, by day. Of `further` dimensions a group has one value each (D105). Throws `invalid_request`
 * for a range that is negative or too long.
 */
export function usageRange(query: Static<typeof UsageQuery>, now: Date) {
  const { to = new Date(now.getTime() + 1), by: [by = "day", ...further] = [] } = query
  const { from = daysBefore(to, DEFAULT_DAYS - 1) } = query
  if (from > to) throw invalidField("from", "a time at or before `to`")
  const days = [by, ...further].includes("hour") ? MAX_DAYS_BY_HOUR : MAX_DAYS
  if (to.getTime() - from.getTime() > days * DAY_MS) {
    throw invalidField("from", `a time at most ${days} days before \`to\``)
  }
  return { from, to, by, further }
}

/** The start of the UTC day that is `days` before the last day of the range. */
function daysBefore(to: Date, days: number): Date {
  const last_ms = Math.max(0, to.getTime() - 1)
  return new Date(Math.max(0, Math.floor(last_ms / DAY_MS) - days) * DAY_MS)
}

/** A correction counts with its difference, so a sum can be negative (D48). */
const Tokens = Type.Integer()

const sums = fields({
  calls: count("Calls that ended, including those without a charge."),
  prompt_tokens: titled("Prompt", Type.Integer(), "Charged prompt tokens, including cached ones."),
  cached_tokens: titled("Cached", Tokens),
  completion_tokens: titled("Output", Tokens),
  charge: Money,
  overage: usd("The part of the charge that exceeds the hold."),
  buckets: Type.Object(
    recordOf(countedKinds, () => Tokens),
    {
      description:
        "What was charged at a price of its own: tokens, which are in the prompt or completion tokens too, searches, pages, and runs of all tools of the provider together.",
    },
  ),
})

const operatorSums = fields({
  ...sums,
  abandoned: count("Calls whose clients left before any output. They were not charged (D91)."),
  cost: usd(
    "What the usage costs at the configured prices: the charge without the price multipliers of the accounts.",
  ),
  profit: usd("`charge` minus `cost`."),
  provider_cost: titled(
    "Provider",
    usd("What the providers say that the calls cost, of those that say it (D90)."),
  ),
})

export const UsageSums = Type.Object(sums)
export type UsageSums = Static<typeof UsageSums>
export const OperatorUsageSums = Type.Object(operatorSums)
export type OperatorUsageSums = Static<typeof OperatorUsageSums>

const group = fields({
  group: text(
    "The name of the model, operation, upstream or upstream's key, the id of the key, account, session or end user, the value of the tag (empty for calls without a session, end user or this tag, or of an upstream with a single key), the day (`2026-11-21`), or the start of the hour, in UTC. With several dimensions, the value of the first.",
  ),
  name: nullable(text("The name of the key, account or end user; null for an end user that was forgotten.")),
  groups: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: "With several dimensions: the value of each, by its name in `by`.",
    }),
  ),
  names: Type.Optional(
    Type.Record(Type.String(), nullable(Type.String()), {
      description: "With several dimensions: the name of the key, account and end user among them.",
    }),
  ),
})

const reportBy = <Sums extends TProperties>(words: readonly Grouping[], sums: Sums) =>
  Type.Object({
    from: Time,
    to: Time,
    by: text(`One of ${words.join(", ")}, or \`tag:NAME\`; or several, separated by commas.`),
    data: Type.Array(Type.Object({ ...group, ...sums }), {
      description:
        "By charge, the highest first; if the first dimension is the day or the hour, in chronological order before that. Groups without any ended or corrected call are left out.",
    }),
    left_out: count(
      "The number of groups beyond the 1,000 with the highest charges, which are not shown. `total` includes them. CSV and NDJSON have all groups, at most 100,000, in the order of their values; more are an error.",
    ),
    total: Type.Object(sums),
  })

export const UsageReport = reportBy(groupings, sums)
export const OperatorUsageReport = reportBy(operatorGroupings, operatorSums)
export type UsageReport = Static<typeof UsageReport>
export type OperatorUsageReport = Static<typeof OperatorUsageReport>
