import { type Closed, closeBatch } from "./close.ts"
import type { Connections } from "./connections.ts"
import { Withdrawn } from "./entry.ts"
import type { LedgerEvents } from "./events.ts"
import { Lanes } from "./lanes.ts"
import { LANES } from "./limits.ts"
import type { Log } from "./log.ts"
import type { Outstanding } from "./outstanding.ts"
import type { Closing } from "./reservation.ts"
import type { Spool } from "./spool.ts"
import type { SpooledClosing } from "./spool-line.ts"
import { codeOf } from "./trouble.ts"

/** When the last byte of an answer leaves without its settlement (D32), the settlement goes to the spool. */
const SPOOL_AFTER_MS = 250

/** Where calls come to be closed: tried until it is in the books, and spooled while it is not (D27). */
export class Closings {
  readonly #lanes: Lanes<SpooledClosing, Closed>
  readonly #outstanding: Outstanding
  readonly #spool: Spool
  readonly #on: LedgerEvents
  readonly #log: Log
  readonly #writing = new Set<Promise<unknown>>()

  constructor(connections: Connections, outstanding: Outstanding, spool: Spool, on: LedgerEvents, log: Log) {
    this.#outstanding = outstanding
    this.#spool = spool
    this.#on = on
    this.#log = log
    this.#lanes = new Lanes(connections.several(LANES), {
      accountOf: (spooled) => spooled.account_id,
      run: (connection, spooled, patience_ms) =>
        closeBatch(
          connection,
          spooled.map(({ closing }) => closing),
          patience_ms,
        ),
      onSetback: (spooled) => this.#keep(spooled),
    })
  }

  get depth(): number {
    return this.#lanes.depth
  }

  /** Closings that are not in the books yet. */
  get writing(): readonly Promise<unknown>[] {
    return [...this.#writing]
  }

  /** Resolves once the closing is in the books, or when that can no longer be hoped for: then it is in the spool. */
  async close(closing: Closing): Promise<void> {
    const { id } = closing
    const closed = await this.write({ account_id: this.#outstanding.accountOf(id) ?? "", closing })
    if (closed === "none") this.#log.error({ id }, "a call was closed that the books do not know")
    if (closed !== null) this.#outstanding.delete(id)
  }

  /** Null for a closing that the books refuse, or that is withdrawn because they are closed. */
  write(spooled: SpooledClosing): Promise<Closed | null> {
    const written = this.#write(spooled).finally(() => this.#writing.delete(written))
    this.#writing.add(written)
    return written
  }

  stop(): void {
    this.#lanes.stop()
  }

  async #write(spooled: SpooledClosing): Promise<Closed | null> {
    const timer = setTimeout(() => this.#keep(spooled), SPOOL_AFTER_MS)
    try {
      const closed = await this.#lanes.of(spooled.account_id).enter(spooled).outcome
      if (closed !== "applied") this.#on.closingIgnored?.()
      this.#spool.done(spooled.closing.id)
      return closed
    } catch (error) {
      this.#keep(spooled)
      if (!(error instanceof Withdrawn)) {
        this.#log.error(
          { id: spooled.closing.id, code: codeOf(error) },
          "the books refuse a closing; it stays spooled",
        )
      }
      return null
    } finally {
      clearTimeout(timer)
    }
  }

  #keep(spooled: SpooledClosing): void {
    if (this.#spool.keep(spooled)) this.#on.spooled?.()
  }
}
