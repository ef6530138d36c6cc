/** The words of sinks of events (D96). */

export const sinkKinds = ["webhook", "openmeter", "stripe", "lago"] as const
export type SinkKind = (typeof sinkKinds)[number]

/** The kinds whose events count for a named meter or metric. */
export const meteredKinds: ReadonlySet<SinkKind> = new Set(["stripe", "lago"])

/** An event that a sink has refused for ever, or would. */
export interface SkippedEvent {
  readonly id: string
  /** Of the event: its account. */
  readonly source: string
  readonly type: string
  /** An RFC 3339 time. */
  readonly at: string
  readonly reason: string
}

export const MAX_SKIPPED = 20
