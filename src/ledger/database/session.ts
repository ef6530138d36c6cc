import { SQL } from "bun"
import { asksForPrimary } from "../../database-url.ts"
import type { Address } from "./address.ts"
import { Hosts } from "./hosts.ts"
import type { Row, Values } from "./statement.ts"

/** How long a connection may take to be made. */
export const CONNECT_S = 3

export interface SessionOptions {
  /** Whether statements keep their plans under a name. Some transaction poolers cannot take that. */
  readonly prepare: boolean
  /** Called when the connection is lost, was ended, or could not be made. No query may follow. */
  onClose(): void
}

/**
 * One connection of Bun's own driver, for the statements of calls: a call costs the gateway less CPU than by postgres.js
 * (14 % at one connection, 6 % at 128). Nothing is opened before the first query. Where the address has several hosts, the
 * connection goes to the one that takes writes; without one a query rejects with `NoPrimary`.
 */
export class Session {
  readonly #address: Address
  readonly #options: SessionOptions
  #client: SQL | Promise<SQL> | null = null
  #closed = false

  constructor(address: Address, options: SessionOptions) {
    this.#address = address
    this.#options = options
  }

  /** The server runs statements in the order of these calls, and does not wait until an answer was read. */
  async query(text: string, values: Values): Promise<readonly Row[]> {
    this.#client ??= this.#open()
    const client = this.#client instanceof SQL ? this.#client : await this.#client
    return await client.unsafe<readonly Row[]>(text, [...values])
  }

  /** Closes the connection: at once, so that what is in flight rejects, or after its last answer. */
  async end(when: "now" | "after its last answer" = "now"): Promise<void> {
    const client = await Promise.resolve(this.#client).catch(() => null)
    await client?.close(when === "now" ? { timeout: 0 } : {})
  }

  #open(): SQL | Promise<SQL> {
    if (!("url" in this.#address)) {
      const { socket_path, user, database } = this.#address
      // Said in full, because Bun takes what is left out from PG* variables.
      return this.#connect({ path: socket_path, username: user, password: "", database, tls: false })
    }
    const { url } = this.#address
    return asksForPrimary(url) ? this.#openPrimary(Hosts.of(url)) : this.#connect(urlOptions(url))
  }

  async #openPrimary(hosts: Hosts): Promise<SQL> {
    try {
      const host = await hosts.primary()
      const client = this.#connect(urlOptions(host.url))
      hosts.connected({ host, end: () => void client.close({ timeout: 0 }), isClosed: () => this.#closed })
      return client
    } catch (error) {
      this.#onClose()
      throw error
    }
  }

  #connect(where: SQL.PostgresOrMySQLOptions): SQL {
    return new SQL({
      ...where,
      adapter: "postgres",
      max: 1,
      connectionTimeout: CONNECT_S,
      connection: { ...this.#address.settings },
      prepare: this.#options.prepare && where.prepare !== false,
      onclose: () => this.#onClose(),
    })
  }

  #onClose(): void {
    this.#closed = true
    this.#options.onClose()
  }
}

/**
 * The options in a URL that Bun reads otherwise than postgres.js, which serves the other connections: `prepare=false` would
 * go to the server, and `ssl=true` would take a certificate that nobody has signed.
 */
function urlOptions(text: string): SQL.PostgresOrMySQLOptions {
  const url = new URL(text)
  const prepare = url.searchParams.get("prepare") !== "false"
  url.searchParams.delete("prepare")
  const tls = url.searchParams.get("ssl") === "true" ? { tls: "verify-full" as const } : {}
  return { url: url.href, prepare, ...tls }
}
