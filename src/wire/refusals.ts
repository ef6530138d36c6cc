import { type Static, Type } from "@sinclair/typebox"
import { catalogue, type ErrorCode } from "../errors.ts"
import { Id, Time } from "./admin.ts"
import { invalidField } from "./fault.ts"
import { nullable, resource, text, titled } from "./field.ts"
import { id, moment, query, word } from "./parameter.ts"

/** `GET /admin/refusals`: calls that were refused (D80). */

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 7

const isCode = (word: string): word is ErrorCode => word in catalogue
export const refusalCodes = Object.keys(catalogue).filter(isCode)

export const RefusalsQuery = query({
  account: id("Only calls of this account."),
  key: id("Only calls with this key."),
  code: word(refusalCodes, "Only calls refused with this error code."),
  from: moment(
    `The start: an RFC 3339 time, or a day in UTC. The whole hour that contains it is included. Default: ${DEFAULT_DAYS} days before \`to\`.`,
  ),
  to: moment("The end, exclusive. Default: now."),
})

export const RefusalBody = resource({
  account: nullable(Id, "Null for calls with an unknown key, or without one."),
  account_name: titled("Account", nullable(Type.String())),
  key: nullable(Id),
  key_name: titled("Key", nullable(Type.String())),
  code: text("The error code."),
  requests: Type.Integer({ minimum: 1 }),
  last_at: titled("Last", Time, "When the last refusal was counted, up to a minute after it."),
})
export type RefusalBody = Static<typeof RefusalBody>

export const RefusalsBody = Type.Object({
  from: Time,
  to: Time,
  data: Type.Array(RefusalBody, {
    description: "One entry for each key and code, most requests first. At most 1,000.",
  }),
})
export type RefusalsBody = Static<typeof RefusalsBody>

/** The requested time range. Throws `invalid_request` if it ends before it starts. */
export function refusalSpan(query: { from?: Date; to?: Date }, now: Date): { from: Date; to: Date } {
  const { to = now } = query
  const { from = new Date(to.getTime() - DEFAULT_DAYS * DAY_MS) } = query
  if (from > to) throw invalidField("from", "a time before `to`")
  return { from, to }
}
