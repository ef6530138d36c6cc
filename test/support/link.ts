import { createServer, connect as dial, type Server, type Socket } from "node:net"

/** Where a link leads. */
export type Target = { readonly path: string } | { readonly host: string; readonly port: number }

/** What the way does to the bytes that pass, in both directions. */
export interface Weather {
  /** Everything arrives this much later, in its order. */
  readonly delay_ms: number
  readonly bytes_per_s: number
  /** Bytes arrive in pieces of at most so many. */
  readonly slice_bytes: number
}

export const FAIR: Weather = {
  delay_ms: 0,
  bytes_per_s: Number.POSITIVE_INFINITY,
  slice_bytes: Number.POSITIVE_INFINITY,
}

/**
 * Looks at one connection. Bytes for which it gives a promise wait for that, and everything behind them; when it
 * rejects, the connection ends without them.
 */
export interface Listener {
  asked(bytes: Buffer): Promise<void> | null
  answered(bytes: Buffer): Promise<void> | null
}

const CARELESS: Listener = { asked: () => null, answered: () => null }

/** The way between two processes: TCP on the loopback, on which everything may happen that happens on a real one. */
export class Link {
  readonly #server: Server
  readonly #target: Target
  readonly #connections = new Set<LinkConnection>()
  #refusing = false
  #stalled = false
  weather = FAIR

  protected constructor(target: Target) {
    this.#target = target
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client))
  }

  static async to(target: Target): Promise<Link> {
    const link = new Link(target)
    await link.listen()
    return link
  }

  protected async listen(): Promise<void> {
    const listening = Promise.withResolvers<void>()
    this.#server.listen(0, "127.0.0.1", listening.resolve)
    await listening.promise
  }

  /** Of each new connection. */
  protected listener(): Listener {
    return CARELESS
  }

  get port(): number {
    const at = this.#server.address()
    if (at === null || typeof at === "string") throw new Error("the link does not listen")
    return at.port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Ends every connection; new ones are let in. */
  cut(): void {
    for (const connection of this.#connections) connection.end()
  }

  /** The same with a RST on both sides. */
  reset(): void {
    for (const connection of this.#connections) connection.reset()
  }

  /** Says to the clients that nothing more will come; what they send still arrives. */
  halfClose(): void {
    for (const connection of this.#connections) connection.halfClose()
  }

  /** Ends every connection and lets none in, until `admit`. */
  refuse(): void {
    this.#refusing = true
    this.cut()
  }

  admit(): void {
    this.#refusing = false
  }

  get stalled(): boolean {
    return this.#stalled
  }

  /** From now on nothing passes, in either direction, as on a cable that was pulled. */
  stall(): void {
    this.#stalled = true
  }

  /** What was held back is lost; new connections work. */
  heal(): void {
    this.#stalled = false
    this.weather = FAIR
    this.cut()
  }

  async stop(): Promise<void> {
    this.refuse()
    const closed = Promise.withResolvers<void>()
    this.#server.close(() => closed.resolve())
    await closed.promise
  }

  #accept(client: Socket): void {
    if (this.#refusing) return void client.destroy()
    const connection = new LinkConnection(this, client, dial({ ...this.#target, allowHalfOpen: true }), {
      ...this.listener(),
    })
    this.#connections.add(connection)
    void connection.over.then(() => this.#connections.delete(connection))
  }
}

class LinkConnection {
  readonly over: Promise<void>
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #end = Promise.withResolvers<void>()

  constructor(link: Link, client: Socket, upstream: Socket, { asked, answered }: Listener) {
    this.#client = client
    this.#upstream = upstream
    this.over = this.#end.promise
    upstream.setNoDelay(true)
    const lose = () => this.end()
    new Flow(link, client, upstream, asked, lose)
    new Flow(link, upstream, client, answered, lose)
    for (const socket of [client, upstream]) {
      socket.on("error", () => this.reset())
      socket.on("close", () => {
        if (client.destroyed && upstream.destroyed) this.#end.resolve()
      })
    }
  }

  end(): void {
    this.#client.destroy()
    this.#upstream.destroy()
    this.#end.resolve()
  }

  reset(): void {
    this.#client.resetAndDestroy()
    this.#upstream.resetAndDestroy()
    this.#end.resolve()
  }

  halfClose(): void {
    this.#client.end()
  }
}

class Flow {
  readonly #link: Link
  readonly #from: Socket
  readonly #to: Socket
  #last: Promise<void> = Promise.resolve()
  #waiting = 0

  constructor(link: Link, from: Socket, to: Socket, listen: Listener["asked"], lose: () => void) {
    this.#link = link
    this.#from = from
    this.#to = to
    from.on("data", (bytes: Buffer) => {
      const gate = listen(bytes)
      // It may reject while these bytes still wait behind earlier ones.
      gate?.catch(() => {})
      const { weather } = link
      if (gate === null && weather === FAIR && this.#waiting === 0) return void this.#write(bytes)
      const due_ms = performance.now() + weather.delay_ms
      this.#inTurn(async () => {
        await gate
        await sleepUntil(due_ms)
        for (let at = 0; at < bytes.length; at += weather.slice_bytes) {
          const slice = bytes.subarray(at, at + weather.slice_bytes)
          await sleepUntil(performance.now() + (slice.length / weather.bytes_per_s) * 1000)
          await this.#write(slice)
          await new Promise<void>((resolve) => setImmediate(resolve))
        }
      }, lose)
    })
    from.on("end", () =>
      this.#inTurn(() => {
        if (!link.stalled) to.end()
      }, lose),
    )
  }

  #inTurn(turn: () => Promise<void> | void, lose: () => void): void {
    this.#waiting += 1
    this.#last = this.#last
      .then(turn)
      .catch(lose)
      .finally(() => {
        this.#waiting -= 1
      })
  }

  /** A slow reader holds the sender back. */
  async #write(bytes: Buffer): Promise<void> {
    if (this.#link.stalled || this.#to.destroyed || this.#to.write(bytes)) return
    this.#from.pause()
    await new Promise<void>((resolve) => {
      this.#to.once("drain", resolve)
      this.#to.once("close", resolve)
    })
    this.#from.resume()
  }
}

async function sleepUntil(due_ms: number): Promise<void> {
  const left_ms = due_ms - performance.now()
  if (left_ms > 0) await Bun.sleep(left_ms)
}
