import { SQL } from "bun"
import { type Address, connect, inSchema } from "./address.ts"
import { isAnswer, isPlanLost, Overdue } from "./database-errors.ts"
import { asksForPrimary } from "./database-url.ts"
import { type Hosts, hostsOf } from "./hosts.ts"
import type { Row, Statement, StatementValues } from "./statement.ts"

const CONNECT_S = 3

type DatabaseSession = ReturnType<typeof openSession>

/**
 * A connection of Bun's driver, which costs less CPU than postgres.js. Without a primary, a query rejects (`NoPrimary`). `prepare`: true if
 * statements keep their plans under a name. Some transaction poolers do not allow it. `onClose` is called when the connection is
 * lost, was ended, or could not be made. No query may follow.
 */
export function openSession(address: Address, prepare: boolean, onClose: () => void) {
  let client: SQL | Promise<SQL> | null = null
  let is_closed = false
  const close = () => {
    is_closed = true
    onClose()
  }

  function open(): SQL | Promise<SQL> {
    const has_hosts = "url" in address && asksForPrimary(address.url)
    return has_hosts ? openPrimary(hostsOf(address.url)) : connectTo(address)
  }

  async function openPrimary(hosts: Hosts): Promise<SQL> {
    try {
      const host = await hosts.primary()
      const made = connectTo({ ...address, url: host.url })
      hosts.connected({ host, end: () => void made.close({ timeout: 0 }), isClosed: () => is_closed })
      return made
    } catch (error) {
      close()
      throw error
    }
  }

  function connectTo(one: Address): SQL {
    const options = optionsOf(one)
    // The URL is a separate argument, because otherwise Bun reads one from the environment.
    return new SQL("postgres://", {
      ...options,
      adapter: "postgres",
      max: 1,
      maxLifetime: 0,
      connectionTimeout: CONNECT_S,
      prepare: prepare && options.prepare !== false,
      onclose: close,
    })
  }

  return {
    /** The server runs statements in the order of these calls, and does not wait until an answer was read. */
    async query(text: string, values: StatementValues): Promise<readonly Row[]> {
      if (is_closed) throw Object.assign(new Error("the session is closed"), { code: "SESSION_CLOSED" })
      client ??= open()
      const made = client instanceof SQL ? client : await client
      return await made.unsafe<readonly Row[]>(text, [...values])
    },
    /** Closes the connection: now, so that queries in flight reject, or after its last answer. */
    async end(when: "now" | "after its last answer" = "now"): Promise<void> {
      is_closed = true
      const made = await Promise.resolve(client).catch(() => null)
      await made?.close(when === "now" ? { timeout: 0 } : {})
    },
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

/** If the process was paused, the reply may already be in the socket buffer: check once more before timing out. */
const GRACE_MS = 20

/**
 * A kept plan that was made while a table was small reads all of it, also once it has grown. Every statement of a connection
 * finds its rows by an index. A transaction pooler may lose the setting, which only costs time.
 */
const BY_INDEX = "SET enable_seqscan = off"

/** Called for every statement that ended, with the number of its items, its duration and its error. */
export type Watch = (ended: {
  readonly statement: Statement
  readonly size: number
  readonly duration_ms: number
  readonly error: unknown
}) => void

export interface Runner {
  /** Rejects with the server's or driver's error, or `Overdue` if the outcome is unknown. `size`: items. */
  run(
    statement: Statement,
    values: StatementValues,
    within_ms: number,
    size?: number,
  ): Promise<readonly Row[]>
}

/** One connection with a deadline for each statement, which the driver lacks. Statements are pipelined. */
export class DatabaseConnection implements Runner {
  readonly #address: Address
  readonly #watch: Watch
  readonly #texts = new Map<Statement, string>()
  #session: DatabaseSession
  /** True if plans are kept by name; false through a pooler that forgets or mixes them. */
  #prepare: boolean
  #made = false
  #ended = false

  constructor(address: Address, watch: Watch = () => {}) {
    this.#address = address
    this.#watch = watch
    this.#prepare = address.names_clash !== true
    this.#session = this.#open()
  }

  /** Replaces a connection that does not answer, so that later statements do not wait behind this one. */
  async run(
    statement: Statement,
    values: StatementValues,
    within_ms: number,
    size = 1,
  ): Promise<readonly Row[]> {
    const started_ms = performance.now()
    const overdue = Promise.withResolvers<never>()
    const allowed_ms = this.#made ? within_ms : within_ms + CONNECT_S * 1000
    let timer = setTimeout(() => {
      timer = setTimeout(() => overdue.reject(new Overdue()), GRACE_MS)
    }, allowed_ms)
    let failure: unknown = null
    try {
      return await this.#query(statement, values, overdue.promise)
    } catch (error) {
      failure = error
      throw error
    } finally {
      clearTimeout(timer)
      this.#watch({ statement, size, duration_ms: performance.now() - started_ms, error: failure })
    }
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#session.end()
  }

  async #query(
    statement: Statement,
    values: StatementValues,
    overdue: Promise<never>,
  ): Promise<readonly Row[]> {
    const session = this.#session
    try {
      const rows = await Promise.race([session.query(this.#textOf(statement), values), overdue])
      // Sent behind the first statement, which alone shows that there is a connection; its plan is not kept yet.
      if (!this.#made && session === this.#session) {
        this.#made = true
        void session.query(BY_INDEX, []).catch(() => {})
      }
      return rows
    } catch (error) {
      if (isPlanLost(error)) {
        this.#forgetPlans(session)
        return await this.#query(statement, values, overdue)
      }
      if (!isAnswer(error)) this.#giveUp(session)
      throw error
    }
  }

  /** The text for this schema; the same string each time. */
  #textOf(statement: Statement): string {
    if (this.#address.schema === undefined) return statement.text
    let text = this.#texts.get(statement)
    if (text === undefined) {
      text = inSchema(statement.text, this.#address)
      this.#texts.set(statement, text)
    }
    return text
  }

  /** Closes the session; statements in flight reject. */
  #giveUp(session: DatabaseSession): void {
    this.#replace(session)
    void session.end()
  }

  /** Opens a session without kept plans; statements in flight on the old one fail by themselves. */
  #forgetPlans(session: DatabaseSession): void {
    this.#prepare = false
    this.#replace(session)
    void session.end("after its last answer")
  }

  #replace(session: DatabaseSession): void {
    if (!this.#ended && session === this.#session) this.#session = this.#open()
  }

  /** A session does not connect again, because the primary may be another host by then. */
  #open(): DatabaseSession {
    this.#made = false
    const session: DatabaseSession = openSession(this.#address, this.#prepare, () => this.#replace(session))
    return session
  }
}
