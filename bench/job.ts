import { type Static, Type } from "@sinclair/typebox"

export const Origin = Type.Object({
  host: Type.String(),
  port: Type.Integer(),
})
export type Origin = Static<typeof Origin>

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

/** What the load generator is asked to do. */
export const Job = Type.Object({
  origin: Origin,
  path: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.String(),
  stream: Type.Boolean(),
  arrival: Arrival,
  /** Calls that begin within this time are not counted. */
  warm_ms: Milliseconds,
  /** Disconnects from a stream after this many events; null reads to the end. */
  leave_after: Type.Union([Count, Type.Null()]),
  /** The target's first process: its memory is read while the load runs, and its CPU with that of all below it; null for none. */
  pid: Type.Union([Type.Integer(), Type.Null()]),
  /** The first process of the target's Postgres; null for none. */
  postgres_pid: Type.Union([Type.Integer(), Type.Null()]),
})
export type Job = Static<typeof Job>

const Encoded = Type.String({ description: "A distribution, as `Latencies` encodes it." })

export const JobReport = Type.Object({
  /** The measured time, and what ended within it. */
  measured_ms: Type.Number(),
  calls: Type.Integer(),
  events: Type.Integer(),
  /** Every call that was made, warm-up included. */
  made: Type.Integer(),
  /** The number of failed calls, by cause. */
  failures: Type.Record(Type.String(), Type.Integer()),
  latency: Encoded,
  ttft: Encoded,
  inter_chunk: Encoded,
  /** CPU of the load generator, the target and its Postgres within the measured time. */
  cpu_ms: Type.Object({ load: Type.Number(), target: Type.Number(), postgres: Type.Number() }),
  memory: Type.Union([
    Type.Null(),
    Type.Object({
      /** Resident memory before the first call, and at the end of the measured time. */
      resident_before_bytes: Type.Number(),
      resident_bytes: Type.Number(),
    }),
  ]),
})
export type JobReport = Static<typeof JobReport>
