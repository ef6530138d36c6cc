import { type Static, Type } from "@sinclair/typebox"
import { Id, line, ownId, requestBody, TIME, Time, timeField, trueOrFalse } from "./admin.ts"
import { eventTypes } from "./events.ts"
import { EXPECTED } from "./fault.ts"
import { choice, fields, nullable, oneOf, optional, text, titled } from "./field.ts"
import { MAX_SKIPPED, sinkKinds } from "./sink-kinds.ts"

/** Sinks of events: requests and answers under `/admin/sinks` (D96). */

const sinkStates = ["active", "failing", "paused", "stopped"] as const
const TYPES = `an array of ${eventTypes.join(", ")}`

const own = fields({
  id: titled("ID", Id),
  name: Type.String({ examples: ["billing"] }),
  kind: choice(sinkKinds),
  url: titled("Address", Type.String()),
  meter: nullable(
    text("The `event_name` of Stripe's meter, or the `code` of Lago's metric; null for the other kinds."),
  ),
  types: nullable(
    Type.Array(Type.String(), {
      description: "The types of its events; null: all but `tollgate.operator.changed`.",
    }),
  ),
  allow_private: Type.Boolean({ description: "Whether its address may be in a private network." }),
  state: titled(
    "State",
    choice(sinkStates),
    "`failing`: its next event was refused and will be sent again at `retry_at`. `stopped`: it answered 410, refused an event for 7 days, or the feed cannot go on from its place, as `reason` says.",
  ),
  lag_seconds: titled(
    "Lag (s)",
    nullable(
      Type.Number({
        minimum: 0,
        description:
          "Age of the oldest event that is not delivered; 0 if there is none, null if the feed cannot be read there.",
      }),
    ),
  ),
  reason: nullable(text("Why the last delivery failed.")),
  retry_at: titled("Next try", nullable(Time)),
  delivered_at: titled("Delivered", nullable(Time)),
  skipped: titled(
    "Skipped",
    Type.Array(
      Type.Object({
        id: Type.String(),
        source: Type.String(),
        type: Type.String(),
        at: Time,
        reason: Type.String(),
      }),
    ),
    `The last ${MAX_SKIPPED} events that it refused for ever, the newest first. They were not sent again. Of an account that is no customer of Stripe, only the last event.`,
  ),
  created_at: titled("Created", Time),
})

export const SinkBody = Type.Object(own)
export type SinkBody = Static<typeof SinkBody>

export const SinkWithSecretBody = Type.Object({
  ...own,
  secret: nullable(
    text("The secret of a webhook's signatures. It is shown only once. Null for the other kinds."),
  ),
})
export type SinkWithSecretBody = Static<typeof SinkWithSecretBody>

export const SinksBody = Type.Object({ data: Type.Array(SinkBody) })
export type SinksBody = Static<typeof SinksBody>

const Url = line(
  2_000,
  "Where events are sent: an https URL. For a vendor the base of its API, such as `https://api.stripe.com`.",
)
/** In a header, which takes no other characters. */
const Token = Type.String({
  pattern: "^[\\x21-\\x7e]{1,500}$",
  description: "The token for the vendor's API. It is never shown.",
  [EXPECTED]: "1 to 500 characters of ASCII without spaces",
})
const Types = Type.Union(
  [Type.Array(Type.Union(eventTypes.map((type) => Type.Literal(type))), { minItems: 1 }), Type.Null()],
  {
    description: "Only events of these types; null: all but `tollgate.operator.changed`.",
    [EXPECTED]: `${TYPES}, or null`,
  },
)
const From = timeField(
  "from",
  "Events since this time, as an RFC 3339 time. A few earlier ones may be among them.",
  TIME,
)

export const NewSink = requestBody({
  id: ownId("Makes the request safe to retry: the same id never creates two sinks."),
  name: Type.String({
    pattern: "^[a-z0-9_-]{1,64}$",
    description: "A name for the sink, in metrics and in the log.",
    [EXPECTED]: "1 to 64 of a to z, digits, _ and -",
  }),
  kind: Type.Optional(oneOf(sinkKinds, "Who receives the events. The default is `webhook`.")),
  url: Url,
  ...optional({
    token: Token,
    meter: line(100, "For `stripe` the `event_name` of the meter; for `lago` the `code` of the metric."),
    types: Types,
    allow_private: trueOrFalse("Allows http, and addresses in private networks. Default: false."),
    from: From,
  }),
})

export const SinkChange = requestBody(
  optional({
    url: Url,
    token: Token,
    types: Types,
    paused: trueOrFalse("True stops the delivery; false continues it, also for a sink that was stopped."),
  }),
)

export const KEEP_HOURS = 24
const MAX_KEEP_HOURS = 168

export const Rotation = requestBody({
  keep_hours: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_KEEP_HOURS,
      description: `How many hours the secret before also works. Default: ${KEEP_HOURS}.`,
      [EXPECTED]: `an integer from 0 to ${MAX_KEEP_HOURS}`,
    }),
  ),
})

export const Replay = requestBody({ from: From })
