import { type Static, Type } from "@sinclair/typebox"
import { Count, Time } from "./admin.ts"
import { attemptOutcome } from "./call-details.ts"
import { nullable, resource, text, titled } from "./field.ts"
import { id, model, moment, query } from "./parameter.ts"

/** `GET /admin/attempts`: attempts that did not become the answer of their call, by upstream and outcome (D93). */

export const AttemptsQuery = query({
  account: id("Only attempts of this account's calls."),
  upstream: model("Only attempts at this upstream, by its name."),
  model: model("Only attempts of calls to this model, by the name that clients use."),
  from: moment(
    "Only attempts that ended at or after this time: an RFC 3339 time, or a day in UTC. Default: 7 days before `to`.",
  ),
  to: moment("Only attempts that ended before this time. Default: now."),
})

export const AttemptBody = resource({
  upstream: Type.String(),
  upstream_key: titled(
    "Key",
    nullable(Type.String()),
    "The name of the upstream's key; null for an upstream with a single key.",
  ),
  model: text("The model of the calls, by the name that clients use."),
  ...attemptOutcome,
  attempts: Count,
  last_at: titled("Last", Time),
})
export type AttemptBody = Static<typeof AttemptBody>

export const AttemptsBody = Type.Object({
  from: Time,
  to: Time,
  data: Type.Array(AttemptBody, {
    description: "One entry for each upstream, key, model and outcome, most attempts first. At most 1,000.",
  }),
})
export type AttemptsBody = Static<typeof AttemptsBody>
