import type { Signal } from "../call/cutoff.ts"
import type { Credential, Model, Route, Upstream } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { ErrorMeaning } from "../presets/preset.ts"
import type { LostAttempt, ProviderIds } from "../wire/call.ts"
import type { TraceHeaders } from "../wire/trace-context.ts"
import { isJudgedByBody, isPage, meaningOf, retryDelayOf } from "./account-errors.ts"
import { type Asking, type Candidate, candidatesOf } from "./candidates.ts"
import type { AttemptResult, CircuitBreakers } from "./circuit-breakers.ts"
import { decoded } from "./decoded.ts"
import { providerRequestId, requestHeaders, retryAfter, wholeSeconds } from "./headers.ts"
import { postDirectly } from "./http/direct.ts"
import type { Exchange } from "./http/exchange.ts"
import { postByFetch } from "./http/fetch.ts"
import { type AnswerHead, ConnectFailed, codeOf, type Post } from "./http/transport.ts"
import { isBodyShown, type RefusalForm } from "./refusal.ts"
import { type Body, drainBody, leftMs, type Reply, refusalText } from "./reply.ts"

/** Records the attempts of a call, for its log, metrics and trace. */
export interface Attempts {
  /** Called when an attempt begins. Returns the trace headers of its request (D54); null for none. */
  attempting?(route: Route): TraceHeaders | null
  /** Called with response headers after `duration_ms`, or a failure. `fault` contains nothing that either side sent. */
  attempted(upstream: Upstream, outcome: Outcome, duration_ms: number, fault: string | null): void
  /** An attempt that did not become the answer of the call, but may have reached the provider, which can bill it (D93). */
  lost?(attempt: LostAttempt): void
}

/**
 * Tries the routes and their keys in turn until one answers with a 2xx (D14, D82). Skips upstreams with an open circuit breaker
 * (D33), and those whose total timeout has passed (D31). Throws the `GatewayError` of the last attempt, or the reason of
 * `outgoing.signal` if that is aborted.
 */
export async function forward(
  routes: Model["routes"],
  outgoing: Outgoing,
  breakers: CircuitBreakers,
  attempts?: Attempts,
): Promise<Reply> {
  const began_ms = performance.now()
  let last_failure: FailedAttempt | null = null
  /** The route whose failure was not about its key. */
  let failed_route: Route | null = null
  for (const candidate of candidatesOf(routes, outgoing, breakers.cooldowns)) {
    const { route } = candidate
    if (route === failed_route || (last_failure !== null && leftMs(route.upstream, began_ms) <= 0)) continue
    const report = breakers.tryAcquire(route.upstream.name, outgoing.account_id)
    if (report === null) continue
    last_failure?.discard()
    outgoing.onAttempt?.(route.upstream)
    if (outgoing.signal.aborted) report("abandoned")
    outgoing.signal.throwIfAborted()
    const trace_headers = attempts?.attempting?.(route) ?? null
    const started_ms = last_failure === null ? began_ms : performance.now()
    const finishAttempt = (result: AttemptResult, outcome: Outcome, fault: string | null) => {
      report(result)
      attempts?.attempted(route.upstream, outcome, performance.now() - started_ms, fault)
    }
    let result: Reply | FailedAttempt
    try {
      result = await attempt(candidate, outgoing, began_ms, trace_headers)
    } catch (error) {
      finishAttempt("abandoned", "abandoned", null)
      attempts?.lost?.(lostAttempt(candidate, "abandoned", started_ms))
      throw error
    }
    if (result.kind === "reply") {
      finishAttempt("answered", result.status, null)
      breakers.cooldowns.clearRefusal(candidate)
      return result
    }
    finishAttempt(attemptResultOf(result), result.outcome, result.fault)
    if (result.outcome !== "unreachable")
      attempts?.lost?.(lostAttempt(candidate, result.outcome, started_ms, result.request_id))
    last_failure = result
    if (!result.is_retryable) break
    if (result.key_verdict === null) failed_route = route
    else if (result.key_verdict === "refused") breakers.cooldowns.noteRefused(candidate, outgoing)
    else if (result.key_verdict.limited_ms > 0)
      breakers.cooldowns.noteLimited(candidate, outgoing, result.key_verdict.limited_ms)
  }
  if (last_failure === null)
    throw new GatewayError("upstream_unavailable", { cause: "every breaker is open" })
  const error = await last_failure.error()
  outgoing.signal.throwIfAborted()
  throw error
}

function lostAttempt(
  { route, key }: Candidate,
  outcome: Exclude<Outcome, "unreachable">,
  started_ms: number,
  request_id: string | null = null,
): LostAttempt {
  return {
    upstream: route.upstream.name,
    ...(typeof outcome === "number" ? { status: outcome } : { failure: outcome }),
    ms: Math.round(performance.now() - started_ms),
    ...providerIdsOf(key, request_id),
  }
}

/** The record of a request in the journal. */
function providerIdsOf({ name }: Credential, request_id: string | null): ProviderIds {
  if (name === "") return request_id === null ? {} : { request_id }
  return request_id === null ? { key: name } : { key: name, request_id }
}

/** The effect of a failed attempt on the circuit breakers (D33). */
function attemptResultOf({ outcome, key_verdict }: FailedAttempt): AttemptResult {
  if (key_verdict !== null) return "answered"
  if (typeof outcome !== "number") return outcome === "unreachable" ? "unreachable" : "failed"
  return outcome < 500 ? "answered" : "failed"
}

export interface Outgoing extends Asking {
  readonly request_id: string
  readonly stream: boolean
  /** The JSON text to send, in parts, with the upstream's own name of the model and its changes. */
  body(route: Route): readonly string[]
  /** The version headers of a call of the messages family; otherwise null. */
  readonly headers: Readonly<Record<string, string>> | null
  /** The client's answer when the provider refuses (D17). */
  readonly refusals: RefusalForm
  /** Called right before an upstream is asked, to abort the call of a client that has left (D9). */
  onAttempt?(upstream: Upstream): void
  /** Aborted when nobody waits for the answer. Closes the connection, before and during the answer. */
  readonly signal: Signal
}

/**
 * The result of an attempt: the status, or why there is none. `unreachable`: refused, DNS, TLS. `broken`: closed before
 * the headers, or not HTTP. `timeout`: no headers in time. `abandoned`: nobody waits for the answer.
 */
export type Outcome = number | ConnectionFailure | "abandoned"
type ConnectionFailure = "unreachable" | "broken" | "timeout"

/** An attempt without a usable 2xx. Either `error` or `discard` must be called, or its connection leaks. */
interface FailedAttempt {
  readonly kind: "failure"
  readonly outcome: Exclude<Outcome, "abandoned">
  /** The upstream's fault, for the log. Null if the request was at fault (D17). */
  readonly fault: string | null
  readonly request_id: string | null
  /** True if another upstream may be tried: nothing of a 2xx was received (D14). */
  readonly is_retryable: boolean
  /** Set if the provider refused or limited the key, so that another key is tried (D82). */
  readonly key_verdict: "refused" | { readonly limited_ms: number } | null
  /** The error for the client (D17), with the provider's message if it may be shown. */
  error(): Promise<GatewayError>
  discard(): void
}

/** Statuses after which another upstream may be tried (D14). */
const RETRYABLE: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504, 529])

/** One attempt, up to its headers, for `first_byte` or the rest of `total` (D31). Throws the signal's reason. */
export async function attempt(
  candidate: Candidate,
  outgoing: Outgoing,
  began_ms: number,
  trace_headers: TraceHeaders | null,
): Promise<Reply | FailedAttempt> {
  const { route, key } = candidate
  const { upstream, model } = route
  const { signal, stream } = outgoing
  const body = outgoing.body(route)
  const further = trace_headers === null ? outgoing.headers : { ...outgoing.headers, ...trace_headers }
  const fields = requestHeaders(upstream, key, outgoing.request_id, stream, further)
  const exchange = transports[upstream.transport](upstream, outgoing.path, model, fields, body)
  cancelOnAbort(exchange, signal)
  let late = false
  const deadline = startDeadline(upstream, stream, began_ms, () => {
    late = true
    exchange.cancel()
  })
  try {
    const head = await exchange.head
    signal.throwIfAborted()
    const classified = classify(candidate, head, exchange, began_ms, outgoing)
    return classified instanceof Promise ? await classified : classified
  } catch (error) {
    signal.throwIfAborted()
    return failureWithoutAnswer(
      upstream,
      late ? "timeout" : connectionFailureOf(error),
      stream,
      codeOf(error),
    )
  } finally {
    clearTimeout(deadline)
  }
}

/** D59. */
const transports: Readonly<Record<Upstream["transport"], Post>> = {
  direct: postDirectly,
  fetch: postByFetch,
}

/** A separate function, because the listener lives as long as the answer and must not keep the request in memory. */
function cancelOnAbort(exchange: Exchange, signal: Signal): void {
  signal.addEventListener("abort", () => exchange.cancel())
}

/** The timeout for response headers (D31). */
function startDeadline(upstream: Upstream, stream: boolean, began_ms: number, expire: () => void): Timer {
  const { first_byte_ms } = upstream.timeouts
  const left_ms = Math.ceil(leftMs(upstream, began_ms))
  return setTimeout(expire, stream ? Math.min(first_byte_ms, left_ms) : left_ms)
}

/** True if an answer is a 2xx whose body may be read (D14, D25). */
function classify(
  { route, key }: Candidate,
  head: AnswerHead,
  exchange: Exchange,
  began_ms: number,
  outgoing: Pick<Outgoing, "request_id" | "refusals">,
): Reply | Promise<FailedAttempt> {
  const { status, fields } = head
  const request_id = providerRequestId(fields, outgoing.request_id)
  const body = head.fault === null ? decoded(exchange, fields) : null
  if (body === null) exchange.cancel()
  else if (status >= 200 && status < 300) {
    const length = body === exchange ? head.length : null
    return {
      kind: "reply",
      route,
      provider_ids: providerIdsOf(key, request_id),
      status,
      length,
      body,
      began_ms,
    }
  }
  return refused(route.upstream, key, head, body, request_id, outgoing.refusals)
}

const STATUS_OF_MEANING: Readonly<Record<ErrorMeaning, number>> = { account: 402, rate: 429, content: 400 }

/** An answer that is no 2xx or must not be read. A short body is read, so that the connection can be reused. */
async function refused(
  { secrets, errors }: Upstream,
  { name }: Credential,
  { status, fields, fault }: AnswerHead,
  body: Body | null,
  request_id: string | null,
  refusals: RefusalForm,
): Promise<FailedAttempt> {
  const content_type = fields.get("content-type")
  const read = body !== null && isJudgedByBody(status, errors) ? await refusalText(body, content_type) : null
  const meaning = body === null ? null : meaningOf(status, read ?? "", errors)
  const effective_status = meaning === null ? status : STATUS_OF_MEANING[meaning]
  const retry_after = retryAfter(fields, Date.now()) ?? wholeSeconds(retryDelayOf(read ?? ""))
  const of_name = name === "" ? "" : `, key ${name}`
  const discard = () => {
    if (body !== null && read === null) void drainBody(body)
  }
  return {
    kind: "failure",
    outcome: status,
    request_id,
    fault:
      body === null
        ? (fault ?? "body in an unknown coding")
        : meaning === "account"
          ? `status ${status}: key or account refused${of_name}`
          : isBodyShown(effective_status)
            ? null
            : `status ${status}${of_name}`,
    is_retryable:
      meaning === "account" || RETRYABLE.has(effective_status) || (status === 403 && isPage(read ?? "")),
    key_verdict:
      meaning === "account"
        ? "refused"
        : effective_status === 429
          ? { limited_ms: Number(retry_after) * 1_000 }
          : null,
    discard,
    async error() {
      let text = read ?? ""
      if (body !== null && read === null && refusals.isRead(effective_status))
        text = await refusalText(body, content_type)
      else discard()
      // A refusal of the operator's account is not the client's fault, even if its status is a 4xx.
      return refusals.errorOf({ status: effective_status, retry_after, body: text, secrets })
    },
  }
}

/** No answer. After the timeout of a JSON call no other upstream is tried: the first may still answer, and bill (D31). */
function failureWithoutAnswer(
  { proxy }: Upstream,
  outcome: ConnectionFailure,
  stream: boolean,
  code: string,
): FailedAttempt {
  const errors = {
    unreachable: "upstream_unavailable",
    broken: "upstream_error",
    timeout: "upstream_timeout",
  } as const
  return {
    kind: "failure",
    outcome,
    request_id: null,
    // The host alone: the URL may have a password.
    fault: `${outcome === "timeout" ? outcome : `${outcome} (${code})`}${proxy === null ? "" : `, through the proxy ${new URL(proxy).host}`}`,
    is_retryable: outcome !== "timeout" || stream,
    key_verdict: null,
    error: async () => new GatewayError(errors[outcome]),
    discard: () => {},
  }
}

/** `unreachable` means that nothing can have been sent. */
function connectionFailureOf(error: unknown): ConnectionFailure {
  return error instanceof ConnectFailed ? "unreachable" : "broken"
}
