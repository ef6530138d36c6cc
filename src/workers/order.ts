import { type Static, Type } from "@sinclair/typebox"
import { Snapshot } from "../config/snapshot.ts"
import { Tracing } from "../config/tracing.ts"

/** Everything a worker is to be: it reads no file and no variable of its own. */
export const Assignment = Type.Object({
  /** From 1 on; a worker that replaces another gets its number. */
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

/** What a worker tells of itself, and what it asks the parent to ask all workers. */
export const Question = Type.Union([
  /** Answered in Prometheus' text format. */
  Type.Object({ what: Type.Literal("metrics") }),
  /** Answered with how the upstreams do, in JSON. */
  Type.Object({ what: Type.Literal("upstreams") }),
])
export type Question = Static<typeof Question>

/** What the parent asks of a worker. */
export const Order = Type.Union([
  /** Answered when it listens, or with the sentence that tells why it cannot. */
  Type.Object({ what: Type.Literal("begin"), assignment: Assignment }),
  Type.Object({ what: Type.Literal("reload"), snapshot: Snapshot }),
  Question,
  /** As at a first and at a second signal (D34). */
  Type.Object({ what: Type.Literal("drain") }),
  Type.Object({ what: Type.Literal("hurry") }),
])
export type Order = Static<typeof Order>
