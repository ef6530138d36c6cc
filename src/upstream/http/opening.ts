import { lookup } from "node:dns/promises"
import { isIP } from "node:net"
import type { Socket } from "bun"
import { hostOf } from "../../wire/host.ts"
import { ConnectionClosed, plain_events, type SocketOwner, secured_events } from "./socket.ts"
import { ConnectFailed, codeOf, type Tls } from "./transport.ts"

export interface ServerOrigin {
  readonly hostname: string
  readonly port: number
  /** Null for plain TCP. */
  readonly tls: Tls | null
}

/** The origin of a URL, with the settings for its TLS; null for the default. */
export function originOf(url: URL, tls: Tls | null): ServerOrigin {
  const is_secured = url.protocol === "https:"
  return {
    hostname: hostOf(url),
    port: url.port === "" ? (is_secured ? 443 : 80) : Number(url.port),
    tls: is_secured ? (tls ?? NO_TLS) : null,
  }
}

const NO_TLS: Tls = { ca: null, cert: null, key: null }

/** The time after which the next address of a name is tried as well (RFC 8305 section 8). */
const STAGGER_MS = 250

type Lookup = (hostname: string) => Promise<readonly string[]>

/** Used for each connection, so that changes of addresses take effect. */
const systemLookup: Lookup = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address)

/** Opens a socket within `connect_ms`, by each address of the name in turn, and TLS. Calls `open` or `fail`, once. */
export class Opening {
  readonly #origin: ServerOrigin
  readonly #done: Done
  readonly #deadline: Timer
  #addresses: string[] = []
  readonly #attempts = new Set<Attempt>()
  #stagger: Timer | undefined
  #over = false

  constructor(origin: ServerOrigin, connect_ms: number, done: Done, find: Lookup = systemLookup) {
    this.#origin = origin
    this.#done = done
    this.#deadline = setTimeout(() => this.#fail("CONNECT_TIMEOUT"), connect_ms)
    if (isIP(origin.hostname) !== 0) this.#start([origin.hostname])
    else find(origin.hostname).then(this.#start, (error) => this.#fail(codeOf(error)))
  }

  /** Called when a socket can be used. The first one wins. */
  opened(attempt: Attempt, socket: Socket<SocketOwner>): void {
    if (this.#over) {
      socket.terminate()
      return
    }
    this.#attempts.delete(attempt)
    this.#finish()
    this.#done.open(socket)
  }

  /** Tries the next address immediately, because an attempt has failed. */
  failed(attempt: Attempt, code: string): void {
    if (!this.#attempts.delete(attempt) || this.#over) return
    if (this.#addresses.length > 0) this.#next()
    else if (this.#attempts.size === 0) this.#fail(code)
  }

  readonly #start = (addresses: readonly string[]): void => {
    this.#addresses = [...addresses]
    if (addresses.length === 0) this.#fail("ENOTFOUND")
    else this.#next()
  }

  readonly #next = (): void => {
    clearTimeout(this.#stagger)
    const address = this.#addresses.shift()
    if (this.#over || address === undefined) return
    if (this.#addresses.length > 0) this.#stagger = setTimeout(this.#next, STAGGER_MS)
    const attempt = new Attempt(this)
    this.#attempts.add(attempt)
    void attempt.connect(this.#origin, address)
  }

  #fail(code: string): void {
    if (this.#over) return
    this.#finish()
    this.#done.fail(new ConnectFailed(code))
  }

  #finish(): void {
    this.#over = true
    clearTimeout(this.#deadline)
    clearTimeout(this.#stagger)
    for (const attempt of this.#attempts) attempt.giveUp()
    this.#attempts.clear()
  }
}

interface Done {
  open(socket: Socket<SocketOwner>): void
  fail(error: ConnectFailed): void
}

/** A connection to one address that is not open yet. */
class Attempt implements SocketOwner {
  readonly #opening: Opening
  #socket: Socket<SocketOwner> | null = null
  #given_up = false

  constructor(opening: Opening) {
    this.#opening = opening
  }

  async connect({ hostname, port, tls }: ServerOrigin, address: string): Promise<void> {
    const secured = tls === null ? {} : { tls: tlsOptions(tls, hostname) }
    const socket = tls === null ? plain_events : secured_events
    try {
      await Bun.connect<SocketOwner>({ hostname: address, port, socket, data: this, ...secured })
    } catch (error) {
      this.#opening.failed(this, codeOf(error))
    }
  }

  /** Closes it. The runtime cannot stop a connection attempt; it is closed once it is open. */
  giveUp(): void {
    this.#given_up = true
    this.#socket?.terminate()
  }

  onStart(socket: Socket<SocketOwner>): void {
    this.#socket = socket
    if (this.#given_up) socket.terminate()
  }

  onOpen(socket: Socket<SocketOwner>): void {
    this.#opening.opened(this, socket)
  }

  onClose(error: Error = new ConnectionClosed("the connection was closed before it was open")): void {
    this.#opening.failed(this, codeOf(error))
  }

  onData(): void {}
  onDrain(): void {}
  onEnd(): void {}
}

/** The protocol as TLS names it (RFC 7301): its length, then its name. */
const HTTP_1_1 = "\x08http/1.1"

function tlsOptions({ ca, cert, key }: Tls, hostname: string) {
  return {
    rejectUnauthorized: true,
    // An IP address has no server name (RFC 6066 section 3), but the certificate is compared with it.
    serverName: isIP(hostname) === 0 ? hostname : "",
    ALPNProtocols: HTTP_1_1,
    ...(ca !== null && { ca }),
    ...(cert !== null && { cert }),
    ...(key !== null && { key }),
  }
}
