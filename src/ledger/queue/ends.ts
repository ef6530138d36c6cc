import { BatchQueue, capFor } from "../database/batch-queue.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import type { End, Hold } from "../entries.ts"
import type { LedgerEvents, LedgerLog } from "../events.ts"
import { endBatch } from "../money/end.ts"
import type { EndResult } from "../money/end-exact.ts"
import { restoreBatch } from "../money/restore.ts"
import type { Outstanding } from "./outstanding.ts"
import type { Spool, SpooledEnd } from "./spool.ts"
import { SpooledWrites, type WriteOutcome } from "./spooled-writes.ts"

interface QueuedEnd extends SpooledEnd {
  /** True for an end from a file of the spool. */
  readonly on_disk: boolean
  readonly since_ms: number
  /** True once its missing hold was written again. */
  is_restored: boolean
  resolve: ((written: WriteOutcome) => void) | null
}

/** Ends holds (D27). */
export class EndQueue extends SpooledWrites<QueuedEnd, EndResult, SpooledEnd> {
  protected readonly queue: BatchQueue<QueuedEnd, EndResult>
  readonly #restores: BatchQueue<Hold, null>
  readonly #outstanding: Outstanding
  readonly #spool: Spool
  readonly #on: LedgerEvents
  readonly #log: LedgerLog
  /** Ends without a hold, by call id: this process cannot write them (D13). */
  readonly #unheld = new Map<string, SpooledEnd>()

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
    super(log, "the database refused a settlement: it is kept in the spool")
    this.#outstanding = outstanding
    this.#spool = spool
    this.#on = on
    this.#log = log
    this.queue = new BatchQueue<QueuedEnd, EndResult>(
      connection,
      { accountOf: (item) => item.account_id, run: endBatch, onFirstFailure: (item) => this.spool(item) },
      { cap: capFor(outstanding) },
    )
    this.#restores = new BatchQueue(restores, {
      accountOf: ({ account_id }) => account_id,
      run: (runner, holds, lock_ms) => restoreBatch(runner, gatewayId(), holds, lock_ms),
    })
  }

  get depth(): number {
    return this.queue.depth
  }

  get unheld(): readonly SpooledEnd[] {
    return [...this.#unheld.values()]
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

  /** Resolves once the end is in the ledger, or is in the spool and cannot be written by this process. */
  end(end: End): Promise<WriteOutcome> {
    const hold = this.#outstanding.get(end.id) ?? null
    return this.#write({ account_id: hold?.account_id ?? "", end, hold }, false)
  }

  /** Resolves when an end that is not in the ledger yet is in the spool on the disk, or the disk has refused it. */
  spooled(id: string): Promise<void> {
    if (!this.#spool.has(id)) this.spoolOverdue()
    return this.#spool.synced(id)
  }

  /** An end from another process' file. */
  resubmit(spooled: SpooledEnd): Promise<WriteOutcome> {
    return this.#write(spooled, true)
  }

  override stop(): void {
    super.stop()
    this.#restores.stop()
  }

  #write({ account_id, end, hold }: SpooledEnd, on_disk: boolean): Promise<WriteOutcome> {
    const queued = { account_id, end, hold, on_disk, since_ms: performance.now(), is_restored: false }
    return new Promise((resolve) => this.add({ ...queued, resolve }))
  }

  protected done(item: QueuedEnd, ended: EndResult): void {
    if (ended === "conflict" || ended === "delayed") {
      // The snapshot of the next statement has the row that this one conflicted with.
      this.enqueue(item)
      return
    }
    const { account_id, end, hold } = item
    if (ended === "none") {
      this.spool(item)
      if (hold !== null && !item.is_restored) {
        void this.#restore(item, hold)
        return
      }
      this.#unheld.set(end.id, { account_id, end, hold })
    } else {
      this.#unheld.delete(end.id)
      if (ended === "applied") this.remember(item)
      else this.#on.endIgnored?.()
      this.#spool.delete(end.id)
    }
    this.finish(item, ended)
  }

  /** Writes a hold that the database has lost, and then its end (D73). */
  async #restore(item: QueuedEnd, hold: Hold): Promise<void> {
    item.is_restored = true
    try {
      await this.#restores.add(hold).outcome
      this.enqueue(item)
    } catch (error) {
      this.failed(item, error)
    }
  }

  protected override finish(item: QueuedEnd, written: WriteOutcome): void {
    if (!item.on_disk) this.#close(item.end.id, written)
    super.finish(item, written)
  }

  /** Removes the hold of this process' call, or keeps it if the end could not be written. */
  #close(id: string, written: WriteOutcome): void {
    if (written === "none")
      this.#log.error({ id }, "a settlement has no hold in the ledger: it is kept in the spool")
    if (written === "applied" || written === "closed") this.#outstanding.delete(id)
  }

  protected spool({ account_id, end, hold, on_disk }: QueuedEnd): void {
    if (!on_disk && this.#spool.add({ account_id, end, hold })) this.#on.spooled?.()
  }

  protected callOf({ end }: QueuedEnd): string {
    return end.id
  }
}
