import { errorResponse, GatewayError } from "../errors.ts"
import { requestId } from "../id.ts"
import type { Sockets } from "./gateway.ts"
import { Turn } from "./turn.ts"

/** Idle timeout in seconds, also during a body. Bun checks it every 4 s, and gives headers 12 s. */
const IDLE_S = 60
/** The interval of the check for requests that may be silent for long. Two intervals are well below `IDLE_S`. */
const LOOK_MS = 15_000
const KEPT_OPEN = Number.NEGATIVE_INFINITY
/** More than any operation has. To read and refuse each of thousands would cost far more than to send them. */
const MOST_PARAMETERS = 100
/** A cursor has up to 4,096 characters (D96). To decode 12,000 characters of `%41` takes 0.3 ms, before the key is checked. */
const MOST_URL_CHARACTERS = 6_000
/** Bun's own limit would answer with a bare 413, even to an announced length. The route enforces `limits.body`. */
const MAX_BODY_BYTES = Number.MAX_SAFE_INTEGER

interface RequestHandler {
  handle(request: Request): Response | Promise<Response>
}

export interface Listening {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** True if other processes of this user may listen on the same port. The kernel distributes the connections. */
  readonly shared?: boolean
  /** Patterns of paths that are served only if the request sends them in their normal form (D39). */
  readonly literal?: readonly string[]
  /** The names of the settings for host and port, for error messages. */
  readonly settings: readonly [host: string, port: string]
}

/** The settings of the public listener, and of the one for operators (D39). */
export const SETTINGS = ["HOST", "PORT"] as const
export const ADMIN_SETTINGS = ["admin.host", "admin.port"] as const

/** The listening side: protocol guards before the application, sockets for the routes, and the drain (D34). */
export class Server {
  readonly #server: Bun.Server<undefined>
  /** Requests that may be silent for long, and since when; `KEPT_OPEN` once their idle timeout is off. */
  readonly #long = new Map<Request, number>()
  #look: Timer | undefined
  #closing = false
  readonly #turn = new Turn()

  constructor(handler: RequestHandler, { host, port, shared = false, literal = [], settings }: Listening) {
    const answer = (request: Request): Response | Promise<Response> => {
      const response = handler.handle(request)
      return this.#turn.send(this.#closing ? closing(response) : response)
    }
    const refused = (fault: GatewayError, request: Request) =>
      this.#turn.send(errorResponse(fault, requestId(request)))
    const places = [...new Set(literal.map((path) => `/${path.split("/")[1]}`))]
    const fetch = (request: Request): Response | Promise<Response> => {
      const fault = protocolFault(request)
      const probe = fault === null ? null : probeOf(request)
      if (fault !== null && probe === null) return refused(fault, request)
      return answer(isBelow(request.url, places) ? unserved(request) : (probe ?? request))
    }
    const spelled = (request: Bun.BunRequest): Response | Promise<Response> => {
      const fault = protocolFault(request)
      if (fault !== null) return refused(fault, request)
      return answer(isPlain(request.params) ? request : unserved(request))
    }
    try {
      this.#server = Bun.serve({
        hostname: host,
        port,
        reusePort: shared,
        idleTimeout: IDLE_S,
        maxRequestBodySize: MAX_BODY_BYTES,
        routes: Object.fromEntries(literal.map((path) => [path, spelled])),
        fetch,
        error: () => errorResponse(new GatewayError("internal_error"), crypto.randomUUID()),
      })
    } catch (error) {
      throw new Error(listenError(error, { host, port, settings }), { cause: error })
    }
  }

  get port(): number {
    return this.#server.port ?? 0
  }

  readonly sockets: Sockets = {
    keepOpen: (request) => {
      this.#long.set(request, performance.now())
      this.#look ??= setInterval(() => this.#keepOpen(), LOOK_MS).unref()
    },
    restore: (request) => {
      if (this.#long.get(request) === KEPT_OPEN) this.#server.timeout(request, IDLE_S)
      this.#long.delete(request)
    },
    cut: (request) => {
      this.#long.delete(request)
      this.#server.timeout(request, 1)
    },
    address: (request) => networkOf(this.#server.requestIP(request)?.address ?? ""),
  }

  /** The IP address that sends a request; null if the connection is over, or another server's. */
  addressOf(request: Request): string | null {
    return this.#server.requestIP(request)?.address ?? null
  }

  /** Sends `connection: close` with every answer, so that no client uses a connection about to close. */
  announceClose(): void {
    this.#closing = true
  }

  /** Refuses new connections. Open answers continue. */
  refuseConnections(): void {
    void this.#server.stop(false)
  }

  /** The number of answers that are not sent completely. */
  get pending(): number {
    return this.#server.pendingRequests
  }

  async close(): Promise<void> {
    clearInterval(this.#look)
    await this.#server.stop(true)
  }

  /** Disables the idle timeout of long requests. Doing so for every request would cost 6 us per call. */
  #keepOpen(): void {
    const before_ms = performance.now() - LOOK_MS
    for (const [request, since_ms] of this.#long) {
      if (since_ms > before_ms || since_ms === KEPT_OPEN) continue
      this.#server.timeout(request, 0)
      this.#long.set(request, KEPT_OPEN)
    }
    if (this.#long.size > 0) return
    clearInterval(this.#look)
    this.#look = undefined
  }
}

/** The part of an IP address that one customer of a network has: of IPv6 the first 64 bits, which may be written short. */
export function networkOf(address: string): string {
  if (!address.includes(":") || address.includes(".")) return address
  const [head = "", tail] = address.split("::")
  const before = head === "" ? [] : head.split(":")
  const after = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = Array<string>(8 - before.length - after.length).fill("0")
  return [...before, ...zeros, ...after].slice(0, 4).join(":")
}

/** Why the address cannot be listened on, as a sentence that names the setting to change. */
function listenError(error: unknown, { host, port, settings }: Listening): string {
  const [host_setting, port_setting] = settings
  if (error instanceof Error && "code" in error && error.code === "EADDRINUSE") {
    return `port ${port} on ${host} is already in use: stop the program that listens there, or change ${port_setting}`
  }
  const reason = error instanceof Error ? error.message : String(error)
  return `cannot listen on port ${port} of ${host} (${host_setting}, ${port_setting}): ${reason}`
}

async function closing(answer: Response | Promise<Response>): Promise<Response> {
  const response = await answer
  response.headers.set("connection", "close")
  return response
}

/** The paths that load balancers probe (D33). */
const PROBED = ["/livez", "/health", "/readyz", "/"]

/** A probe of HTTP/1.0, which needs no Host (RFC 9112, 3.2): `request.url` is then the path. Null for other requests. */
function probeOf({ url, method, headers }: Request): Request | null {
  if (headers.has("host") || !PROBED.includes(url)) return null
  return new Request(`http://localhost${url}`, { method })
}

function isBelow(url: string, places: readonly string[]): boolean {
  const at = url.indexOf("/", HTTP.length)
  for (const place of places)
    if (url.startsWith(place, at) && /^[/?#]?$/.test(url.charAt(at + place.length))) return true
  return false
}

/** True for a path in its normal form: Bun routes by the path as sent, and a proxy may compute another one (RFC 3986). */
function isPlain(params: Readonly<Record<string, string>>): boolean {
  return Object.values(params).every((value) => !/^\.\.?$|[\\/]/.test(value))
}

/** The request for a path that nobody serves: the application answers 404. */
function unserved({ url, method, headers }: Request): Request {
  return new Request(new URL("/admin/-", url).href, { method, headers })
}

const HTTP = "http://"
const SLASH = 47
/** The last valid host. Most requests have the same one, and to compare it costs less than to parse a URL. */
let known_host = ""

/** True if a request's host and URL are valid. No path below a host makes a URL invalid. */
function isValid(host: string, url: string): boolean {
  const is_below =
    host !== "" && url.startsWith(host, HTTP.length) && url.charCodeAt(HTTP.length + host.length) === SLASH
  if (is_below && host === known_host) return true
  const is_valid = !host.includes(",") && URL.canParse(url)
  if (is_below && is_valid) known_host = host
  return is_valid
}

function hasManyParameters(url: string): boolean {
  return url.length > MOST_PARAMETERS && url.split("&", MOST_PARAMETERS + 1).length > MOST_PARAMETERS
}

const invalid = (message: string) => new GatewayError("invalid_request", { message })

/**
 * The error for a long URL or one with too many parameters, which Elysia would read before the key, and for what Bun accepts against
 * RFC 9112 (3.2: exactly one valid Host; 3.2.3: CONNECT only for proxies). With an invalid Host, `request.url` is not a URL
 * and the router would misread the path.
 */
function protocolFault(request: Request): GatewayError | null {
  const host = request.headers.get("host")
  if (host === null || !isValid(host, request.url))
    return invalid("The request must have exactly one valid Host header.")
  if (request.method === "CONNECT")
    return invalid("This server is not a proxy. It does not support the CONNECT method.")
  if (request.url.length > MOST_URL_CHARACTERS)
    return invalid(`The URL is longer than ${MOST_URL_CHARACTERS} characters.`)
  if (hasManyParameters(request.url))
    return invalid(`The query string has more than ${MOST_PARAMETERS} parameters.`)
  return null
}
