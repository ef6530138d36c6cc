import type { Route } from "../config/config.ts"
import type { End, Hold } from "../ledger/entries.ts"
import type { OperationName } from "../wire/call.ts"
import { type TraceContext, type TraceHeaders, traceHeaders } from "../wire/trace-context.ts"

export interface Answered {
  readonly route: string
  readonly method: string
  readonly status: number
  /** The gateway's error code; null if there was no error. */
  readonly code: string | null
}

/** The trace of one request (D54). Methods are called in this order, and never wait or throw. */
export interface Trace {
  /** 32 hex digits. */
  readonly id: string
  holding(): void
  held(hold: Hold, model: string, operation: OperationName): void
  /** An upstream attempt begins, with the operation in the words of the GenAI conventions. Returns the trace headers of its request. */
  attempting(route: Route, operation: string): TraceHeaders
  /** The attempt has its response headers or has failed: a status, or the reason. */
  attempted(outcome: number | string): void
  /** The call has ended (D13); `upstream` is the one that answered, or null. */
  ended(end: End, upstream: string | null): void
  /** The end is durable, or the wait for it has timed out (D32). */
  durable(): void
}

export interface Tracer {
  /** A request begins, in the trace of its headers if they name one. */
  begin(request: Request, request_id: string, context: TraceContext | null): Trace
  /** The response headers are sent. Ignored for a request that was not begun. */
  answered(request: Request, answer: Answered): void
  /** Exports the remaining spans, within a bounded time. Never rejects. */
  stop(): Promise<void>
}

/** A trace that is not recorded here: its headers are passed on unchanged. */
export function passedOn(context: TraceContext): Trace {
  const headers = traceHeaders(context)
  const nothing = () => {}
  return {
    id: context.trace_id,
    holding: nothing,
    held: nothing,
    attempting: () => headers,
    attempted: nothing,
    ended: nothing,
    durable: nothing,
  }
}
