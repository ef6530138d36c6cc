import type { Upstream } from "../config/config.ts"
import { idHeaders } from "../errors.ts"
import { FieldLines } from "./http/client.ts"

/**
 * The headers that cross the gateway, both ways. Each set is built from scratch: a header that is not named here does
 * not pass.
 */

type HeaderFields = Readonly<Record<string, string>>

/**
 * The request headers for a provider (D25): content type, accept, identity encoding, its credential, the configured headers
 * (D81), and the request id. `further` are the version headers of a messages-style call and the trace headers (D54); they replace none of
 * ours.
 */
export function requestHeaders(
  upstream: Upstream,
  request_id: string,
  stream: boolean,
  further: HeaderFields | null,
): HeaderFields {
  const common = commonHeaders(upstream, stream)
  return { ...common, ...ownHeaders(common, request_id, further) }
}

/** Those of all requests of a kind. */
function commonHeaders(upstream: Upstream, stream: boolean): HeaderFields {
  return {
    ...upstream.headers,
    ...credential(upstream),
    "content-type": "application/json",
    accept: stream ? "text/event-stream, application/json" : "application/json",
    "accept-encoding": "identity",
    ...(!Object.hasOwn(upstream.headers, "user-agent") && { "user-agent": "tollgate" }),
  }
}

/** Those of one request. */
function ownHeaders(common: HeaderFields, request_id: string, further: HeaderFields | null): HeaderFields {
  const own: Record<string, string> = {}
  for (const [name, value] of Object.entries(further ?? NONE))
    if (!Object.hasOwn(common, name)) own[name] = value
  own["x-request-id"] = request_id
  return own
}

const NONE: HeaderFields = {}

/** Common headers, and as lines. */
interface Common {
  readonly headers: HeaderFields
  readonly lines: FieldLines
}

const known = { stream: new WeakMap<Upstream, Common>(), json: new WeakMap<Upstream, Common>() }

/** `requestHeaders` as lines: those that all requests of a kind have in common, made once, and the request's own. */
export function requestLines(
  upstream: Upstream,
  request_id: string,
  stream: boolean,
  further: HeaderFields | null,
): { readonly common: FieldLines; readonly own: FieldLines } {
  const { headers, lines } = commonOf(upstream, stream)
  return { common: lines, own: new FieldLines(ownHeaders(headers, request_id, further)) }
}

function commonOf(upstream: Upstream, stream: boolean): Common {
  const of_kind = stream ? known.stream : known.json
  let common = of_kind.get(upstream)
  if (common === undefined) {
    const headers = commonHeaders(upstream, stream)
    common = { headers, lines: new FieldLines(headers) }
    of_kind.set(upstream, common)
  }
  return common
}

function credential({ auth, api_key }: Upstream): HeaderFields {
  return api_key === null ? {} : { [auth.header]: auth.prefix + api_key }
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
