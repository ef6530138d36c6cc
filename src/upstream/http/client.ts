import { Connection, type ConnectionPool, type Origin } from "./connection.ts"
import { Exchange } from "./exchange.ts"

/** An address, parsed once. */
interface Target {
  readonly origin: Origin
  /** The request line and the Host field. */
  readonly head: string
  readonly pool: Pool
}

/** By `base_url` and path: an address joined of them would be made and hashed for every call. */
const targets = new Map<string, Map<string, Target>>()
const pools = new Map<string, Pool>()

/** The idle connections to one origin. The one used last is used next. A closed connection is removed at once. */
class Pool implements ConnectionPool {
  readonly #idle: Connection[] = []

  take(): Connection | null {
    const connection = this.#idle.pop() ?? null
    connection?.setIdle(false)
    return connection
  }

  free(connection: Connection): void {
    connection.setIdle(true)
    this.#idle.push(connection)
  }

  forget(connection: Connection): void {
    const at = this.#idle.lastIndexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
  }
}

/** Header fields as they are sent, checked once. Requests that have most fields in common cost 1 to 2 us less each with it. */
export class FieldLines {
  readonly text: string
  readonly is_ascii: boolean
  /** The name of the first field whose value HTTP does not allow, or null. */
  readonly refused: string | null

  constructor(fields: Readonly<Record<string, string>>) {
    let text = ""
    let refused: string | null = null
    let is_ascii = true
    for (const name in fields) {
      const value = fields[name] ?? ""
      if (!ASCII_VALUE.test(value)) {
        is_ascii = false
        if (!FIELD_VALUE.test(value)) refused ??= name
      }
      text += `${name}: ${value}\r\n`
    }
    this.text = text
    this.is_ascii = is_ascii
    this.refused = refused
  }
}

/**
 * Posts `body`, a text in parts, to `path` below `base_url` with these header fields, on an open connection where there is one (D59, RFC
 * 9112). Redirects are not followed, and nothing is sent twice. The exchange fails if HTTP does not allow the value of a
 * field. Measured: a JSON call costs 25 us less CPU of 70 than with `fetch`, which passes each answer through a second
 * thread and a stream.
 */
export function post(
  base_url: string,
  path: string,
  common: FieldLines,
  own: FieldLines,
  body: readonly string[],
): Exchange {
  const exchange = new Exchange()
  const refused = common.refused ?? own.refused
  if (refused !== null) {
    exchange.fail(new TypeError(`HTTP does not allow the value of the header field ${refused}`))
    return exchange
  }
  const { origin, head, pool } = targetOf(base_url, path)
  let body_bytes = 0
  for (const part of body) body_bytes += Buffer.byteLength(part)
  const text = `${head}${common.text}${own.text}content-length: ${body_bytes}\r\n\r\n`
  const first = body[0] ?? ""
  const message: (string | Uint8Array)[] = [...body]
  message[0] =
    common.is_ascii && own.is_ascii
      ? text + first
      : Buffer.concat([Buffer.from(text, "latin1"), Buffer.from(first)])
  const waiting = pool.take()
  if (waiting !== null) waiting.send(exchange, message)
  else {
    Connection.open(origin, pool).then(
      (connection) => connection.send(exchange, message),
      (error) => exchange.fail(error),
    )
  }
  return exchange
}

/** RFC 9110 section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const ASCII_VALUE = /^[\t\x20-\x7e]*$/

function targetOf(base_url: string, path: string): Target {
  const below = targets.get(base_url) ?? new Map<string, Target>()
  const known = below.get(path)
  if (known !== undefined) return known
  const url = new URL(base_url + path)
  const tls = url.protocol === "https:"
  const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port)
  const hostname = url.hostname.replace(/^\[(.*)\]$/, "$1")
  const pool = pools.get(url.origin) ?? new Pool()
  pools.set(url.origin, pool)
  const head = `POST ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`
  const target = { origin: { hostname, port, tls }, head, pool }
  // A query comes from a client, who could fill the memory with them.
  if (url.search === "") targets.set(base_url, below.set(path, target))
  return target
}
