import { GatewayError } from "../errors.ts"
import { isId } from "../id.ts"
import { parseTime } from "./time.ts"

/** Query strings. A name that is not known is refused: a mistyped filter must not leave everything in. */

const MAX_TEXT = 256
const DAY = /^\d{4}-\d{2}-\d{2}$/

/** The parameters by name, each known and given once. */
export type Given = ReadonlyMap<string, string>

/** Reads a query string of which only the names `known` are taken; throws `invalid_request` with the parameter at fault. */
export function readQuery(query: URLSearchParams, known: readonly string[]): Given {
  const given = new Map<string, string>()
  for (const [name, text] of query) {
    if (!known.includes(name)) throw invalid(null, namesOf(known))
    if (given.has(name)) throw invalid(name, `\`${name}\` is set more than once. Send it once.`)
    given.set(name, text)
  }
  return given
}

function namesOf(known: readonly string[]): string {
  if (known.length === 0) return "This endpoint accepts no query parameters."
  return `Unknown query parameter. This endpoint accepts: ${known.join(", ")}.`
}

/** The parameter `name` as `parse` reads it, or undefined; throws `invalid_request` when it reads nothing. */
export function valueIn<V>(given: Given, name: string, expected: string, parse: (text: string) => V | null) {
  const text = given.get(name)
  if (text === undefined) return undefined
  const parsed = parse(text)
  if (parsed === null) throw invalid(name, `\`${name}\`: expected ${expected}.`)
  return parsed
}

/** The filters that lists and sums of calls share. */
export function idIn(given: Given, name: string): string | undefined {
  return valueIn(given, name, "a UUID", parseId)
}

export function modelIn(given: Given): string | undefined {
  return valueIn(given, "model", `1 to ${MAX_TEXT} characters`, parseModel)
}

export function momentIn(given: Given, name: string): Date | undefined {
  return valueIn(given, name, "an RFC 3339 time or a day such as 2026-11-21", parseMoment)
}

/** The `to` that ends a range; without one until now, the calls of this millisecond too. */
export function endIn(given: Given, now: Date): Date {
  return momentIn(given, "to") ?? new Date(now.getTime() + 1)
}

export function wordIn<Word extends string>(given: Given, name: string, words: readonly Word[]) {
  return valueIn(
    given,
    name,
    `one of ${words.join(", ")}`,
    (text) => words.find((word) => word === text) ?? null,
  )
}

/** A UUID in the canonical form, or null when `text` is none. */
export function parseId(text: string): string | null {
  const id = text.toLowerCase()
  return isId(id) ? id : null
}

/** A time, or a day, which stands for its first moment in UTC. */
function parseMoment(text: string): Date | null {
  return parseTime(DAY.test(text) ? `${text}T00:00:00Z` : text)
}

/** A NUL is in no model's name, and Postgres refuses it. */
function parseModel(text: string): string | null {
  return text !== "" && text.length <= MAX_TEXT && !text.includes("\0") ? text : null
}

export function invalid(param: string | null, message: string): GatewayError {
  return new GatewayError("invalid_request", { message, ...(param === null ? {} : { param }) })
}
