import { BatchQueue, capFor } from "../database/batch-queue.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import { errorCode } from "../database/database-errors.ts"
import { type Waiter, Withdrawn } from "../database/queued.ts"
import type { End, Hold } from "../entries.ts"
import type { LedgerEvents, LedgerLog } from "../events.ts"
import { endBatch } from "../money/end.ts"
import type { EndResult } from "../money/end-exact.ts"
import { restoreBatch } from "../money/restore.ts"
import type { Outstanding } from "./outstanding.ts"
import { PendingWrites, RecentWrites } from "./pending-writes.ts"
import type { Spool, SpooledEnd } from "./spool.ts"

interface QueuedEnd extends SpooledEnd {
  /** True for an end from a file of the spool. */
  readonly on_disk: boolean
  readonly since_ms: number
  /** True once its missing hold was written again. */
  is_restored: boolean
  /** Set to null after the call, so that a remembered end does not retain its promise. */
  resolve: ((written: EndOutcome) => void) | null
}

/** The result of an end: written, `refused` for its data, or `unwritten` when the queue was stopped. */
export type EndOutcome = Exclude<EndResult, "conflict" | "delayed"> | "refused" | "unwritten"

/** Ends holds: tries each end until it is in the ledger, and spools it until then (D27). */
export class EndQueue {
  readonly #ends: BatchQueue<QueuedEnd, EndResult>
  readonly #restores: BatchQueue<Hold, null>
  readonly #outstanding: Outstanding
  readonly #spool: Spool
  readonly #on: LedgerEvents
  readonly #log: LedgerLog
  readonly #pending = new PendingWrites<QueuedEnd>((item) => this.#spoolEnd(item))
  readonly #recent = new RecentWrites<SpooledEnd>()
  /** Ends without a hold, by call id: this process cannot write them (D13). */
  readonly #unheld = new Map<string, SpooledEnd>()
  readonly #waiter: Waiter<QueuedEnd, EndResult> = {
    resolve: ({ item }, ended) => this.#handleResult(item, ended),
    reject: ({ item }, error) => this.#failed(item, error),
  }

  /** `restores` is a separate connection, so that no end waits for it. */
  constructor(
    connection: DatabaseConnection,
    restores: DatabaseConnection,
    gatewayId: () => string,
    outstanding: Outstanding,
    spool: Spool,
    on: LedgerEvents,
    log: LedgerLog,
  ) {
    this.#outstanding = outstanding
    this.#spool = spool
    this.#on = on
    this.#log = log
    this.#ends = new BatchQueue<QueuedEnd, EndResult>(
      connection,
      { accountOf: (item) => item.account_id, run: endBatch, onFirstFailure: (item) => this.#spoolEnd(item) },
      { cap: capFor(outstanding) },
    )
    this.#restores = new BatchQueue(restores, {
      accountOf: ({ account_id }) => account_id,
      run: (runner, holds, lock_ms) => restoreBatch(runner, gatewayId(), holds, lock_ms),
    })
  }

  get depth(): number {
    return this.#ends.depth
  }

  get unheld(): readonly SpooledEnd[] {
    return [...this.#unheld.values()]
  }

  /** Ends that were written in the last 10 s at least, in case a failover has lost them (D73). */
  get recent(): readonly SpooledEnd[] {
    return this.#recent.list
  }

  forgetEarlier(): void {
    this.#recent.forgetEarlier()
  }

  /** Writes an end again that the database has lost. */
  retry(spooled: SpooledEnd): void {
    const { end, hold } = spooled
    if (hold === null) void this.resubmit(spooled)
    else {
      this.#outstanding.add(hold)
      void this.end(end)
    }
  }

  drained(): Promise<void> {
    return this.#pending.drained()
  }

  /** Resolves once the end is in the ledger, or is in the spool and cannot be written by this process. */
  end(end: End): Promise<EndOutcome> {
    const hold = this.#outstanding.find(end.id) ?? null
    return new Promise((resolve) => this.#write(end, hold?.account_id ?? "", hold, false, resolve))
  }

  /** Resolves when an end that is not in the ledger yet is in the spool on the disk, or the disk has refused it. */
  spooled(id: string): Promise<void> {
    if (!this.#spool.has(id)) this.#pending.reportOverdue()
    return this.#spool.synced(id)
  }

  /** An end from another process' file. */
  resubmit({ account_id, end, hold }: SpooledEnd): Promise<EndOutcome> {
    return new Promise((resolve) => this.#write(end, account_id, hold, true, resolve))
  }

  stop(): void {
    this.#ends.stop()
    this.#restores.stop()
    this.#pending.stop()
  }

  #write(
    end: End,
    account_id: string,
    hold: Hold | null,
    on_disk: boolean,
    resolve: (written: EndOutcome) => void,
  ): void {
    const item: QueuedEnd = {
      end,
      account_id,
      hold,
      on_disk,
      since_ms: performance.now(),
      is_restored: false,
      resolve,
    }
    this.#pending.add(item)
    this.#enqueue(item)
  }

  #enqueue(item: QueuedEnd): void {
    try {
      this.#ends.add(item, Number.POSITIVE_INFINITY, false, this.#waiter)
    } catch (error) {
      this.#failed(item, error)
    }
  }

  #handleResult(item: QueuedEnd, ended: EndResult): void {
    if (ended === "conflict" || ended === "delayed") {
      // The snapshot of the next statement has the row that this one conflicted with.
      this.#enqueue(item)
      return
    }
    const { account_id, end, hold } = item
    if (ended === "none") {
      this.#spoolEnd(item)
      if (hold !== null && !item.is_restored) {
        void this.#restore(item, hold)
        return
      }
      this.#unheld.set(end.id, { account_id, end, hold })
    } else {
      this.#unheld.delete(end.id)
      if (ended === "applied") this.#recent.add(item)
      else this.#on.endIgnored?.()
      this.#spool.delete(end.id)
    }
    this.#finish(item, ended)
  }

  /** Writes a hold that the database has lost, and then its end (D73). */
  async #restore(item: QueuedEnd, hold: Hold): Promise<void> {
    item.is_restored = true
    try {
      await this.#restores.add(hold).outcome
      this.#enqueue(item)
    } catch (error) {
      this.#failed(item, error)
    }
  }

  #failed(item: QueuedEnd, error: unknown): void {
    this.#spoolEnd(item)
    if (error instanceof Withdrawn) {
      this.#finish(item, "unwritten")
      return
    }
    this.#log.error(
      { id: item.end.id, code: errorCode(error) },
      "the database refused a settlement: it is kept in the spool",
    )
    this.#finish(item, "refused")
  }

  #finish(item: QueuedEnd, written: EndOutcome): void {
    if (!item.on_disk) this.#close(item.end.id, written)
    item.resolve?.(written)
    item.resolve = null
    this.#pending.delete(item)
  }

  /** Removes the hold of this process' call, or keeps it if the end could not be written. */
  #close(id: string, written: EndOutcome): void {
    if (written === "none")
      this.#log.error({ id }, "a settlement has no hold in the ledger: it is kept in the spool")
    if (written === "applied" || written === "closed") this.#outstanding.delete(id)
  }

  #spoolEnd({ account_id, end, hold, on_disk }: QueuedEnd): void {
    if (!on_disk && this.#spool.add({ account_id, end, hold })) this.#on.spooled?.()
  }
}
