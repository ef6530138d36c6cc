import type { Credential, Upstream } from "../config/config.ts"
import { idHeaders } from "../errors.ts"
import type { HeaderFields, HeaderLookup } from "./http/transport.ts"

/** The headers that pass the gateway, in both directions. No other header passes. */

/**
 * The request headers for a provider (D25): content type, accept, identity encoding, its credential, the configured
 * headers (D81), and the request id. `further`: the version headers of the messages family and the trace headers (D54);
 * they replace none of the others.
 */
export function requestHeaders(
  upstream: Upstream,
  key: Credential,
  request_id: string,
  stream: boolean,
  further: HeaderFields | null,
): HeaderFields {
  return {
    ...further,
    "user-agent": "tollgate",
    ...upstream.headers,
    ...credential(upstream, key),
    "content-type": "application/json",
    accept: stream ? "text/event-stream, application/json" : "application/json",
    "accept-encoding": "identity",
    "x-request-id": request_id,
  }
}

function credential({ auth }: Upstream, { api_key }: Credential): HeaderFields {
  return api_key === null ? {} : { [auth.header]: auth.prefix + api_key }
}

/** The response headers of a JSON answer (D24). */
export function jsonHeaders(request_id: string): Record<string, string> {
  return { "x-request-id": request_id, "request-id": request_id, "content-type": "application/json" }
}

/** The response headers of a stream (D24). `x-accel-buffering` tells a reverse proxy not to buffer it. */
export function streamHeaders(request_id: string): Record<string, string> {
  return {
    ...idHeaders(request_id),
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  }
}

/** Headers with a provider's own id of a request: of OpenRouter, of OpenAI and most others, of Anthropic, AWS and Mistral. */
const REQUEST_IDS = [
  "x-generation-id",
  "x-request-id",
  "request-id",
  "x-amzn-requestid",
  "mistral-correlation-id",
] as const
const REQUEST_ID = /^[\w.:/+=-]{1,128}$/

/** The provider's own id of a request, for questions to its support (D86). Null if missing or equal to ours. */
export function providerRequestId(fields: HeaderLookup, request_id: string): string | null {
  for (const name of REQUEST_IDS) {
    const id = fields.get(name)
    if (id !== null && id !== request_id) return REQUEST_ID.test(id) ? id : null
  }
  return null
}

const MAX_RETRY_AFTER_S = 3_600

/** The wait that a provider asks for as a number, fraction or date (D17), in whole seconds up to an hour; null for none. */
export function retryAfter(fields: HeaderLookup, now_ms: number): string | null {
  return wholeSeconds(waitOf(fields.get("retry-after-ms"), fields.get("retry-after"), now_ms))
}

/** Whole seconds up to an hour, rounded up; otherwise null. */
export function wholeSeconds(seconds: number): string | null {
  return seconds >= 0 && seconds <= MAX_RETRY_AFTER_S ? String(Math.ceil(seconds)) : null
}

const DECIMAL = /^\d{1,9}(?:\.\d{1,9})?$/

function waitOf(ms: string | null, retry_after: string | null, now_ms: number): number {
  if (ms !== null && DECIMAL.test(ms)) return Number(ms) / 1_000
  if (retry_after === null) return Number.NaN
  if (DECIMAL.test(retry_after)) return Number(retry_after)
  return / GMT$/.test(retry_after) ? Math.max(0, (Date.parse(retry_after) - now_ms) / 1_000) : Number.NaN
}
