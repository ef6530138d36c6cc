/** W3C Trace Context: the trace of a request, and the span that made it (D54). */

export interface TraceContext {
  /** 32 hex digits, in lower case. */
  readonly trace_id: string
  /** The id of the span that made the request: 16 hex digits. */
  readonly span_id: string
  readonly sampled: boolean
  /** Data of other tracing systems; null for none. */
  readonly tracestate: string | null
}

export type TraceHeaders = Readonly<Record<string, string>>

const VERSION_00 = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/
const SAMPLED = 1

const MAX_STATE_BYTES = 512
const MAX_STATE_MEMBERS = 32
const STATE_MEMBER =
  /^(?:[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

export function readTraceContext(headers: Headers): TraceContext | null {
  const traceparent = headers.get("traceparent")
  if (traceparent === null) return null
  const [whole, version = "", trace_id = "", span_id = "", flags = "", further] =
    VERSION_00.exec(traceparent) ?? []
  if (whole === undefined || version === "ff" || (version === "00" && further !== undefined)) return null
  if (ZEROS.test(trace_id) || ZEROS.test(span_id)) return null
  const sampled = (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED
  return { trace_id, span_id, sampled, tracestate: stateOf(headers.get("tracestate")) }
}

/** A valid `tracestate`, otherwise null. An invalid one does not invalidate `traceparent`. */
function stateOf(tracestate: string | null): string | null {
  if (tracestate === null || tracestate.length > MAX_STATE_BYTES) return null
  const members = tracestate
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "")
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf("="))))
  if (members.length === 0 || members.length > MAX_STATE_MEMBERS || keys.size < members.length) return null
  return members.every((member) => STATE_MEMBER.test(member)) ? members.join(",") : null
}

export function traceHeaders({ trace_id, span_id, sampled, tracestate }: TraceContext): TraceHeaders {
  const traceparent = `00-${trace_id}-${span_id}-${sampled ? "01" : "00"}`
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}
