import { type Static, Type } from "@sinclair/typebox"
import { Snapshot } from "../config/load.ts"
import { Tracing } from "../config/tracing.ts"

/** Everything that a worker needs to start. Workers read no files and no variables, so all have the same values. */
export const Assignment = Type.Object({
  /** From 1 on. A replacement gets the number of the worker it replaces. */
  number: Type.Integer(),
  host: Type.String(),
  port: Type.Integer(),
  admin: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  address: Type.Union([
    Type.Object({ url: Type.String() }),
    Type.Object({ socket_path: Type.String(), user: Type.String(), database: Type.String() }),
  ]),
  data_dir: Type.String(),
  admin_token: Type.Union([Type.String(), Type.Null()]),
  log_level: Type.String(),
  tracing: Type.Union([Tracing, Type.Null()]),
  snapshot: Snapshot,
})
export type Assignment = Static<typeof Assignment>

/** The parent asks it of a worker; a worker asks the parent to ask it of all workers. */
export const Question = Type.Union([
  /** Answered in Prometheus' text format. */
  Type.Object({ what: Type.Literal("metrics") }),
  /** Answered with the upstreams' statuses, in JSON. */
  Type.Object({ what: Type.Literal("upstreams") }),
])
export type Question = Static<typeof Question>

/** What the parent sends to a worker. */
export const Command = Type.Union([
  /** Answered when the worker listens, or with the sentence that says why it cannot. */
  Type.Object({ what: Type.Literal("begin"), assignment: Assignment }),
  Type.Object({ what: Type.Literal("reload"), snapshot: Snapshot }),
  Question,
  /** Like a first and a second signal (D34). */
  Type.Object({ what: Type.Literal("drain") }),
  Type.Object({ what: Type.Literal("hurry") }),
])
export type Command = Static<typeof Command>
