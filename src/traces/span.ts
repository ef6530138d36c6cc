/** The value of an attribute; whole numbers are encoded as integers. */
export type Value = string | number | bigint | boolean | readonly string[]

/** Attributes by name; null and undefined are omitted. */
export type Attributes = Readonly<Record<string, Value | null | undefined>>

/** OpenTelemetry's numbers of span kinds. */
export const KINDS = { internal: 1, server: 2, client: 3 } as const

export interface Event {
  readonly name: string
  /** Wall clock, in milliseconds, as all times here. */
  readonly at_ms: number
}

/** A completed span. */
export interface Span {
  readonly trace_id: string
  /** 16 hex digits. */
  readonly span_id: string
  /** Null for the root span of a trace. */
  readonly parent_id: string | null
  /** Whether the parent span belongs to another process. */
  readonly remote_parent: boolean
  readonly tracestate: string | null
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly began_ms: number
  readonly ended_ms: number
  readonly attributes: Attributes
  readonly events: readonly Event[]
  /** Whether it failed; the attribute `error.type` has the reason. */
  readonly failed: boolean
}
