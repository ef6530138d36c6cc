import { type Failure, failures, type State, states } from "./call.ts"
import { type Given, idIn, invalid, modelIn, momentIn, parseId, readQuery, valueIn, wordIn } from "./query.ts"

/** The query strings of the lists under `/admin`. */

const PAGE = ["limit", "after"]
const FILTERS = ["account", "key", "model", "state", "failure", "from", "to"]
export const MAX_PAGE = 1_000
export const DEFAULT_PAGE = 100

/** Which page of a list: `limit` entries after the one with the id `after`. */
export interface PageQuery {
  readonly limit: number
  readonly after: string | null
}

/** Which calls; a filter that is not given leaves nothing out. */
export interface CallsQuery {
  readonly account_id: string | undefined
  readonly key_id: string | undefined
  readonly model: string | undefined
  readonly state: State | undefined
  readonly failure: Failure | undefined
  readonly from: Date | undefined
  readonly to: Date | undefined
}

/** Reads `limit` and `after`; throws `invalid_request` with the parameter at fault. */
export function parsePage(query: URLSearchParams): PageQuery {
  return page(readQuery(query, PAGE))
}

/** Reads the filters of the call list and its page; throws `invalid_request` with the parameter at fault. */
export function parseCallsQuery(query: URLSearchParams): { filter: CallsQuery; page: PageQuery } {
  const given = readQuery(query, [...FILTERS, ...PAGE])
  const filter = {
    account_id: idIn(given, "account"),
    key_id: idIn(given, "key"),
    model: modelIn(given),
    state: wordIn(given, "state", states),
    failure: wordIn(given, "failure", failures),
    from: momentIn(given, "from"),
    to: momentIn(given, "to"),
  }
  return { filter, page: page(given) }
}

/** Reads the moment of a past balance; throws `invalid_request` when there is none, or it is after `now`. */
export function parseBalanceQuery(query: URLSearchParams, now: Date): Date {
  const at = momentIn(readQuery(query, ["at"]), "at")
  if (at === undefined) throw invalid("at", "`at`: expected an RFC 3339 time or a day such as 2026-11-21.")
  if (at > now) throw invalid("at", "`at`: expected a time in the past.")
  return at
}

function page(given: Given): PageQuery {
  return {
    limit: valueIn(given, "limit", `a whole number from 1 to ${MAX_PAGE}`, parseLimit) ?? DEFAULT_PAGE,
    after: valueIn(given, "after", "the `next` value of an earlier page", parseId) ?? null,
  }
}

function parseLimit(text: string): number | null {
  return /^[1-9]\d{0,3}$/.test(text) && Number(text) <= MAX_PAGE ? Number(text) : null
}
