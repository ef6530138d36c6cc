import { type Static, Type } from "@sinclair/typebox"
import { closed, Id, line, nullable, ownId, Time } from "./admin.ts"
import { eventTypes } from "./events.ts"
import { EXPECTED, invalidField } from "./fault.ts"
import { titled } from "./field.ts"
import { parseTime } from "./time.ts"

/** Sinks of events: requests and answers under `/admin/sinks` (D96). */

export const sinkStates = ["active", "failing", "paused", "stopped"] as const
const TYPES = `an array of ${eventTypes.join(", ")}`
const TIME = "an RFC 3339 time"

const fields = {
  id: titled("ID", Id),
  name: titled("Name", Type.String()),
  url: titled("Address", Type.String()),
  types: nullable(Type.Array(Type.String(), { description: "The types of its events; null: all." })),
  allow_private: Type.Boolean({ description: "Whether its address may be in a private network." }),
  state: titled("State", Type.String({ enum: [...sinkStates] }), {
    description:
      "`failing`: its next event was refused and will be sent again at `retry_at`. `stopped`: it answered 410, refused an event for 7 days, or the feed cannot go on from its place, as `reason` says.",
  }),
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
  reason: titled("Reason", nullable(Type.String({ description: "Why the last delivery failed." }))),
  retry_at: titled("Next try", nullable(Time)),
  delivered_at: titled("Delivered", nullable(Time)),
  created_at: titled("Created", Time),
}

export const SinkBody = Type.Object(fields)
export type SinkBody = Static<typeof SinkBody>

export const SinkWithSecretBody = Type.Object({
  ...fields,
  secret: Type.String({ description: "The secret of its signatures. It is shown only once." }),
})
export type SinkWithSecretBody = Static<typeof SinkWithSecretBody>

export const SinksBody = Type.Object({ data: Type.Array(SinkBody) })
export type SinksBody = Static<typeof SinksBody>

const Url = line(2_000, "Where events are sent: an https URL.")
const Types = Type.Union(
  [Type.Array(Type.Union(eventTypes.map((type) => Type.Literal(type))), { minItems: 1 }), Type.Null()],
  { description: "Only events of these types; null: all.", [EXPECTED]: `${TYPES}, or null` },
)
const From = Type.Unsafe<Date>(
  Type.Transform(
    Type.String({
      description: "Events since this time, as an RFC 3339 time. A few earlier ones may be among them.",
      [EXPECTED]: TIME,
    }),
  )
    .Decode((text) => {
      const from = parseTime(text)
      if (from === null) throw invalidField("from", TIME)
      return from
    })
    .Encode(String),
)

export const NewSink = Type.Object(
  {
    id: ownId("Makes the request safe to retry: the same id never creates two sinks."),
    name: Type.String({
      pattern: "^[a-z0-9_-]{1,64}$",
      description: "A name for the sink, in metrics and in the log.",
      [EXPECTED]: "1 to 64 of a to z, digits, _ and -",
    }),
    url: Url,
    types: Type.Optional(Types),
    allow_private: Type.Optional(
      Type.Boolean({
        description: "Allows http, and addresses in private networks. Default: false.",
        [EXPECTED]: "true or false",
      }),
    ),
    from: Type.Optional(From),
  },
  closed,
)

export const SinkChange = Type.Object(
  {
    url: Type.Optional(Url),
    types: Type.Optional(Types),
    paused: Type.Optional(
      Type.Boolean({
        description: "True stops the delivery; false continues it, also for a sink that was stopped.",
        [EXPECTED]: "true or false",
      }),
    ),
  },
  closed,
)

export const KEEP_HOURS = 24
const MAX_KEEP_HOURS = 168

export const Rotation = Type.Object(
  {
    keep_hours: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_KEEP_HOURS,
        description: `How many hours the secret before signs too. Default: ${KEEP_HOURS}.`,
        [EXPECTED]: `an integer from 0 to ${MAX_KEEP_HOURS}`,
      }),
    ),
  },
  closed,
)

export const Replay = Type.Object({ from: From }, closed)
