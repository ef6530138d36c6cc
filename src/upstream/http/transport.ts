import type { Upstream } from "../../config/config.ts"
import type { Exchange } from "./exchange.ts"

/** Header fields as they are sent, by their names in lower case. */
export type HeaderFields = Readonly<Record<string, string>>

/** The interface of transports (D59): `direct.ts` is the gateway's own client, and `fetch.ts` the runtime's. */

/**
 * Posts `body`, a text in parts, to `path` below the base URL. Follows no redirects, and sends nothing twice. The
 * exchange fails with a `ConnectFailed` if nothing can have been sent, and with a `TypeError` for a field value that
 * HTTP does not allow.
 */
export type Post = (
  settings: TransportSettings,
  path: string,
  model: string,
  fields: HeaderFields,
  body: readonly string[],
) => Exchange

/** The settings of an upstream for its connections. `{model}` in its `base_url` is replaced by the upstream's name of the model. */
export interface TransportSettings
  extends Pick<Upstream, "base_url" | "query" | "proxy" | "idle_connection_ms" | "tls"> {
  readonly timeouts: Pick<Upstream["timeouts"], "connect_ms">
}

export type Tls = NonNullable<Upstream["tls"]>

/** Default idle time of connections (D59). Longer with TLS, because its handshake delays the first token. */
export const DEFAULT_IDLE_MS = { secured: 30_000, plain: 4_000 }

/** The head of an answer (RFC 9112 section 2). */
export interface AnswerHead {
  readonly status: number
  /** The announced length of the body in bytes; null if there is none, or if the body comes in chunks. */
  readonly length: number | null
  readonly fields: HeaderLookup
  /** The reason not to read the answer, such as a head over a limit; otherwise null. */
  readonly fault: string | null
}

export const MAX_HEAD_BYTES = 65_536

/** Header fields, looked up by their names in lower case. */
export interface HeaderLookup {
  get(name: string): string | null
}

/**
 * There is no connection, so nothing was sent. `code`: the reason, such as refused, unknown name, timeout or untrusted
 * certificate.
 */
export class ConnectFailed extends Error {
  override readonly name = "ConnectFailed"
  readonly code: string

  constructor(code: string) {
    super(`no connection (${code})`)
    this.code = code
  }
}

/** The error's code and never its message, which may repeat what was sent. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "unknown"
}

/** RFC 9110 section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Fails the exchange if HTTP does not allow the value of a field. Returns whether it did. */
export function refuse(exchange: Exchange, fields: HeaderFields): boolean {
  for (const name in fields) {
    if (FIELD_VALUE.test(fields[name] ?? "")) continue
    exchange.fail(new TypeError(`HTTP does not allow the value of the header field ${name}`))
    return true
  }
  return false
}

const MODEL = "{model}"

export function namesModel({ base_url }: Pick<TransportSettings, "base_url">): boolean {
  return base_url.includes(MODEL)
}

/** The address of a path at an upstream, with both queries. */
export function urlOf(
  { base_url, query }: Pick<TransportSettings, "base_url" | "query">,
  path: string,
  model: string,
): string {
  const url = base_url.replace(MODEL, encodeURIComponent(model)) + path
  return query === "" ? url : `${url}${path.includes("?") ? "&" : "?"}${query}`
}
