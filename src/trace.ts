import type { Route } from "./config/config.ts"
import type { End, Hold } from "./ledger/entries.ts"
import { type TraceContext, type TraceHeaders, traceHeaders } from "./wire/trace-context.ts"

/** How a request was answered. */
export interface Answered {
  /** The pattern of its route. */
  readonly route: string
  readonly method: string
  readonly status: number
  /** The gateway's code of an error; null when it was none. */
  readonly code: string | null
}

/**
 * One request, as a trace tells of it (D54). It is told of each step, in the order of these methods, and stands in the way of none: they
 * neither wait nor throw.
 */
export interface Trace {
  /** 32 hex digits. */
  readonly id: string
  /** The money is about to be held. */
  reserving(): void
  held(hold: Hold, model: string): void
  /** An attempt at a provider begins: what its request says of the trace. */
  attempting(route: Route): TraceHeaders
  /** The attempt is over as far as its headers: a status, or why there was none. */
  attempted(outcome: number | string): void
  /** The call has ended (D13); `upstream` is who answered it, if anybody did. */
  ended(end: End, upstream: string | null): void
  /** The end is durable, or is not waited for any longer (D32). */
  durable(): void
}

/** Who keeps the traces of a process. */
export interface Tracer {
  /** A request came, of the trace that its headers name, if they do. */
  begin(request: Request, request_id: string, context: TraceContext | null): Trace
  /** The head of its answer leaves. Of a request that was not begun nothing is kept. */
  answered(request: Request, answer: Answered): void
  /** Sends what there is, within a bounded time. Never rejects. */
  stop(): Promise<void>
}

/** A trace that nobody keeps here: what is known of it is passed on as it is. */
export function passedOn(context: TraceContext): Trace {
  const headers = traceHeaders(context)
  const nothing = () => {}
  return {
    id: context.trace_id,
    reserving: nothing,
    held: nothing,
    attempting: () => headers,
    attempted: nothing,
    ended: nothing,
    durable: nothing,
  }
}
