import { type Static, Type } from "@sinclair/typebox"
import { Count, EXPIRY, Id, line, orNull, ownId, requestBody, Time, timeField } from "./admin.ts"
import { page } from "./admin-query.ts"
import { EXPECTED } from "./fault.ts"
import { choice, fields, nullable, oneOf, resource, text, titled } from "./field.ts"
import { id, model, moment, query } from "./parameter.ts"
import { recordedRoles, roles } from "./roles.ts"

/** Operators with tokens of their own (D101), and the log of their changes (D102): requests and answers. */

const RoleField = oneOf(
  roles,
  "`read`: all GET requests. `support`: also suspend and revoke. `billing`: also accounts, keys, credits, budgets and prices. `admin`: everything.",
)

const operatorFields = fields({
  id: titled("ID", Id),
  name: Type.String({ examples: ["Ann"] }),
  role: RoleField,
  expires_at: titled("Expires", nullable(Time)),
  last_used_at: titled(
    "Last used",
    nullable(Time, "The last use of the token, to the minute. Null for none."),
  ),
  created_at: titled("Created", Time),
  revoked_at: titled("Revoked", nullable(Time)),
})

export const OperatorBody = Type.Object(operatorFields)
export type OperatorBody = Static<typeof OperatorBody>

export const OperatorWithTokenBody = resource({
  ...operatorFields,
  token: text("The token itself. It is shown only once."),
})

const TokenExpiry = timeField("expires_at", "When the token expires, as an RFC 3339 time.", EXPIRY)

export const NewOperator = requestBody({
  id: ownId("Makes the request safe to retry: the same id never creates two operators."),
  name: Type.String({
    ...line(100, "The name in the log: a person, or a program."),
    pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f:]*$",
    [EXPECTED]: "1 to 100 characters on a single line, without a colon",
  }),
  role: RoleField,
  expires_at: Type.Optional(TokenExpiry),
})

/** A new token; without an expiry that of the token before stays. */
export const OperatorRotation = requestBody({ expires_at: Type.Optional(orNull(TokenExpiry)) })

/** Who a request comes from. */
export const SessionBody = Type.Object({ actor: Type.String(), role: RoleField })

/** The operator or the person for whom all sessions of the console end (D101, D103). */
export const SessionsEnd = requestBody({
  actor: line(300, "The name in the log: of an operator, `configured`, or `oidc:` and a person's."),
})

export const EndedSessionsBody = resource({
  actor: Type.String(),
  ended: Count,
})

const changeOutcomes = ["done", "refused", "unknown"] as const

/** By the status of the answer; null without one. */
export function changeOutcome(status: number | null): (typeof changeOutcomes)[number] {
  if (status === null || status >= 500) return "unknown"
  return status < 400 ? "done" : "refused"
}

const json = (description: string) => Type.Unknown({ description })

export const ChangeBody = resource({
  id: titled("ID", Id),
  at: titled("Time", Time),
  actor: text(
    "The operator's name; `configured` for the token of the configuration; `database` for a command with `--database`; `oidc:` and a name for a person of the OpenID provider; for the holder of a key `key:` and the id of the key.",
  ),
  operator_id: nullable(Type.String({ format: "uuid" })),
  role: choice(recordedRoles, "`holder`: of a key (D104)."),
  address: titled("From", nullable(text("The address that sent the request."))),
  forwarded_for: nullable(
    text("The request's `X-Forwarded-For`. True only if a proxy that you trust sets it."),
  ),
  method: Type.String(),
  route: text("The path with the names of its parameters."),
  resource_id: titled(
    "Resource",
    nullable(Id, "The id in the path; of a key that its holder makes, the account."),
  ),
  made_id: nullable(Id, "The id in the answer: of a new resource, or again that in the path."),
  reason: nullable(Type.String()),
  request: json("The body, without secrets and names of end users."),
  before: json("The resource before the change; null if there was none."),
  after: json("The answer, or the resource after the change, without secrets."),
  status: nullable(Type.Integer(), "Of the answer."),
  outcome: Type.Unsafe<(typeof changeOutcomes)[number]>(
    choice(
      changeOutcomes,
      "`unknown`: the gateway died before it could write an outcome, or the request failed with a status of 500 or more.",
    ),
  ),
})
export type ChangeBody = Static<typeof ChangeBody>

export const LogQuery = query({
  actor: model("Only changes by the operator with this name."),
  resource: id("Only changes of the resource with this id."),
  from: moment("Only changes from this time on: an RFC 3339 time, or a day in UTC."),
  ...page,
})
