/** The words of sinks of events (D96). */

export const sinkKinds = ["webhook", "openmeter", "stripe", "lago"] as const
export type SinkKind = (typeof sinkKinds)[number]

/** The kinds whose events count for a named meter or metric. */
export const meteredKinds: ReadonlySet<SinkKind> = new Set(["stripe", "lago"])

/** Less than the 24 hours for which Stripe knows an identifier: a request that may have arrived must not be repeated later. */
export const STRIPE_KNOWS_MS = 20 * 3_600_000

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
