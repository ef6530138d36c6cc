import type { Connection, ConnectionPool } from "./connection.ts"
import { DEFAULT_IDLE_MS } from "./transport.ts"

/** The gateway closes an idle connection this long before the server does. */
const MARGIN_MS = 1_000
/** After this idle time the server may have closed a connection without the gateway having seen it yet. */
const STALE_MS = 500
/**
 * The interval of closing idle connections whose time is over. A timeout for each socket would take two native calls
 * for each request.
 */
const CHECK_MS = 1_000

interface Idle {
  readonly connection: Connection
  readonly since_ms: number
  readonly until_ms: number
}

/** The wait before a connection is reused, until one has stayed open this long after an answer. */
export const PROOF_MS = 20

interface PooledConnection {
  readonly connection: Connection
  /** True if the server may have closed it unnoticed, so that received data must be read first. */
  readonly may_be_stale: boolean
  /** The end of its last answer, if it must be idle for `PROOF_MS` first; null if it can be used immediately. */
  readonly unproven_since_ms: number | null
}

/** The idle connections to one origin. The one used last is used next. A closed connection is removed immediately. */
export class UpstreamPool implements ConnectionPool {
  readonly #idle_ms: number | null
  readonly #default_ms: number
  readonly #idle: Idle[] = []
  /** Connections whose answers have just ended. */
  #freed: Connection[] = []
  #is_reading = false
  #check_timer: Timer | undefined
  /** True if connections outlive their answers. */
  #is_proven = false

  /** `idle_ms` is the configured time; null for none. */
  constructor(idle_ms: number | null, is_secured: boolean) {
    this.#idle_ms = idle_ms
    this.#default_ms = is_secured ? DEFAULT_IDLE_MS.secured : DEFAULT_IDLE_MS.plain
  }

  /** An idle connection whose time is not over; null for none. */
  take(): PooledConnection | null {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      const now_ms = performance.now()
      const { connection, since_ms, until_ms } = idle
      if (now_ms < until_ms) {
        if (now_ms - since_ms >= PROOF_MS) this.#is_proven = true
        return this.#pooled(connection, now_ms - since_ms > STALE_MS, since_ms)
      }
      connection.destroy()
    }
    const connection = this.#freed.pop()
    return connection === undefined ? null : this.#pooled(connection, true, connection.freed_ms)
  }

  #pooled(connection: Connection, may_be_stale: boolean, since_ms: number): PooledConnection {
    const is_proven = this.#is_proven || connection.keep_s !== null
    return { connection, may_be_stale, unproven_since_ms: is_proven ? null : since_ms }
  }

  /** Called when a connection has outlived its answer. */
  prove(): void {
    this.#is_proven = true
  }

  /** Adds a connection once the event loop has read what followed the answer, because some servers close right after it. */
  free(connection: Connection): void {
    connection.freed_ms = performance.now()
    this.#freed.push(connection)
    if (this.#is_reading) return
    this.#is_reading = true
    setImmediate(this.#keep)
  }

  readonly #keep = (): void => {
    this.#is_reading = false
    const freed = this.#freed
    this.#freed = []
    for (const connection of freed) {
      const since_ms = connection.freed_ms
      const keep_ms = this.#keepFor(connection.keep_s)
      this.#idle.push({ connection, since_ms, until_ms: since_ms + keep_ms })
    }
    this.#check_timer ??= setInterval(this.#closeOld, CHECK_MS).unref()
  }

  readonly #closeOld = (): void => {
    const now_ms = performance.now()
    for (const idle of this.#idle.splice(0)) {
      if (now_ms < idle.until_ms) this.#idle.push(idle)
      else idle.connection.destroy()
    }
    if (this.#idle.length > 0) return
    clearInterval(this.#check_timer)
    this.#check_timer = undefined
  }

  remove(connection: Connection, is_theirs: boolean): void {
    const at = this.#idle.findLastIndex((idle) => idle.connection === connection)
    if (at !== -1) this.#idle.splice(at, 1)
    const freed_at = this.#freed.lastIndexOf(connection)
    if (freed_at !== -1) this.#freed.splice(freed_at, 1)
    if (is_theirs && performance.now() - connection.freed_ms < STALE_MS) this.#is_proven = false
  }

  /** The server's time less a margin, but not more than the configured one. */
  #keepFor(keep_s: number | null): number {
    if (keep_s === null) return this.#idle_ms ?? this.#default_ms
    const server_ms = keep_s * 1_000 - MARGIN_MS
    return this.#idle_ms === null ? server_ms : Math.min(server_ms, this.#idle_ms)
  }
}
