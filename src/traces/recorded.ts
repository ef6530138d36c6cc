import type { Route } from "../config/config.ts"
import type { End, Hold } from "../ledger/entries.ts"
import type { OperationName } from "../wire/call.ts"
import { type TraceContext, type TraceHeaders, traceHeaders } from "../wire/trace-context.ts"
import { attemptAt, callOf, isFault, settlementOf, tokensOf } from "./attributes.ts"
import type { Event, SpanAttributes, TraceSpan } from "./otlp.ts"
import type { Answered, Trace } from "./trace.ts"

const POOL_BYTES = 4_096
let pool = Buffer.alloc(0)
let at = 0

/** `bytes` random bytes as hex digits. */
function hex(bytes: number): string {
  if (at + bytes > pool.length) {
    pool = crypto.getRandomValues(Buffer.alloc(POOL_BYTES))
    at = 0
  }
  at += bytes
  return pool.toString("hex", at - bytes, at)
}

export function newTraceId(): string {
  return hex(16)
}

export function newSpanId(): string {
  return hex(8)
}

type OpenSpan = Pick<TraceSpan, "span_id" | "name" | "kind" | "began_ms" | "attributes">

/**
 * A request whose spans are recorded: one for the request itself, with children for the hold, each upstream attempt and the settlement.
 * Attributes are fixed words, names from the configuration, ids, counts and amounts; never a prompt, a response or a key.
 */
export class RecordedTrace implements Trace {
  readonly id: string
  readonly #context: TraceContext | null
  readonly #keep: (spans: readonly TraceSpan[]) => void
  /** The offset from the process clock to the wall clock. */
  readonly #origin_ms = Date.now() - performance.now()
  readonly #began_ms = this.#now()
  readonly #span_id = newSpanId()
  readonly #request_id: string
  readonly #spans: TraceSpan[] = []
  #holding: OpenSpan | null = null
  #attempt: OpenSpan | null = null
  #settling: OpenSpan | null = null
  #hold: Hold | null = null
  #call: SpanAttributes = {}
  #held_ms = 0
  #ended: End | null = null
  #upstream: string | null = null
  #closed_ms = 0
  #answered: Answered | null = null
  #is_settled = false

  /** `keep` gets all spans when the last one has ended. */
  constructor(
    trace_id: string,
    context: TraceContext | null,
    request_id: string,
    keep: (spans: readonly TraceSpan[]) => void,
  ) {
    this.id = trace_id
    this.#context = context
    this.#request_id = request_id
    this.#keep = keep
  }

  holding(): void {
    this.#holding = this.#open("hold", "internal")
  }

  held(hold: Hold, model: string, operation: OperationName): void {
    this.#hold = hold
    this.#call = callOf(hold, model, operation)
    this.#held_ms = this.#now()
    this.#end(this.#holding, { "tollgate.held_nano_usd": hold.amount_nano })
    this.#holding = null
  }

  attempting(route: Route, operation: string): TraceHeaders {
    this.#attempt = this.#open(`${operation} ${route.model}`, "client", attemptAt(route, operation))
    const { span_id } = this.#attempt
    const tracestate = this.#context?.tracestate ?? null
    return traceHeaders({ trace_id: this.id, span_id, sampled: true, tracestate })
  }

  /** An attempt with a 2xx ends only when its response has ended. */
  attempted(outcome: number | string): void {
    const attempt = this.#attempt
    if (attempt === null) return
    if (typeof outcome === "number" && outcome >= 200 && outcome <= 299) {
      this.#attempt = {
        ...attempt,
        attributes: { ...attempt.attributes, "http.response.status_code": outcome },
      }
      return
    }
    this.#attempt = null
    const status = typeof outcome === "number" ? outcome : null
    const attributes = { "http.response.status_code": status, "error.type": String(outcome) }
    this.#end(attempt, attributes, outcome !== "abandoned")
  }

  ended(end: End, upstream: string | null): void {
    this.#ended = end
    this.#upstream = upstream
    this.#endAttempt(end)
    this.#closed_ms = this.#now()
    this.#settling = this.#open("settle", "internal")
  }

  durable(): void {
    if (this.#ended !== null) this.#end(this.#settling, settlementOf(this.#ended))
    this.#is_settled = true
    this.#finish()
  }

  /** The response headers are sent. */
  answered(answer: Answered): void {
    this.#answered = answer
    this.#finish()
  }

  /** The request has ended when it is answered and, if it held money, settled. */
  #finish(): void {
    if (this.#answered === null || (this.#hold !== null && !this.#is_settled)) return
    const { route, method, status, code } = this.#answered
    this.#end(this.#holding, { "error.type": code }, status >= 500)
    this.#endAttempt(null)
    const failure = this.#ended?.failure ?? null
    const ended_ms = this.#now()
    this.#spans.push({
      ...this.#common(ended_ms),
      span_id: this.#span_id,
      parent_id: this.#context?.span_id ?? null,
      remote_parent: this.#context !== null,
      name: `${method} ${route}`,
      kind: "server",
      began_ms: this.#began_ms,
      attributes: {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
        "tollgate.request_id": this.#request_id,
        ...this.#call,
        ...(this.#ended && settlementOf(this.#ended)),
        ...(this.#ended && tokensOf(this.#ended, this.#upstream)),
        "error.type": failure ?? code,
      },
      events: this.#firstOutput(),
      failed: status >= 500 || isFault(failure),
    })
    this.#keep(this.#spans)
  }

  /** The ledger rounds to milliseconds, which must not move the time past the end of the call. */
  #firstOutput(): readonly Event[] {
    const ttft_ms = this.#ended?.ttft_ms ?? null
    if (ttft_ms === null) return []
    return [{ name: "first_output", at_ms: Math.min(this.#held_ms + ttft_ms, this.#closed_ms) }]
  }

  #endAttempt(end: End | null): void {
    const failure = end?.failure ?? null
    this.#end(
      this.#attempt,
      { ...(end && tokensOf(end, this.#upstream)), "error.type": failure },
      isFault(failure),
    )
    this.#attempt = null
  }

  #open(name: string, kind: TraceSpan["kind"], attributes: SpanAttributes = {}): OpenSpan {
    return { span_id: newSpanId(), name, kind, began_ms: this.#now(), attributes }
  }

  #end(span: OpenSpan | null, attributes: SpanAttributes, failed = false): void {
    if (span === null) return
    this.#spans.push({
      ...this.#common(this.#now()),
      ...span,
      parent_id: this.#span_id,
      remote_parent: false,
      attributes: { ...span.attributes, ...attributes },
      events: [],
      failed,
    })
  }

  #common(ended_ms: number) {
    return { trace_id: this.id, tracestate: this.#context?.tracestate ?? null, ended_ms }
  }

  #now(): number {
    return this.#origin_ms + performance.now()
  }
}
