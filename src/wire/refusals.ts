import { type Static, Type } from "@sinclair/typebox"
import { catalogue, type ErrorCode } from "../errors.ts"
import { invalidField } from "./fault.ts"
import { id, moment, query, word } from "./parameter.ts"

/** `GET /admin/refusals`: calls that were refused (D80). */

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 7

const isCode = (word: string): word is ErrorCode => word in catalogue
export const refusalCodes = Object.keys(catalogue).filter(isCode)

export const RefusalsQuery = query({
  account: Type.Optional(id("Only calls of this account.")),
  key: Type.Optional(id("Only calls with this key.")),
  code: Type.Optional(word(refusalCodes, "Only calls refused with this error code.")),
  from: Type.Optional(
    moment(
      `The start: an RFC 3339 time, or a day in UTC. The whole hour that contains it is included. Default: ${DEFAULT_DAYS} days before \`to\`.`,
    ),
  ),
  to: Type.Optional(moment("The end, exclusive. Default: now.")),
})

const IdOrNull = Type.Union([Type.String({ format: "uuid" }), Type.Null()])
const TextOrNull = Type.Union([Type.String(), Type.Null()])

export const RefusalBody = Type.Object({
  account: Type.Unsafe<string | null>({
    ...IdOrNull,
    description: "Null for calls with an unknown key, or without one.",
  }),
  account_name: TextOrNull,
  key: IdOrNull,
  key_name: TextOrNull,
  code: Type.String({ description: "The error code." }),
  requests: Type.Integer({ minimum: 1 }),
  last_at: Type.String({
    format: "date-time",
    description: "When the last refusal was counted, up to a minute after it.",
  }),
})
export type RefusalBody = Static<typeof RefusalBody>

export const RefusalsBody = Type.Object({
  from: Type.String({ format: "date-time" }),
  to: Type.String({ format: "date-time" }),
  data: Type.Array(RefusalBody, {
    description: "One entry for each key and code, most requests first. At most 1,000.",
  }),
})
export type RefusalsBody = Static<typeof RefusalsBody>

/** The requested time range. Throws `invalid_request` if it ends before it starts. */
export function refusalSpan(asked: { from?: Date; to?: Date }, now: Date): { from: Date; to: Date } {
  const { to = now } = asked
  const { from = new Date(to.getTime() - DEFAULT_DAYS * DAY_MS) } = asked
  if (from > to) throw invalidField("from", "a time before `to`")
  return { from, to }
}
