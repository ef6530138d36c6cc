import { type Static, Type } from "@sinclair/typebox"
import { failures, states } from "./call.ts"
import { invalidField } from "./fault.ts"
import { id, model, moment, query, wholeNumber, word } from "./parameter.ts"

/** The query strings of the lists under `/admin`. */

export const MAX_PAGE = 1_000
export const DEFAULT_PAGE = 100

const page = {
  limit: Type.Optional(wholeNumber(MAX_PAGE, DEFAULT_PAGE, "The most entries a page has.")),
  after: Type.Optional(
    id("Where the page begins: the `next` of the page before it.", "the `next` of a page"),
  ),
}

/** Which page of a list: `limit` entries after the one with the id `after`. */
export const PageQuery = query(page)

/** Which calls, and which page of them; a filter that is not given leaves nothing out. */
export const CallsQuery = query({
  account: Type.Optional(id("Calls of this account.")),
  key: Type.Optional(id("Calls with this key.")),
  model: Type.Optional(model("Calls to this model, as the client named it.")),
  state: Type.Optional(word(states, "Calls in this state.")),
  failure: Type.Optional(word(failures, "Calls that went wrong this way.")),
  from: Type.Optional(
    moment("Calls that were held then or later, by the time in their id: a time, or a day in UTC."),
  ),
  to: Type.Optional(moment("Calls that were held earlier.")),
  ...page,
})

/** Of which moment a balance is asked. */
export const BalanceQuery = query({
  at: moment(
    "The moment, by the ledger's clock: an RFC 3339 time, or a day, which stands for its midnight UTC. Not in the future.",
    { examples: ["2026-11-01"] },
  ),
})

/** The page that is asked for, as the ledger takes it. */
export function pageOf({ limit = DEFAULT_PAGE, after }: Static<typeof PageQuery>) {
  return { limit, after: after ?? null }
}

/** Throws `invalid_request` for a moment after `now`. */
export function checkPast(at: Date, now: Date): void {
  if (at > now) throw invalidField("at", "a time that is not in the future")
}
