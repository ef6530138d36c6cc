import { BatchQueue, capFor } from "../database/batch-queue.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import type { End, Hold } from "../entries.ts"
import type { LedgerEvents, LedgerLog } from "../events.ts"
import { endBatch } from "../money/end.ts"
import type { EndResult } from "../money/end-exact.ts"
import { restoreBatch } from "../money/restore.ts"
import type { Outstanding } from "./outstanding.ts"
import type { Spool, SpooledEnd } from "./spool.ts"
import { type PendingWrite, spooledWrites, type WriteOutcome } from "./spooled-writes.ts"

interface QueuedEnd extends SpooledEnd {
  /** True for an end from a file of the spool. */
  readonly on_disk: boolean
  /** True once its missing hold was written again. */
  is_restored: boolean
}

export type EndQueue = ReturnType<typeof endQueue>

/** Ends holds (D27). `restores` is a separate connection, so that no end waits for it. */
export function endQueue(
  connection: DatabaseConnection,
  restores: DatabaseConnection,
  gatewayId: () => string,
  outstanding: Outstanding,
  spool: Spool,
  on: LedgerEvents,
  log: LedgerLog,
) {
  /** Ends without a hold, by call id: this process cannot write them (D13). */
  const unheld = new Map<string, SpooledEnd>()
  const restoring = new BatchQueue<Hold, null>(restores, {
    accountOf: ({ account_id }) => account_id,
    run: (runner, holds, lock_ms) => restoreBatch(runner, gatewayId(), holds, lock_ms),
  })
  const writes = spooledWrites<QueuedEnd, EndResult, SpooledEnd>(
    connection,
    {
      refusal: "the database refused a settlement: it is kept in the spool",
      accountOf: ({ account_id }) => account_id,
      callOf: ({ end }) => end.id,
      run: endBatch,
      spool: spoolEnd,
      done,
      /** Removes the call's hold, or keeps it if the end could not be written. */
      onFinish({ end: { id }, on_disk }, written) {
        if (on_disk) return
        if (written === "none")
          log.error({ id }, "a settlement has no hold in the ledger: it is kept in the spool")
        if (written === "applied" || written === "closed") outstanding.delete(id)
      },
    },
    log,
    { cap: capFor(outstanding) },
  )

  function spoolEnd({ account_id, end, hold, on_disk }: QueuedEnd): void {
    if (!on_disk && spool.add({ account_id, end, hold })) on.spooled?.()
  }

  function done(item: PendingWrite<QueuedEnd>, ended: EndResult): void {
    if (ended === "conflict" || ended === "delayed") {
      // The next statement's snapshot has the row that this one conflicted with.
      writes.enqueue(item)
      return
    }
    const { account_id, end, hold } = item
    if (ended === "none") {
      spoolEnd(item)
      if (hold !== null && !item.is_restored) {
        void restore(item, hold)
        return
      }
      unheld.set(end.id, { account_id, end, hold })
    } else {
      unheld.delete(end.id)
      if (ended === "applied") writes.remember(item)
      else on.endIgnored?.()
      spool.delete(end.id)
    }
    writes.finish(item, ended)
  }

  /** Writes a hold that the database has lost, and then its end (D73). */
  async function restore(item: PendingWrite<QueuedEnd>, hold: Hold): Promise<void> {
    item.is_restored = true
    try {
      await restoring.add(hold).outcome
      writes.enqueue(item)
    } catch (error) {
      writes.failed(item, error)
    }
  }

  /** Resolves once the end is in the ledger, or is in the spool and cannot be written by this process. */
  function end(ended: End): Promise<WriteOutcome> {
    const hold = outstanding.get(ended.id) ?? null
    const account_id = hold?.account_id ?? ""
    return writes.write({ account_id, end: ended, hold, on_disk: false, is_restored: false })
  }

  /** Adds an end from another process's file. */
  const resubmit = ({ account_id, end, hold }: SpooledEnd) =>
    writes.write({ account_id, end, hold, on_disk: true, is_restored: false })

  return {
    end,
    resubmit,
    recent: writes.recent,
    forgetEarlier: writes.forgetEarlier,
    drained: writes.drained,
    get depth() {
      return writes.depth
    },
    unheld: () => [...unheld.values()],
    /** Rewrites an end that the database has lost. */
    retry(spooled: SpooledEnd): void {
      const { end: lost, hold } = spooled
      if (hold === null) void resubmit(spooled)
      else {
        outstanding.add(hold)
        void end(lost)
      }
    },
    /** Resolves when an end that is not in the ledger yet is in the spool on the disk, or the disk has refused it. */
    spooled(id: string): Promise<void> {
      if (!spool.has(id)) writes.spoolOverdue()
      return spool.synced(id)
    },
    stop(): void {
      writes.stop()
      restoring.stop()
    },
  }
}
