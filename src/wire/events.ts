import { type Static, Type } from "@sinclair/typebox"
import { CallBody, Id, Money, Time } from "./admin.ts"
import { CreditBody } from "./credit-bodies.ts"
import { titled } from "./field.ts"
import { cursor, moment, query, wholeNumber, words } from "./parameter.ts"

/** Events about entries of the journal, as CloudEvents 1.0 (D96). */

export const eventTypes = ["tollgate.call.ended", "tollgate.call.corrected", "tollgate.credit.added"] as const
export type EventType = (typeof eventTypes)[number]

export const MAX_EVENTS = 1_000
const DEFAULT_EVENTS = 100
/** Shorter than the idle timeout of a connection. */
const MAX_WAIT_S = 30

/** The header with the cursor of the next request. */
export const NEXT_CURSOR = "tollgate-next"

export const EventsQuery = query({
  after: Type.Optional(
    cursor(
      `The \`cursor\` of an event, or the \`${NEXT_CURSOR}\` header of the previous response. Without it, the feed begins at its first event.`,
    ),
  ),
  from: Type.Optional(
    moment(
      "Without `after`: only events from this time on. Later pages need only `after`. An RFC 3339 time, or a day in UTC.",
    ),
  ),
  types: Type.Optional(words(eventTypes, "Only events of these types, separated by commas.")),
  limit: Type.Optional(wholeNumber(MAX_EVENTS, DEFAULT_EVENTS, "The maximum number of events.")),
  wait: Type.Optional(
    wholeNumber(
      MAX_WAIT_S,
      1,
      "How many seconds to wait for an event if there is none. Without it, the answer comes immediately.",
    ),
  ),
})

/** The query, in the form of the ledger. */
export function askedEvents(asked: Static<typeof EventsQuery>) {
  const { limit = DEFAULT_EVENTS, types = eventTypes, after, from } = asked
  return { limit, types, after: after ?? null, from: from ?? null }
}

export const CorrectedCallBody = Type.Composite([
  CallBody,
  Type.Object({
    difference: Type.String({
      ...Money,
      description: "The new charge less the one of the event `tollgate.call.ended`. It can be negative.",
    }),
  }),
])

export const AddedCreditBody = Type.Composite([CreditBody, Type.Object({ account_id: Id })])

export const EventBody = Type.Object({
  specversion: Type.Literal("1.0"),
  id: titled(
    "ID",
    Type.String({
      description:
        "The call's id; the call's id and `/c` for its correction; the credit's id. An event that is sent again has the same id.",
    }),
  ),
  source: Type.String({ description: "`/accounts/` and the account's id." }),
  type: titled("Type", Type.String({ enum: [...eventTypes] })),
  subject: Type.String({ description: "The account's id." }),
  time: titled("Time", Time),
  datacontenttype: Type.Literal("application/json"),
  data: Type.Union([CorrectedCallBody, CallBody, AddedCreditBody]),
})
export type EventBody = Static<typeof EventBody>

export const FeedLine = Type.Composite([
  EventBody,
  Type.Object({
    cursor: Type.String({ description: "The `after` with which the feed continues after this event." }),
  }),
])
export type FeedLine = Static<typeof FeedLine>
