import type { Static } from "@sinclair/typebox"
import { failures, operationNames, states } from "./call.ts"
import { invalidField } from "./fault.ts"
import { endUser, id, model, moment, place, query, session, tagsOf, wholeNumber, word } from "./parameter.ts"

/** The query strings of the lists under `/admin`. */

export const MAX_PAGE = 1_000
const DEFAULT_PAGE = 100

const AFTER = "The `next` value of the previous page."

export const page = {
  limit: wholeNumber(MAX_PAGE, DEFAULT_PAGE, "The maximum number of entries in a page."),
  after: id(AFTER, "the `next` value of an earlier page"),
}

/** A page of a list: `limit` entries after the one with the id `after`. */
export const PageQuery = query(page)

/** A page of what happened to a budget: entries of several kinds, which have no common id. */
export const BudgetLogQuery = query({ ...page, after: place(AFTER) })

/** Orders of a list of accounts: ascending, or descending with a minus. */
export const accountSorts = [
  "created",
  "-created",
  "name",
  "-name",
  "balance",
  "-balance",
  "held",
  "-held",
  "available",
  "-available",
] as const
export type AccountSort = (typeof accountSorts)[number]

/** The filters, the order and the page of a list of accounts. */
export const AccountsQuery = query({
  external_id: model("Only the account with this external id."),
  search: model(
    "Only accounts with this text in their name or external id, in small or capital letters, or with this id.",
  ),
  sort: word<AccountSort>(accountSorts, "The order: by a field, ascending, or descending with a minus.", {
    default: "-created",
  }),
  ...page,
})

const calls = {
  key: id("Only calls made with this key."),
  model: model("Only calls to this model, by the name that clients use."),
  operation: word(operationNames, "Only calls of this operation."),
  session: session("Only calls of this session: the `x-claude-code-session-id` that the client sent."),
  tag: tagsOf("Only calls with this tag, such as `team=search`, or with all of several."),
  end_user: endUser("Only calls of this end user: what the client sent, or the `end_user_id`."),
  state: word(states, "Only calls in this state."),
  failure: word(failures, "Only calls with this failure."),
  from: moment("Only calls that started at or after this time: an RFC 3339 time, or a day in UTC."),
  to: moment("Only calls that started before this time."),
  ...page,
}

/** The filters and the page of a list of calls. */
export const CallsQuery = query({ account: id("Only calls of this account."), ...calls })

/** The same for the holder of a key (D104). */
export const OwnCallsQuery = query(calls)

export const BalanceQuery = query(
  {},
  {
    at: moment(
      "The time, by the clock of the ledger: an RFC 3339 time, or a day, which means midnight UTC. It cannot be in the future.",
      { examples: ["2026-11-01"] },
    ),
  },
)

export function pageOf({ limit = DEFAULT_PAGE, after }: Static<typeof PageQuery>) {
  return { limit, after: after ?? null }
}

/** Throws `invalid_request` for a moment after `now`. */
export function checkPast(at: Date, now: Date): void {
  if (at > now) throw invalidField("at", "a time in the past")
}
