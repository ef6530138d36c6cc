/** What an attribute may be; whole numbers are integers there too. */
export type Value = string | number | bigint | boolean | readonly string[]

/** By their names; what is null or undefined is left out. */
export type Attributes = Readonly<Record<string, Value | null | undefined>>

/** The kinds of OpenTelemetry, by their numbers. */
export const KINDS = { internal: 1, server: 2, client: 3 } as const

export interface Event {
  readonly name: string
  /** Milliseconds of the wall clock, as all times here. */
  readonly at_ms: number
}

/** One step of a trace, once it is over. */
export interface Span {
  readonly trace_id: string
  /** 16 hex digits. */
  readonly span_id: string
  /** Null for the first span of a trace. */
  readonly parent_id: string | null
  /** Whether the parent is somebody else's. */
  readonly remote_parent: boolean
  readonly tracestate: string | null
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly began_ms: number
  readonly ended_ms: number
  readonly attributes: Attributes
  readonly events: readonly Event[]
  /** Whether it went wrong; what went wrong is an attribute, `error.type`. */
  readonly failed: boolean
}
