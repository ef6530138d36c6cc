import { atMultiplier } from "../../money.ts"
import { BatchQueue, capFor, QUEUE_LIMIT } from "../database/batch-queue.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import { errorCode } from "../database/database-errors.ts"
import { withDeadline } from "../database/deadline.ts"
import { type Waiter, Withdrawn } from "../database/queued.ts"
import {
  AccountMoving,
  type End,
  type Hold,
  type HoldResult,
  LedgerBusy,
  LedgerUnavailable,
} from "../entries.ts"
import { holdBatch, type KnownAccounts } from "../money/hold.ts"
import type { HoldAttempt } from "../money/hold-exact.ts"
import type { LastUsed } from "../money/last-used.ts"
import type { Lease } from "../money/lease.ts"
import type { EndQueue } from "./ends.ts"
import type { Outstanding } from "./outstanding.ts"

/** Deadline of a call that waits for the ledger (D27). */
export const ANSWER_MS = 2_000

interface HoldRequest {
  readonly hold: Hold
  readonly until_ms: number
  resolve(result: HoldResult): void
  reject(error: Error): void
  /** True if a statement without an answer may have made the hold, or may still make it. */
  uncertain: boolean
  /** True once it was retried because it did not fit. */
  is_retry: boolean
}

export function holdQueue(
  connection: DatabaseConnection,
  lease: Lease,
  outstanding: Outstanding,
  ends: EndQueue,
  used: LastUsed,
) {
  const known: KnownAccounts = new Map()
  /** Ids of refused calls that are being closed. */
  const closing = new Map<string, Promise<void>>()
  const waiter: Waiter<HoldRequest, HoldAttempt> = {
    resolve: ({ item, uncertain }, held) => {
      item.uncertain = uncertain
      handleResult(item, held)
    },
    reject: ({ item, uncertain }, error) => {
      item.uncertain = uncertain
      fail(item, error)
    },
  }
  const queue = new BatchQueue<HoldRequest, HoldAttempt>(
    connection,
    {
      accountOf: ({ hold }) => hold.account_id,
      run: (runner, requests, lock_ms) => {
        const holds = requests.map(({ hold }) => hold)
        return holdBatch(runner, lease.gateway_id, holds, lock_ms, known)
      },
      isDelayed: ({ outcome }) => outcome === "delayed",
    },
    { limit: QUEUE_LIMIT, cap: capFor(outstanding) },
  )

  function enqueue(request: HoldRequest): void {
    try {
      queue.add(request, request.until_ms, request.uncertain, waiter)
    } catch (error) {
      fail(request, error)
    }
  }

  /**
   * Retries a hold that its own earlier attempt may have refused. If that attempt commits while the next one waits for
   * the account, it is not in the next one's snapshot, but its hold is in the balance or in the key's limit. A newer
   * snapshot shows whether the hold met itself, lacks money (D46), or lost its `Idempotency-Key` to another call (D43).
   */
  function handleResult(request: HoldRequest, result: HoldAttempt): void {
    switch (result.outcome) {
      case "held":
        used.note(request.hold.key_id)
        recordHold(request.hold, result)
        request.resolve(result)
        return
      case "conflict":
      case "delayed":
        enqueue(request)
        return
      case "gateway_dead":
        void reacquireLease(result.gateway_id, request.until_ms).then(() => enqueue(request))
        return
      case "closed":
        fail(request, new LedgerUnavailable("the id of the call is closed"))
        return
      case "account_moving":
        fail(request, new AccountMoving())
        return
      case "insufficient_balance":
      case "spending_limit_reached":
      case "budget_reached":
        if (request.is_retry || (!request.uncertain && request.hold.idempotency === null)) break
        request.is_retry = true
        enqueue(request)
        return
      case "idempotency_key_used":
      case "idempotency_key_reused":
        // The caller was refused. Its key is free again once this hold is released.
        if (!closing.has(result.call_id)) break
        fail(request, new LedgerUnavailable("the call before is being closed"))
        return
    }
    discard(request)
    request.resolve(result)
  }

  /** Records the amount that the end will free, and which statements can write that end. */
  function recordHold(
    hold: Hold,
    { price_multiplier_bp, is_limited, rates }: Extract<HoldAttempt, { readonly outcome: "held" }>,
  ): void {
    if (price_multiplier_bp === undefined && is_limited !== true) return
    outstanding.add({
      ...atMultiplier(hold, price_multiplier_bp),
      ...(is_limited === true && { is_limited }),
      ...(rates !== undefined && { is_rated: true }),
    })
  }

  function fail(request: HoldRequest, error: unknown): void {
    discard(request)
    request.reject(failureOf(error))
  }

  /** Takes a new gateway row and retries the hold, because nothing can be held under the row of a dead gateway (D35). */
  async function reacquireLease(dead_id: string, until_ms: number): Promise<void> {
    const acquired = lease.reacquire(dead_id, outstanding.floor).catch(() => {})
    await withDeadline(acquired, until_ms - performance.now(), () => {})
  }

  /** Forgets a hold that was not made, or closes its id if it may have been made. */
  function discard({ hold, uncertain }: HoldRequest): void {
    if (!uncertain) {
      outstanding.delete(hold.id)
      return
    }
    closing.set(
      hold.id,
      close(hold).finally(() => closing.delete(hold.id)),
    )
  }

  /**
   * Resolves when the release of the hold is written or spooled. If there is no hold, the queue of ends writes one
   * without money and without its `Idempotency-Key`, so that a late hold conflicts with it.
   */
  async function close({ tokens: _, ...hold }: Hold): Promise<void> {
    outstanding.add({ ...hold, amount_nano: 0n, idempotency: null })
    await ends.end(releaseOf(hold))
  }

  return {
    get depth() {
      return queue.depth
    },
    async closed(): Promise<void> {
      await Promise.all(closing.values())
    },
    /** Holds or refuses within 2 s. If a refused hold may still be made, its id is then closed (D27). */
    hold(hold: Hold): Promise<HoldResult> {
      return new Promise((resolve, reject) => {
        if (hold.id < outstanding.floor) {
          reject(new LedgerUnavailable("the request is too old to be held"))
          return
        }
        outstanding.add(hold)
        const until_ms = performance.now() + ANSWER_MS
        enqueue({ hold, until_ms, resolve, reject, uncertain: false, is_retry: false })
      })
    },
    stop: () => queue.stop(),
  }
}

/** The release of a hold whose caller was refused. Its `Idempotency-Key` may be used again. */
function releaseOf({ id, idempotency }: Hold): End {
  return {
    id,
    outcome: "released",
    charge_nano: 0n,
    basis: "none",
    ending: null,
    failure: "internal_error",
    notes: [],
    usage: null,
    terms_id: null,
    ttft_ms: null,
    duration_ms: 0,
    freed_key_hash: idempotency?.key_hash ?? null,
  }
}

/** Hides the server's own error, because it may show the hold. */
function failureOf(error: unknown): Error {
  if (error instanceof LedgerUnavailable || error instanceof LedgerBusy) return error
  if (error instanceof Withdrawn) return new LedgerUnavailable(errorCode(error.cause))
  return new Error(`the ledger refuses this hold: ${errorCode(error)}`)
}
