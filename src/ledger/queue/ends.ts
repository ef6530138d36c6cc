import type { Connection } from "../database/connection.ts"
import { codeOf } from "../database/errors.ts"
import type { End, Hold } from "../entries.ts"
import type { LedgerEvents, Log } from "../events.ts"
import { endBatch } from "../journal/end.ts"
import type { Ended } from "../journal/end-exact.ts"
import type { Spool, SpooledEnd } from "../journal/spool.ts"
import { Withdrawn } from "./batch-queue.ts"
import { BatchQueues } from "./batch-queues.ts"
import type { Outstanding } from "./outstanding.ts"

/**
 * An end that takes longer goes to the spool: so early that it is on the disk when the last byte of its answer
 * leaves without it, after 250 ms (D32).
 */
const SPOOL_AFTER_MS = 150
/** How often it is looked for ends that take longer. */
const TICK_MS = 25

/** An end on its way. */
interface Item extends SpooledEnd {
  /** Null where it is not known here: of calls of other processes. */
  readonly hold: Hold | null
  /** Whether it comes from a file of the spool. */
  readonly on_disk: boolean
  readonly since_ms: number
}

/** What became of an end: written, `refused` for its data, or `unwritten` when the queue was stopped. */
export type Written = Exclude<Ended, "conflict"> | "refused" | "unwritten"

/** Where holds are ended: tried until the end is in the ledger, and spooled while it is not (D27). */
export class EndQueue {
  readonly #queues: BatchQueues<Item, Ended>
  readonly #outstanding: Outstanding
  readonly #spool: Spool
  readonly #on: LedgerEvents
  readonly #log: Log
  /** In the order in which they came. */
  readonly #writing = new Map<Item, Promise<Written>>()
  #tick: Timer | undefined

  constructor(
    connections: readonly Connection[],
    outstanding: Outstanding,
    spool: Spool,
    on: LedgerEvents,
    log: Log,
  ) {
    this.#outstanding = outstanding
    this.#spool = spool
    this.#on = on
    this.#log = log
    this.#queues = new BatchQueues<Item, Ended>(connections, {
      accountOf: (item) => item.account_id,
      run: endBatch,
      onSetback: (item) => this.#keep(item),
    })
  }

  get depth(): number {
    return this.#queues.depth
  }

  /** Ends that are not in the ledger yet. */
  get writing(): readonly Promise<unknown>[] {
    return [...this.#writing.values()]
  }

  /** Resolves once the end is in the ledger, or when that can no longer be hoped for: then it is in the spool. */
  async end(end: End): Promise<void> {
    const { id } = end
    const hold = this.#outstanding.find(id)
    const written = await this.#track(end, hold?.account_id ?? "", hold ?? null, false)
    if (written === "none") this.#log.error({ id }, "a settlement has no hold in the ledger; it is spooled")
    if (written === "applied" || written === "closed") this.#outstanding.delete(id)
  }

  /** An end from another process' file. */
  replay({ account_id, end }: SpooledEnd): Promise<Written> {
    return this.#track(end, account_id, null, true)
  }

  stop(): void {
    this.#queues.stop()
    clearTimeout(this.#tick)
  }

  #track(end: End, account_id: string, hold: Hold | null, on_disk: boolean): Promise<Written> {
    const item: Item = { end, account_id, hold, on_disk, since_ms: performance.now() }
    const written = this.#write(item)
    this.#writing.set(item, written)
    this.#tick ??= setTimeout(this.#spoolOverdue, TICK_MS)
    return written
  }

  async #write(item: Item): Promise<Written> {
    const { id } = item.end
    try {
      const ended = await this.#ask(item)
      if (ended === "none") {
        this.#keep(item)
        return ended
      }
      if (ended !== "applied") this.#on.endIgnored?.()
      this.#spool.done(id)
      return ended
    } catch (error) {
      this.#keep(item)
      if (error instanceof Withdrawn) return "unwritten"
      this.#log.error({ id, code: codeOf(error) }, "the ledger refuses a settlement; it stays in the spool")
      return "refused"
    } finally {
      this.#writing.delete(item)
    }
  }

  /** A conflict is asked again: the next snapshot knows what was met. */
  async #ask(item: Item): Promise<Exclude<Ended, "conflict">> {
    for (;;) {
      const ended = await this.#queues.of(item.account_id).add(item).outcome
      if (ended !== "conflict") return ended
    }
  }

  readonly #spoolOverdue = (): void => {
    const before_ms = performance.now() - SPOOL_AFTER_MS
    for (const item of this.#writing.keys()) {
      if (item.since_ms > before_ms) break
      this.#keep(item)
    }
    this.#tick = this.#writing.size > 0 ? setTimeout(this.#spoolOverdue, TICK_MS) : undefined
  }

  #keep({ account_id, end, on_disk }: Item): void {
    if (!on_disk && this.#spool.keep({ account_id, end })) this.#on.spooled?.()
  }
}
