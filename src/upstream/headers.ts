import type { Upstream } from "../config/config.ts"
import { idHeaders } from "../errors.ts"
import { FieldLines } from "./http/client.ts"

/**
 * The headers that cross the gateway, both ways. Each set is built from scratch: a header that is not named here does
 * not pass.
 */

/**
 * The request headers for a provider (D25): content type, accept, identity encoding, its credential, and the request
 * id. `further` are the version headers of a messages-style call and the trace headers (D54); they replace none of
 * ours.
 */
export function requestHeaders(
  upstream: Upstream,
  request_id: string,
  stream: boolean,
  further: Readonly<Record<string, string>> | null,
): Record<string, string> {
  return { ...further, ...commonHeaders(upstream, stream), "x-request-id": request_id }
}

/** Those of all requests of a kind. */
function commonHeaders(upstream: Upstream, stream: boolean): Record<string, string> {
  return {
    ...credential(upstream),
    "content-type": "application/json",
    accept: stream ? "text/event-stream, application/json" : "application/json",
    "accept-encoding": "identity",
    "user-agent": "tollgate",
  }
}

const common = { stream: new WeakMap<Upstream, FieldLines>(), json: new WeakMap<Upstream, FieldLines>() }

/** The request headers that all requests of a kind have in common, and `own`, as lines. */
export function requestLines(
  upstream: Upstream,
  request_id: string,
  stream: boolean,
  further: Readonly<Record<string, string>> | null,
): { readonly common: FieldLines; readonly own: FieldLines } {
  if (further !== null)
    return { common: NONE, own: new FieldLines(requestHeaders(upstream, request_id, stream, further)) }
  const known = stream ? common.stream : common.json
  let lines = known.get(upstream)
  if (lines === undefined) {
    lines = new FieldLines(commonHeaders(upstream, stream))
    known.set(upstream, lines)
  }
  return { common: lines, own: new FieldLines({ "x-request-id": request_id }) }
}

const NONE = new FieldLines({})

function credential({ family, api_key }: Upstream): Record<string, string> {
  if (api_key === null) return {}
  return family === "chat" ? { authorization: `Bearer ${api_key}` } : { "x-api-key": api_key }
}

/** What a client is sent with a JSON answer (D24). */
export function jsonHeaders(request_id: string): Record<string, string> {
  return { ...idHeaders(request_id), "content-type": "application/json" }
}

/** What a client is sent with a stream (D24); `x-accel-buffering` keeps a proxy in front from collecting it. */
export function streamHeaders(request_id: string): Record<string, string> {
  return {
    ...idHeaders(request_id),
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  }
}

/** Header fields, looked up by their names in lower case. */
interface Named {
  get(name: string): string | null
}

const MAX_RETRY_AFTER_S = 3_600

/** A provider's `Retry-After` if it is a whole number of seconds up to an hour, otherwise null. */
export function retryAfter(fields: Named): string | null {
  const value = fields.get("retry-after")
  return value !== null && /^\d{1,4}$/.test(value) && Number(value) <= MAX_RETRY_AFTER_S ? value : null
}

/**
 * The announced length of the body. Null if it is missing or invalid, or if the body is chunked (RFC 9112 section 6.3).
 */
export function contentLength(fields: Named): number | null {
  if (fields.get("transfer-encoding") !== null) return null
  const value = fields.get("content-length")
  return value !== null && /^\d{1,15}$/.test(value) ? Number(value) : null
}

/** Why the body of an answer must not be read: it is compressed (D25). Null if it is not. */
export function codingFault(fields: Named): string | null {
  const coding = (fields.get("content-encoding") ?? "identity").trim().toLowerCase()
  return coding === "identity" || coding === "" ? null : "compressed body"
}
