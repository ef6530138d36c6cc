import { type Static, Type } from "@sinclair/typebox"

const Count = Type.Integer({ minimum: 1 })
const Milliseconds = Type.Number({ minimum: 0 })

/**
 * How calls arrive. `closed` and `calls`: each connection calls again when it was answered, for a time or a number of calls.
 * `held`: many streams at once, measured while all of them run.
 */
export const Arrival = Type.Union([
  Type.Object({ kind: Type.Literal("closed"), connections: Count, duration_ms: Milliseconds }),
  Type.Object({ kind: Type.Literal("calls"), connections: Count, calls: Count }),
  Type.Object({
    kind: Type.Literal("held"),
    connections: Count,
    opened_per_second: Type.Number(),
    window_ms: Milliseconds,
  }),
])
export type Arrival = Static<typeof Arrival>

/** The events of a whole stream, and which of them is the first with output. */
export const StreamEvents = Type.Object({ events: Count, first_output: Count })
export type StreamEvents = Static<typeof StreamEvents>

/** What the load generator is asked to do. */
export const Job = Type.Object({
  port: Type.Integer(),
  path: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.String(),
  /** Null when the answer is no stream. */
  stream: Type.Union([StreamEvents, Type.Null()]),
  arrival: Arrival,
  /** Calls that begin within this time are not counted. */
  warm_ms: Milliseconds,
  /** The target's first process: its memory is read while the load runs, and its CPU with that of all below it. */
  pid: Type.Integer(),
  /** The first process of each Postgres of the target. */
  postgres_pids: Type.Array(Type.Integer()),
})
export type Job = Static<typeof Job>

const Encoded = Type.String({ description: "A distribution, as `Latencies` encodes it." })

/** What a load found, over HTTP or on the ledger alone: there, `calls` are pairs, and `ttft` is the time of the hold. */
export const Report = Type.Object({
  /** The measured time, and what ended within it. */
  measured_ms: Type.Number(),
  calls: Type.Integer(),
  events: Type.Integer(),
  /** The number of failed calls, by cause. */
  failures: Type.Record(Type.String(), Type.Integer()),
  latency: Encoded,
  ttft: Encoded,
  inter_chunk: Encoded,
  /** CPU of the load generator, the target and each Postgres of it within the measured time. */
  cpu_ms: Type.Object({ load: Type.Number(), target: Type.Number(), postgres: Type.Array(Type.Number()) }),
  /** Resident memory of the target's first process at the end of the measured time, less that before the first call. */
  grown_bytes: Type.Number(),
})
export type Report = Static<typeof Report>
