import { GatewayError } from "../errors.ts"
import { isId } from "../id.ts"
import { type Failure, failures, type State, states } from "./call.ts"
import { parseTime } from "./time.ts"

/** The query strings of the lists under `/admin`. A name that is not known is refused: a mistyped filter must not list everything. */

const PAGE = ["limit", "after"]
const FILTERS = ["account", "key", "model", "state", "failure", "from", "to"]
export const MAX_PAGE = 1_000
export const DEFAULT_PAGE = 100
const MAX_TEXT = 256

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

/** A UUID in the canonical form, or null when `text` is none. */
export function parseId(text: string): string | null {
  const id = text.toLowerCase()
  return isId(id) ? id : null
}

/** Reads `limit` and `after`; throws `invalid_request` with the parameter at fault. */
export function parsePage(query: URLSearchParams): PageQuery {
  return page(read(query, PAGE))
}

/** Reads the filters of the call list and its page; throws `invalid_request` with the parameter at fault. */
export function parseCallsQuery(query: URLSearchParams): { filter: CallsQuery; page: PageQuery } {
  const given = read(query, [...FILTERS, ...PAGE])
  const filter = {
    account_id: value(given, "account", "a UUID", parseId),
    key_id: value(given, "key", "a UUID", parseId),
    model: value(given, "model", `1 to ${MAX_TEXT} characters`, parseModel),
    state: value(given, "state", oneOf(states), (text) => wordOf(states, text)),
    failure: value(given, "failure", oneOf(failures), (text) => wordOf(failures, text)),
    from: value(given, "from", "an RFC 3339 time", parseTime),
    to: value(given, "to", "an RFC 3339 time", parseTime),
  }
  return { filter, page: page(given) }
}

type Given = ReadonlyMap<string, string>

/** The parameters by name, each known and given once. */
function read(query: URLSearchParams, known: readonly string[]): Given {
  const given = new Map<string, string>()
  for (const [name, text] of query) {
    if (!known.includes(name)) throw invalid(null, `The query parameters here are ${known.join(", ")}.`)
    if (given.has(name)) throw invalid(name, `\`${name}\` is given twice.`)
    given.set(name, text)
  }
  return given
}

function page(given: Given): PageQuery {
  return {
    limit: value(given, "limit", `a whole number from 1 to ${MAX_PAGE}`, parseLimit) ?? DEFAULT_PAGE,
    after: value(given, "after", "the `next` of a page", parseId) ?? null,
  }
}

function value<V>(given: Given, name: string, expected: string, parse: (text: string) => V | null) {
  const text = given.get(name)
  if (text === undefined) return undefined
  const parsed = parse(text)
  if (parsed === null) throw invalid(name, `\`${name}\`: expected ${expected}.`)
  return parsed
}

function parseLimit(text: string): number | null {
  return /^[1-9]\d{0,3}$/.test(text) && Number(text) <= MAX_PAGE ? Number(text) : null
}

/** A NUL is in no model's name, and Postgres refuses it. */
function parseModel(text: string): string | null {
  return text !== "" && text.length <= MAX_TEXT && !text.includes("\0") ? text : null
}

function wordOf<Word extends string>(words: readonly Word[], text: string): Word | null {
  return words.find((word) => word === text) ?? null
}

function oneOf(words: readonly string[]): string {
  return `one of ${words.join(", ")}`
}

function invalid(param: string | null, message: string): GatewayError {
  return new GatewayError("invalid_request", { message, ...(param === null ? {} : { param }) })
}
