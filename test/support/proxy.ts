import { createServer, connect as dial, type Server, type Socket } from "node:net"
import type { Address } from "../../src/ledger/address.ts"

/** A TCP proxy in front of a Postgres, which knows where a message ends, so that a test can lose exactly one. */
export class DatabaseProxy {
  readonly #server: Server
  readonly #target: Extract<Address, { socket_path: string }>
  readonly #pairs = new Set<readonly [client: Socket, upstream: Socket]>()
  #refusing = false
  #stalled = false
  #losing: PromiseWithResolvers<void> | null = null
  /** Statements that clients had executed, as the server saw them. */
  executed = 0

  private constructor(target: Address) {
    if (!("socket_path" in target)) throw new Error("the test cluster is reached by its socket")
    this.#target = target
    this.#server = createServer((client) => this.#accept(client))
  }

  static async start(target: Address): Promise<DatabaseProxy> {
    const proxy = new DatabaseProxy(target)
    const listening = Promise.withResolvers<void>()
    proxy.#server.listen(0, "127.0.0.1", listening.resolve)
    await listening.promise
    return proxy
  }

  get address(): Address {
    const at = this.#server.address()
    if (at === null || typeof at === "string") throw new Error("the proxy does not listen")
    const { user, database } = this.#target
    return { url: `postgres://${user}@127.0.0.1:${at.port}/${database}` }
  }

  /** Connections that stand now. */
  get connections(): number {
    return this.#pairs.size
  }

  /** Ends every connection; new ones are let in. */
  cut(): void {
    for (const [client, upstream] of this.#pairs) {
      client.destroy()
      upstream.destroy()
    }
    this.#pairs.clear()
  }

  /** Ends every connection and lets none in, until `admit`. */
  refuse(): void {
    this.#refusing = true
    this.cut()
  }

  admit(): void {
    this.#refusing = false
  }

  /** From now on nothing passes, in either direction, as on a cable that was pulled. */
  stall(): void {
    this.#stalled = true
  }

  /** What was held back is lost; new connections work. */
  heal(): void {
    this.#stalled = false
    this.cut()
  }

  /** Lets the next statement be done and committed, and ends its connection instead of passing the reply on. */
  loseReply(): Promise<void> {
    this.#losing = Promise.withResolvers()
    return this.#losing.promise
  }

  async stop(): Promise<void> {
    this.refuse()
    const closed = Promise.withResolvers<void>()
    this.#server.close(() => closed.resolve())
    await closed.promise
  }

  #accept(client: Socket): void {
    if (this.#refusing) return void client.destroy()
    const upstream = dial(this.#target.socket_path)
    const pair = [client, upstream] as const
    this.#pairs.add(pair)
    const end = () => {
      client.destroy()
      upstream.destroy()
      this.#pairs.delete(pair)
    }
    const asked = new Frames(true)
    const answered = new Frames(false)
    let ready = false
    client.on("data", (bytes: Buffer) => {
      for (const type of asked.read(bytes)) if (type === "E" || type === "Q") this.executed += 1
      if (!this.#stalled) upstream.write(bytes)
    })
    upstream.on("data", (bytes: Buffer) => {
      const over = answered.read(bytes).includes("Z")
      if (this.#stalled) return
      if (over && ready && this.#losing !== null) {
        end()
        this.#losing.resolve()
        this.#losing = null
        return
      }
      ready ||= over
      client.write(bytes)
    })
    for (const socket of pair) {
      socket.on("error", end)
      socket.on("close", end)
    }
  }
}

/** The types of the messages in one direction of a connection. */
class Frames {
  #rest = Buffer.alloc(0)
  #startup: boolean

  /** A client's first message has no type. */
  constructor(startup: boolean) {
    this.#startup = startup
  }

  read(bytes: Buffer): string[] {
    this.#rest = Buffer.concat([this.#rest, bytes])
    const types: string[] = []
    for (;;) {
      const head = this.#startup ? 0 : 1
      if (this.#rest.length < head + 4) return types
      const length = head + this.#rest.readInt32BE(head)
      if (this.#rest.length < length) return types
      if (!this.#startup) types.push(String.fromCharCode(this.#rest.readUInt8(0)))
      this.#startup = false
      this.#rest = this.#rest.subarray(length)
    }
  }
}
