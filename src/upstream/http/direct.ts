import { Connection, type HttpMessage } from "./connection.ts"
import { Exchange } from "./exchange.ts"
import { Opening, originOf, type ServerOrigin } from "./opening.ts"
import { PROOF_MS, UpstreamPool } from "./pool.ts"
import { namesModel, type Post, refuse, type Tls, type TransportSettings, urlOf } from "./transport.ts"

/** An address, parsed once. */
interface ParsedAddress {
  readonly origin: ServerOrigin
  readonly connect_ms: number
  /** The request line and the Host field. */
  readonly head: string
  readonly pool: UpstreamPool
}

/** By upstream and path, because a joined address would be made and hashed for every call. */
const targets = new WeakMap<TransportSettings, Map<string, ParsedAddress>>()
/** Kept across reloads of the configuration. */
const pools = new Map<string, UpstreamPool>()

/** The gateway's own client as a transport (D59, RFC 9112): on an open connection if there is one. */
export const postDirectly: Post = (settings, path, model, fields, body) => {
  const exchange = new Exchange()
  if (refuse(exchange, fields)) return exchange
  const target = targetOf(settings, path, model)
  let body_bytes = 0
  for (const part of body) body_bytes += Buffer.byteLength(part)
  let text = target.head
  for (const name in fields) text += `${name}: ${fields[name]}\r\n`
  text += `content-length: ${body_bytes}\r\n\r\n`
  const first = body[0] ?? ""
  const parts: (string | Uint8Array)[] = [...body]
  parts[0] =
    Buffer.byteLength(text) === text.length
      ? text + first
      : Buffer.concat([Buffer.from(text, "latin1"), Buffer.from(first)])
  // Each character of the head is a byte.
  dispatch(target, exchange, { parts, bytes: text.length + body_bytes })
  return exchange
}

/** Sends a request on an idle connection, or on a new one. */
function dispatch(target: ParsedAddress, exchange: Exchange, message: HttpMessage): void {
  const { origin, connect_ms, pool } = target
  const waiting = pool.take()
  if (waiting === null) {
    new Opening(origin, connect_ms, {
      open: (socket) => new Connection(socket, pool).send(exchange, message),
      fail: (error) => exchange.fail(error),
    })
    return
  }
  const { connection, may_be_stale, unproven_since_ms } = waiting
  if (!may_be_stale && unproven_since_ms === null) {
    connection.send(exchange, message)
    return
  }
  const use = () => {
    if (connection.closed) dispatch(target, exchange, message)
    else connection.send(exchange, message)
  }
  if (unproven_since_ms === null) afterReading(use)
  else {
    whenProven(connection, unproven_since_ms, () => {
      if (!connection.closed) pool.prove()
      use()
    })
  }
}

/** Resolves once the connection has been idle for `PROOF_MS`, or is closed. */
function whenProven(connection: Connection, since_ms: number, next: () => void): void {
  let is_over = false
  const timer = setTimeout(
    () => {
      is_over = true
      afterReading(() => {
        connection.onLost = null
        next()
      })
    },
    Math.max(0, Math.ceil(since_ms + PROOF_MS - performance.now())),
  )
  connection.onLost = () => {
    if (is_over) return
    is_over = true
    clearTimeout(timer)
    next()
  }
}

/** After the event loop has read what had come for all sockets. */
function afterReading(next: () => void): void {
  setImmediate(() => setImmediate(next))
}

function targetOf(settings: TransportSettings, path: string, model: string): ParsedAddress {
  const below = targets.get(settings) ?? new Map<string, ParsedAddress>()
  const address = namesModel(settings) ? `${model} ${path}` : path
  const known = below.get(address)
  if (known !== undefined) return known
  const { timeouts, idle_connection_ms, tls } = settings
  const url = new URL(urlOf(settings, path, model))
  const origin = originOf(url, tls)
  const head = `POST ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`
  const target = {
    origin,
    connect_ms: timeouts.connect_ms,
    head,
    pool: poolOf(url.origin, idle_connection_ms, origin.tls !== null, tls),
  }
  // A query comes from a client, who could fill the memory with them.
  if (!path.includes("?")) targets.set(settings, below.set(address, target))
  return target
}

/** Connections are shared by upstreams at one origin that open and keep them in the same way. */
function poolOf(origin: string, idle_ms: number | null, is_secured: boolean, tls: Tls | null): UpstreamPool {
  const id = `${origin} ${idle_ms} ${tls === null ? "" : Bun.hash(JSON.stringify(tls))}`
  const pool = pools.get(id) ?? new UpstreamPool(idle_ms, is_secured)
  pools.set(id, pool)
  return pool
}
