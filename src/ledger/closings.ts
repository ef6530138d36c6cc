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

/**
 * A settlement that takes longer goes to the spool: so early that it is on the disk when the last byte of its answer
 * leaves without it, after 250 ms (D32).
 */
const SPOOL_AFTER_MS = 150

/** A closing on its way; `on_disk` if it comes from a file of the spool. */
interface Item extends SpooledClosing {
  readonly on_disk: boolean
}

/** What became of a closing: the books took it, `refused` its data, or were closed while it was `unwritten`. */
export type Written = Closed | "refused" | "unwritten"

/** Where calls come to be closed: tried until it is in the books, and spooled while it is not (D27). */
export class Closings {
  readonly #lanes: Lanes<Item, Closed>
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
      accountOf: (item) => item.account_id,
      run: (connection, items, patience_ms) =>
        closeBatch(
          connection,
          items.map(({ closing }) => closing),
          patience_ms,
        ),
      onSetback: (item) => this.#keep(item),
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
    const account_id = this.#outstanding.accountOf(id) ?? ""
    const written = await this.#track({ account_id, closing, on_disk: false })
    if (written === "none") this.#log.error({ id }, "a call was closed that the books do not know")
    if (written !== "refused" && written !== "unwritten") this.#outstanding.delete(id)
  }

  /** A closing from another process' file. */
  replay(spooled: SpooledClosing): Promise<Written> {
    return this.#track({ ...spooled, on_disk: true })
  }

  stop(): void {
    this.#lanes.stop()
  }

  #track(item: Item): Promise<Written> {
    const written = this.#write(item).finally(() => this.#writing.delete(written))
    this.#writing.add(written)
    return written
  }

  async #write(item: Item): Promise<Written> {
    const { id } = item.closing
    const timer = setTimeout(() => this.#keep(item), SPOOL_AFTER_MS)
    try {
      const closed = await this.#lanes.of(item.account_id).enter(item).outcome
      if (closed !== "applied") this.#on.closingIgnored?.()
      this.#spool.done(id)
      return closed
    } catch (error) {
      this.#keep(item)
      if (error instanceof Withdrawn) return "unwritten"
      this.#log.error({ id, code: codeOf(error) }, "the books refuse a closing; it stays spooled")
      return "refused"
    } finally {
      clearTimeout(timer)
    }
  }

  #keep({ account_id, closing, on_disk }: Item): void {
    if (!on_disk && this.#spool.keep({ account_id, closing })) this.#on.spooled?.()
  }
}
