import { type SchemaOptions, type TObject, type TOptional, type TProperties, Type } from "@sinclair/typebox"
import { TypeSystem } from "@sinclair/typebox/system"
import { parseId } from "../id.ts"
import type { Tags } from "./call.ts"
import { readCursor } from "./cursor.ts"
import { EXPECTED } from "./fault.ts"
import { optional } from "./field.ts"
import { isTagName, isTagValue } from "./labels.ts"
import { parseTime } from "./time.ts"

/**
 * Schemas for the parameters of paths and query strings. Each checks a text and decodes it to its value, which is the
 * static type. Elysia's own types would accept `1e2` and ` 100` as whole numbers.
 */

const MAX_TEXT = 256
const MAX_END_USER_TEXT = 2_048
const DAY = /^\d{4}-\d{2}-\d{2}$/
const SESSION = /^[\w.:-]{1,128}$/
const PLACE = /^\d{1,16}-[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/
const WHOLE = /^[1-9]\d{0,8}$/

/** The keyword of a `Text` for its parser, which returns null for an invalid text. */
const READ = "x-read"

type ParameterReader<V> = (text: string) => V | null

interface Keywords extends SchemaOptions {
  readonly [EXPECTED]: string
}

const Text = TypeSystem.Type<string, Keywords & { readonly [READ]: ParameterReader<unknown> }>(
  "Text",
  ({ [READ]: read }, given) => typeof given === "string" && read(given) !== null,
)

/** Digits without a sign or leading zeros; a default is a number already. */
const Whole = TypeSystem.Type<string | number, Keywords & { readonly maximum: number }>(
  "Whole",
  ({ maximum }, given) => {
    const value = typeof given === "string" && WHOLE.test(given) ? Number(given) : given
    return typeof value === "number" && value <= maximum
  },
)

function text<V>(read: ParameterReader<V>, expected: string, keywords: SchemaOptions) {
  const schema = Type.Transform(Text({ type: "string", ...keywords, [EXPECTED]: expected, [READ]: read }))
    .Decode((given): V => {
      const value = read(given)
      if (value === null) throw new Error("the schema accepted a parameter that cannot be decoded")
      return value
    })
    .Encode(String)
  return Type.Unsafe<V>(schema)
}

/** A UUID in any case, decoded to the canonical form. */
export function id(description: string, expected = "a UUID") {
  return text(parseId, expected, { description, format: "uuid" })
}

/** UUIDs, separated by commas. */
export function ids(most: number, description: string) {
  const read = (given: string): readonly string[] | null => {
    const found = given.split(",").map(parseId)
    return found.length <= most && found.every((one) => one !== null) ? found : null
  }
  return text(read, `1 to ${most} UUIDs, separated by commas`, { description })
}

/** The name of a model or of an upstream. It has no NUL, which Postgres refuses. */
export function model(description: string, keywords: { examples?: readonly string[] } = {}) {
  const read = (given: string) =>
    given !== "" && given.length <= MAX_TEXT && !given.includes("\0") ? given : null
  return text(read, `1 to ${MAX_TEXT} characters`, { description, ...keywords })
}

/** The name or the id of an end user, as a client sends it (D94). */
export function endUser(description: string) {
  const read = (given: string) => (given !== "" && given.length <= MAX_END_USER_TEXT ? given : null)
  return text(read, `1 to ${MAX_END_USER_TEXT} characters`, { description })
}

/** Tags, separated by commas (D94). */
export function tagsOf(description: string) {
  const read = (given: string): Tags | null => {
    const pairs = given.split(",").map((pair) => pair.split("="))
    const are_tags = pairs.every(
      ([name = "", value = "", ...rest]) => isTagName(name) && isTagValue(value) && rest.length === 0,
    )
    return are_tags ? Object.fromEntries(pairs) : null
  }
  return text(read, "tags such as team=search,feature=rag", { description })
}

/** Up to `most` of `words`, or `tag:` and the names of tags (D94), separated by commas and each once. */
export function wordsOrTags<Word extends string>(
  words: readonly Word[],
  description: string,
  most: number,
  otherwise: Word,
) {
  const readOne = (given: string): Word | `tag:${string}` | null => {
    const word = words.find((one) => one === given)
    if (word !== undefined) return word
    return given.startsWith(TAG) && isTagName(given.slice(TAG.length))
      ? `tag:${given.slice(TAG.length)}`
      : null
  }
  const read = (given: string) => {
    const found = given.split(",").map(readOne)
    const are_words = found.every((one) => one !== null)
    return are_words && found.length <= most && new Set(found).size === found.length ? found : null
  }
  const expected = `one of ${words.join(", ")}, or tag:NAME; or up to ${most} of them, separated by commas`
  return text(read, expected, { description, default: otherwise })
}

const TAG = "tag:"

/** The id of a session, as a client made it (D65). */
export function session(description: string) {
  const read = (given: string) => (SESSION.test(given) ? given : null)
  return text(read, "1 to 128 letters, digits, _ . : -", { description })
}

/** A time, or a day, which means its start in UTC. */
export function moment(
  description: string,
  keywords: { format?: string; examples?: readonly string[] } = {},
) {
  const read = (given: string) => parseTime(DAY.test(given) ? `${given}T00:00:00Z` : given)
  return text(read, "an RFC 3339 time or a day such as 2026-11-21", { description, ...keywords })
}

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/

/** A month of UTC, decoded to its start and its end. */
export function month(description: string) {
  const read = (given: string) => {
    const from = MONTH.test(given) ? parseTime(`${given}-01T00:00:00Z`) : null
    return from && { from, to: new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1)) }
  }
  return text(read, "a month such as 2026-11", { description, examples: ["2026-11"] })
}

export function word<Word extends string>(
  words: readonly Word[],
  description: string,
  otherwise: { readonly default?: Word } = {},
) {
  const read = (given: string) => words.find((one) => one === given) ?? null
  return text(read, `one of ${words.join(", ")}`, { description, enum: [...words], ...otherwise })
}

/** Some of `list`, separated by commas. */
export function words<Word extends string>(list: readonly Word[], description: string) {
  const read = (given: string): readonly Word[] | null => {
    const given_words = given.split(",")
    const found = list.filter((one) => given_words.includes(one))
    return found.length === given_words.length ? found : null
  }
  return text(read, `some of ${list.join(", ")}, separated by commas`, { description, examples: [list[0]] })
}

/** A cursor of the event feed (D96). */
export function cursor(description: string) {
  return text(readCursor, "the cursor of an event", { description })
}

/** A place in a list that is ordered by time: microseconds since 1970, and an id. */
export function place(description: string) {
  const read = (given: string) => (PLACE.test(given) ? given : null)
  return text(read, "the `next` value of an earlier page", { description })
}

/** A whole number from 1 to `maximum`. */
export function wholeNumber(maximum: number, otherwise: number, description: string) {
  const keywords = { type: "integer", minimum: 1, maximum, default: otherwise, description }
  const schema = Type.Transform(Whole({ ...keywords, [EXPECTED]: `an integer from 1 to ${maximum}` }))
    .Decode(Number)
    .Encode(String)
  return Type.Unsafe<number>(schema)
}

/** The schema of a query. Unknown names are refused, because a mistyped filter would filter nothing. */
export function query<Given extends TProperties, Required extends TProperties = Record<never, never>>(
  parameters: Given,
  required?: Required,
): TObject<Required & { [Name in keyof Given]: TOptional<Given[Name]> }>
export function query(parameters: TProperties, required: TProperties = {}): TObject {
  return Type.Object({ ...required, ...optional(parameters) }, { additionalProperties: false })
}

export function pathId(description: string) {
  return Type.Object({ id: id(description) })
}
