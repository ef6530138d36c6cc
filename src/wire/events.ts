import { type Static, Type } from "@sinclair/typebox"
import { CallBody, Id, Milliseconds, Money, Time, usd } from "./admin.ts"
import { alertEvents } from "./alerts.ts"
import { BUDGET_EVENT, budgetChanges } from "./budget.ts"
import { BudgetBody } from "./budget-bodies.ts"
import { attemptOutcome, callDetails } from "./call-details.ts"
import { CreditBody } from "./credit-bodies.ts"
import { grantChanges } from "./credits.ts"
import { choice, count, nullable, resource, text, titled } from "./field.ts"
import { ChangeBody } from "./operators.ts"
import { cursor, moment, query, wholeNumber, words } from "./parameter.ts"

/** Events about entries of the journal, as CloudEvents 1.0 (D96). */

export const grantEvents = grantChanges.map((change) => `tollgate.credit.${change}` as const)
export const budgetEvents = budgetChanges.map((change) => `${BUDGET_EVENT}${change}` as const)
const budgetLogEvents = [...budgetEvents, "tollgate.budget.threshold_reached"] as const

export const eventTypes = [
  "tollgate.call.ended",
  "tollgate.call.corrected",
  "tollgate.attempt.failed",
  "tollgate.credit.added",
  ...grantEvents,
  ...budgetLogEvents,
  "tollgate.end_user.forgotten",
  ...alertEvents,
  "tollgate.operator.changed",
] as const
export type EventType = (typeof eventTypes)[number]

/** The types that a reader or a sink gets who names none: what operators do is not for every receiver of charges (D102). */
export const usualEvents = eventTypes.filter((type) => type !== "tollgate.operator.changed")

export const MAX_EVENTS = 1_000
const DEFAULT_EVENTS = 100
/** Shorter than the idle timeout of a connection. */
const MAX_WAIT_S = 30

export const NEXT_CURSOR = "tollgate-next"

export const EventsQuery = query({
  after: cursor(
    `The \`cursor\` of an event, or the \`${NEXT_CURSOR}\` header of the previous response. Without it, the feed begins at its first event.`,
  ),
  from: moment(
    "Without `after`: only events from this time on. Later pages need only `after`. An RFC 3339 time, or a day in UTC.",
  ),
  to: moment(
    "Only events before this time. Send it with every page; to go on from this time, begin again with it as `from`. An RFC 3339 time, or a day in UTC.",
  ),
  types: words(
    eventTypes,
    "Only events of these types, separated by commas. Default: all but `tollgate.operator.changed`.",
  ),
  limit: wholeNumber(MAX_EVENTS, DEFAULT_EVENTS, "The maximum number of events."),
  wait: wholeNumber(
    MAX_WAIT_S,
    1,
    "How many seconds to wait for an event if there is none. Without it, the answer comes immediately.",
  ),
})

export function feedQueryOf(query: Static<typeof EventsQuery>) {
  const { limit = DEFAULT_EVENTS, types = usualEvents, after, from, to } = query
  return { limit, types, after: after ?? null, from: from ?? null, to: to ?? null }
}

const CorrectedCallBody = Type.Composite([
  CallBody,
  Type.Object({
    difference: usd("The new charge less the one of the event `tollgate.call.ended`. It can be negative."),
  }),
])

const AddedCreditBody = Type.Composite([CreditBody, Type.Object({ account_id: Id })])

export const GrantEventBody = Type.Object({
  account_id: Id,
  credit_id: Id,
  amount: usd(
    "`started` adds it to the balance; `expired`, `voided` and `moved` take it off. `drawn` says which credit calls have spent, and does not change the balance; it is negative for money that came back.",
  ),
  at: Time,
  cause_id: nullable(
    Type.String(),
    "The id of the call that spent or freed it after an expiry or a void, or of the credit of a move.",
  ),
  reason: nullable(Type.String()),
})

const changed = Type.Pick(BudgetBody, [
  "account_id",
  "name",
  "selector",
  "selected",
  "unit",
  "per",
  "timezone",
])

export const BudgetEventBody = Type.Composite([
  Type.Object({ budget_id: Id }),
  changed,
  Type.Pick(BudgetBody, ["mode", "amount", "raise", "thresholds"]),
  Type.Object({ actor: Type.String(), reason: nullable(Type.String()), made_at: Time }),
])

export const ThresholdEventBody = Type.Composite([
  Type.Object({ budget_id: Id }),
  changed,
  Type.Pick(BudgetBody, ["since", "limit", "spent"]),
  Type.Object({
    percent: Type.Integer({ description: "The threshold, in percent of the limit." }),
    crossed_at: Time,
  }),
])

export const AttemptEventBody = Type.Object({
  account_id: Id,
  call_id: Id,
  ordinal: count("The place among the attempts of the call."),
  upstream: Type.String(),
  upstream_key: callDetails.upstream_key,
  ...attemptOutcome,
  ms: Milliseconds,
  provider_request_id: callDetails.provider_request_id,
  ended_at: Time,
})

const ForgottenEventBody = Type.Object({ account_id: Id, id: Id, forgotten_at: Time })

const LowBalanceEventBody = Type.Object({
  account_id: Id,
  balance: Money,
  threshold: usd("The account's `low_balance`."),
})

const UpstreamEventBody = Type.Object({
  upstream: text("The upstream's name in the configuration."),
  upstream_key: nullable(text("The name of the refused key; null for the upstream itself.")),
})

export const EventBody = resource({
  specversion: Type.Literal("1.0"),
  id: titled(
    "ID",
    text(
      "The id of the entry, as the page about events says for each type. An event that is sent again has the same id.",
    ),
  ),
  source: text(
    "`/accounts/` and the account's id; `/upstreams/` and the name for an alert about an upstream; `/operators/` and the name for a change by an operator.",
  ),
  type: choice(eventTypes),
  subject: text(
    "The account's `external_id`; its id if it has none. The name of the upstream or of the operator.",
  ),
  time: Time,
  datacontenttype: Type.Literal("application/json"),
  data: Type.Union([
    CorrectedCallBody,
    CallBody,
    AddedCreditBody,
    GrantEventBody,
    ThresholdEventBody,
    BudgetEventBody,
    AttemptEventBody,
    ForgottenEventBody,
    LowBalanceEventBody,
    UpstreamEventBody,
    ChangeBody,
  ]),
})
export type EventBody = Static<typeof EventBody>

/** An entry of a budget (D97): its event without the fields that are the same for all. */
export const BudgetLogBody = resource({
  ...Type.Pick(EventBody, ["id", "time"]).properties,
  type: choice(budgetLogEvents),
  data: Type.Union([ThresholdEventBody, BudgetEventBody]),
})
export type BudgetLogBody = Static<typeof BudgetLogBody>

export const FeedLine = Type.Composite([
  EventBody,
  Type.Object({
    cursor: text("The `after` with which the feed continues after this event."),
  }),
])
export type FeedLine = Static<typeof FeedLine>
