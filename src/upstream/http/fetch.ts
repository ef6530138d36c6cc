import { numberOf } from "./answer-parser.ts"
import { Exchange } from "./exchange.ts"
import {
  type AnswerHead,
  ConnectFailed,
  codeOf,
  DEFAULT_IDLE_MS,
  MAX_HEAD_BYTES,
  type Post,
  refuse,
  type TransportSettings,
  urlOf,
} from "./transport.ts"

/**
 * The runtime's `fetch` as a transport (D59), for upstreams behind a proxy and with `transport: fetch`. It does not
 * report when a connection is open, so connecting counts toward `first_byte` and `total`. If an answer breaks off, it
 * loses bytes that the event loop has not read yet.
 */
export const postByFetch: Post = (settings, path, model, fields, body) => {
  const exchange = new Exchange()
  if (refuse(exchange, fields)) return exchange
  const cancelling = new AbortController()
  /** Set while the exchange's queue is full. */
  let paused: PromiseWithResolvers<void> | null = null
  const resume = () => {
    paused?.resolve()
    paused = null
  }
  exchange.begin({
    pause() {
      paused = Promise.withResolvers()
    },
    resume,
    destroy() {
      cancelling.abort()
      resume()
    },
  })
  const url = urlOf(settings, path, model)
  const request = { ...INIT, headers: fields, body: body.join(""), signal: cancelling.signal }
  void relay(exchange, settings, url, request, () => paused?.promise)
  return exchange
}

/** Passes an answer to the exchange, and pauses while its queue is full. Never rejects. */
async function relay(
  exchange: Exchange,
  settings: TransportSettings,
  url: string,
  request: BunFetchRequestInit,
  waits: () => Promise<void> | undefined,
): Promise<void> {
  try {
    const keepalive = performance.now() >= (closing_until_ms.get(settings) ?? 0)
    const response = await sessionOf(settings).fetch(url, { ...request, keepalive })
    // In a tunnel, a refused `CONNECT` is reported as an error instead.
    if (response.status === 407 && settings.proxy !== null && url.startsWith("http:"))
      throw new ConnectFailed("PROXY_407")
    exchange.receiveHead(headOf(response))
    for await (const part of response.body ?? []) {
      exchange.push(part)
      await waits()
    }
    exchange.end()
  } catch (error) {
    if (codeOf(error) === "ECONNRESET") closing_until_ms.set(settings, performance.now() + CLOSING_MS)
    exchange.fail(failureOf(error))
  }
}

/**
 * The time until which each request to an upstream opens a new connection, because one was lost. Some servers close
 * connections right after an answer, and the runtime does not report whether a lost connection was a reused one.
 */
const closing_until_ms = new WeakMap<TransportSettings, number>()
const CLOSING_MS = 60_000

/** The gateway decodes and times answers itself, and follows no redirect. */
const INIT = { method: "POST", decompress: false, redirect: "manual", timeout: false } as const

function headOf({ status, headers }: Response): AnswerHead {
  let head_bytes = 0
  headers.forEach((value, name) => {
    head_bytes += name.length + value.length
  })
  const length = headers.get("content-length")
  const is_announced = length !== null && numberOf(length) !== null && !headers.has("transfer-encoding")
  return {
    status,
    length: is_announced ? Number(length) : null,
    fields: headers,
    fault: head_bytes > MAX_HEAD_BYTES ? "header section too large" : null,
  }
}

/** Errors of the runtime before the request is sent: of the connection, of TLS, of a certificate. */
const UNSENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|EPROTO|UNABLE_TO_[A-Z_]+|UnsupportedProxyProtocol)$/

/** The error message of a refused tunnel. Only the proxy's status is shown. */
const REFUSED_TUNNEL = /^Proxy refused to open a tunnel: (\d{3})\b/

function failureOf(error: unknown): Error {
  if (!(error instanceof Error)) return new Error("the request failed")
  const code = codeOf(error)
  if (code === "ERR_PROXY_TUNNEL") {
    const status = REFUSED_TUNNEL.exec(error.message)?.[1]
    return new ConnectFailed(status === undefined ? code : `PROXY_${status}`)
  }
  return UNSENT.test(code) || code.includes("CERT") ? new ConnectFailed(code) : error
}

type Sought = Pick<TransportSettings, "base_url" | "proxy" | "tls" | "idle_connection_ms">

/** Sessions by their settings. They survive reloads of the configuration, like the connections of the other transport. */
const sessions = new Map<string, Bun.FetchSession>()

/** Connections with the proxy, the certificates and the idle time of an upstream. */
export function sessionOf({ base_url, proxy, tls, idle_connection_ms }: Sought): Bun.FetchSession {
  const is_secured = base_url.startsWith("https:")
  const idle_ms = idle_connection_ms ?? (is_secured ? DEFAULT_IDLE_MS.secured : DEFAULT_IDLE_MS.plain)
  const id = JSON.stringify([proxy, tls, idle_ms])
  let session = sessions.get(id)
  if (session === undefined) {
    const { ca = null, cert = null, key = null } = tls ?? {}
    session = new Bun.FetchSession({
      // Otherwise the runtime would read the environment.
      proxy: proxy === null ? false : { url: proxy, respectNoProxy: false },
      keepAlive: { idleTimeout: idle_ms / 1_000 },
      tls: { ...(ca !== null && { ca }), ...(cert !== null && { cert }), ...(key !== null && { key }) },
    })
    sessions.set(id, session)
  }
  return session
}
