import { SQL } from "bun"
import { type Address, connect } from "./address.ts"
import { asksForPrimary } from "./database-url.ts"
import { Hosts } from "./hosts.ts"
import type { Row, StatementValues } from "./statement.ts"

export const CONNECT_S = 3

interface SessionOptions {
  /** True if statements keep their plans under a name. Some transaction poolers do not allow it. */
  readonly prepare: boolean
  /** Called when the connection is lost, was ended, or could not be made. No query may follow. */
  onClose(): void
}

/** A connection of Bun's driver, which costs less CPU than postgres.js. Without a primary, a query rejects (`NoPrimary`). */
export class DatabaseSession {
  readonly #address: Address
  readonly #options: SessionOptions
  #client: SQL | Promise<SQL> | null = null
  #closed = false

  constructor(address: Address, options: SessionOptions) {
    this.#address = address
    this.#options = options
  }

  /** The server runs statements in the order of these calls, and does not wait until an answer was read. */
  async query(text: string, values: StatementValues): Promise<readonly Row[]> {
    if (this.#closed) throw Object.assign(new Error("the session is closed"), { code: "SESSION_CLOSED" })
    this.#client ??= this.#open()
    const client = this.#client instanceof SQL ? this.#client : await this.#client
    return await client.unsafe<readonly Row[]>(text, [...values])
  }

  /** Closes the connection: now, so that queries in flight reject, or after its last answer. */
  async end(when: "now" | "after its last answer" = "now"): Promise<void> {
    this.#closed = true
    const client = await Promise.resolve(this.#client).catch(() => null)
    await client?.close(when === "now" ? { timeout: 0 } : {})
  }

  #open(): SQL | Promise<SQL> {
    const address = this.#address
    const has_hosts = "url" in address && asksForPrimary(address.url)
    return has_hosts ? this.#openPrimary(Hosts.of(address.url)) : this.#connect(address)
  }

  async #openPrimary(hosts: Hosts): Promise<SQL> {
    try {
      const host = await hosts.primary()
      const client = this.#connect({ ...this.#address, url: host.url })
      hosts.connected({ host, end: () => void client.close({ timeout: 0 }), isClosed: () => this.#closed })
      return client
    } catch (error) {
      this.#onClose()
      throw error
    }
  }

  #connect(address: Address): SQL {
    const options = optionsOf(address)
    // The URL is a separate argument, because otherwise Bun reads one from the environment.
    return new SQL("postgres://", {
      ...options,
      adapter: "postgres",
      max: 1,
      maxLifetime: 0,
      connectionTimeout: CONNECT_S,
      prepare: this.#options.prepare && options.prepare !== false,
      onclose: () => this.#onClose(),
    })
  }

  #onClose(): void {
    this.#closed = true
    this.#options.onClose()
  }
}

/** Reads an address as postgres.js does. Bun would read other variables and accept unsigned certificates. */
function optionsOf(address: Address): SQL.PostgresOrMySQLOptions {
  const { host, port, path, database, user, ssl, prepare, connection, ...more } = connect(address, {
    max: 1,
  }).options
  const { pass }: { readonly pass: unknown } = more
  const is_unsigned = ssl === "prefer" || ssl === "require"
  const tls = is_unsigned ? ssl : ssl === "allow" ? "require" : "verify-full"
  return {
    ...(path ? { path } : { hostname: host[0], port: port[0] }),
    database,
    username: user,
    password: typeof pass === "string" ? pass : "",
    tls: ssl === false ? false : tls,
    prepare,
    connection: Object.fromEntries(
      Object.entries(connection).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    ),
  }
}
