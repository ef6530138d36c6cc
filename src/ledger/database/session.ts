import { SQL } from "bun"
import { asksForPrimary } from "../../database-url.ts"
import { type Address, connect } from "./address.ts"
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
    if (this.#closed) throw new Error("the connection is closed")
    this.#client ??= this.#open()
    const client = this.#client instanceof SQL ? this.#client : await this.#client
    return await client.unsafe<readonly Row[]>(text, [...values])
  }

  /** Closes the connection: at once, so that what is in flight rejects, or after its last answer. */
  async end(when: "now" | "after its last answer" = "now"): Promise<void> {
    this.#closed = true
    const client = await Promise.resolve(this.#client).catch(() => null)
    await client?.close(when === "now" ? { timeout: 0 } : {})
  }

  #open(): SQL | Promise<SQL> {
    if (!("url" in this.#address)) {
      const { socket_path, user, database } = this.#address
      return this.#connect("postgres://", {
        path: socket_path,
        username: user,
        password: "",
        database,
        tls: false,
      })
    }
    const { url } = this.#address
    return asksForPrimary(url) ? this.#openPrimary(Hosts.of(url)) : this.#connect(url, optionsIn(url))
  }

  async #openPrimary(hosts: Hosts): Promise<SQL> {
    try {
      const host = await hosts.primary()
      const client = this.#connect(host.url, optionsIn(host.url))
      hosts.connected({ host, end: () => void client.close({ timeout: 0 }), isClosed: () => this.#closed })
      return client
    } catch (error) {
      this.#onClose()
      throw error
    }
  }

  /** The URL is an argument of its own, because else Bun looks for one in the environment too. */
  #connect(url: string, where: SQL.PostgresOrMySQLOptions): SQL {
    return new SQL(withoutOptions(url), {
      ...where,
      adapter: "postgres",
      max: 1,
      maxLifetime: 0,
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
 * What Bun would read otherwise than postgres.js, which serves the other connections: `PGDATABASE` would come before the
 * database in the URL, `PGSSLMODE` would turn on TLS, and `ssl=true` would take a certificate that nobody has signed.
 */
function optionsIn(url: string): SQL.PostgresOrMySQLOptions {
  const { database, user, ssl, prepare } = connect({ url }, { max: 1 }).options
  const is_unsigned = ssl === "prefer" || ssl === "require"
  const tls = is_unsigned ? ssl : ssl === "allow" ? "require" : "verify-full"
  return { database, username: user, tls: ssl === false ? false : tls, prepare }
}

/** A URL without what `optionsIn` has read. */
function withoutOptions(text: string): string {
  const url = new URL(text)
  for (const name of ["prepare", "ssl", "sslmode"]) url.searchParams.delete(name)
  return url.href
}
