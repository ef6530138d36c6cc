import { type Static, Type } from "@sinclair/typebox"
import { Snapshot } from "../config/snapshot.ts"

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
  snapshot: Snapshot,
})
export type Assignment = Static<typeof Assignment>

/** What the parent asks of a worker. */
export const Order = Type.Union([
  /** Answered when it listens, or with the sentence that tells why it cannot. */
  Type.Object({ what: Type.Literal("begin"), assignment: Assignment }),
  Type.Object({ what: Type.Literal("reload"), snapshot: Snapshot }),
  /** Answered with the worker's own metrics. */
  Type.Object({ what: Type.Literal("metrics") }),
  /** As at a first and at a second signal (D34). */
  Type.Object({ what: Type.Literal("drain") }),
  Type.Object({ what: Type.Literal("hurry") }),
])
export type Order = Static<typeof Order>

/** What a worker asks of the parent: the metrics of all workers. */
export const METRICS = { what: "metrics" } as const
