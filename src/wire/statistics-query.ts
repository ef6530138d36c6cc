import {
  endIn,
  type Given,
  idIn,
  invalid,
  modelIn,
  momentIn,
  parseId,
  readQuery,
  valueIn,
  wordIn,
} from "./query.ts"

/** The query strings of the operators' statistics (D51). */

/** What a timeline is split by. */
export const splits = ["model", "key", "account"] as const
export type Split = (typeof splits)[number]

const SPAN = ["from", "to", "account", "key", "model"]
const DAY_MS = 86_400_000
/** The hours that are looked at when `from` is not given. */
export const DEFAULT_HOURS = 24
/** The most days that one answer looks at. */
export const MAX_DAYS = 92
/** The most accounts of one filter. */
export const MAX_ACCOUNTS = 100
/** How many groups a timeline shows one by one. */
export const DEFAULT_GROUPS = 6
export const MAX_GROUPS = 100

/** Which calls: those that ended from `from` on and before `to`; a filter that is not given leaves nothing out. */
export interface StatisticsQuery {
  readonly from: Date
  readonly to: Date
  readonly account_ids: readonly string[] | undefined
  readonly key_id: string | undefined
  readonly model: string | undefined
}

export interface TimelineQuery extends StatisticsQuery {
  readonly by: Split
  readonly groups: number
}

/** Reads which calls are looked at; throws `invalid_request` with the parameter at fault. */
export function parseStatisticsQuery(query: URLSearchParams, now: Date): StatisticsQuery {
  return span(readQuery(query, SPAN), now)
}

/** Reads which calls are looked at and how they are split; throws `invalid_request` with the parameter at fault. */
export function parseTimelineQuery(query: URLSearchParams, now: Date): TimelineQuery {
  const given = readQuery(query, [...SPAN, "by", "groups"])
  return {
    ...span(given, now),
    by: wordIn(given, "by", splits) ?? "model",
    groups: valueIn(given, "groups", `a whole number from 1 to ${MAX_GROUPS}`, parseGroups) ?? DEFAULT_GROUPS,
  }
}

function span(given: Given, now: Date): StatisticsQuery {
  const to = endIn(given, now)
  const from = momentIn(given, "from") ?? new Date(Math.max(0, to.getTime() - DEFAULT_HOURS * 3_600_000))
  if (from >= to) throw invalid("from", "`from`: expected a time before `to`.")
  if (to.getTime() - from.getTime() > MAX_DAYS * DAY_MS) {
    throw invalid("from", `\`from\`: expected a time at most ${MAX_DAYS} days before \`to\`.`)
  }
  return {
    from,
    to,
    account_ids: valueIn(given, "account", `1 to ${MAX_ACCOUNTS} UUIDs, separated by commas`, parseIds),
    key_id: idIn(given, "key"),
    model: modelIn(given),
  }
}

function parseIds(text: string): readonly string[] | null {
  const ids = text.split(",").map(parseId)
  return ids.length <= MAX_ACCOUNTS && ids.every((id) => id !== null) ? ids : null
}

function parseGroups(text: string): number | null {
  return /^[1-9]\d{0,2}$/.test(text) && Number(text) <= MAX_GROUPS ? Number(text) : null
}
