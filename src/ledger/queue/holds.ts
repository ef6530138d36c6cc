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
  /** True once it was tried again because it did not fit. */
  is_retry: boolean
}

export class HoldQueue {
  readonly #holds: BatchQueue<HoldRequest, HoldAttempt>
  readonly #lease: Lease
  readonly #outstanding: Outstanding
  readonly #ends: EndQueue
  readonly #used: LastUsed
  readonly #known: KnownAccounts = new Map()
  /** Ids of refused calls that are being closed. */
  readonly #closing = new Map<string, Promise<void>>()
  readonly #waiter: Waiter<HoldRequest, HoldAttempt> = {
    resolve: ({ item, uncertain }, held) => {
      item.uncertain = uncertain
      this.#handleResult(item, held)
    },
    reject: ({ item, uncertain }, error) => {
      item.uncertain = uncertain
      this.#fail(item, error)
    },
  }

  constructor(
    connection: DatabaseConnection,
    lease: Lease,
    outstanding: Outstanding,
    ends: EndQueue,
    used: LastUsed,
  ) {
    this.#lease = lease
    this.#outstanding = outstanding
    this.#ends = ends
    this.#used = used
    this.#holds = new BatchQueue(
      connection,
      {
        accountOf: ({ hold }) => hold.account_id,
        run: (runner, requests, lock_ms) => {
          const holds = requests.map(({ hold }) => hold)
          return holdBatch(runner, lease.gateway_id, holds, lock_ms, this.#known)
        },
        isDelayed: ({ outcome }) => outcome === "delayed",
      },
      { limit: QUEUE_LIMIT, cap: capFor(outstanding) },
    )
  }

  get depth(): number {
    return this.#holds.depth
  }

  async closed(): Promise<void> {
    await Promise.all(this.#closing.values())
  }

  /** Holds or refuses within 2 s. The id of a hold that may nevertheless be made is closed afterwards (D27). */
  hold(hold: Hold): Promise<HoldResult> {
    return new Promise((resolve, reject) => {
      if (hold.id < this.#outstanding.floor) {
        reject(new LedgerUnavailable("the request is too old to be held"))
        return
      }
      this.#outstanding.add(hold)
      const until_ms = performance.now() + ANSWER_MS
      this.#enqueue({ hold, until_ms, resolve, reject, uncertain: false, is_retry: false })
    })
  }

  stop(): void {
    this.#holds.stop()
  }

  #enqueue(request: HoldRequest): void {
    try {
      this.#holds.add(request, request.until_ms, request.uncertain, this.#waiter)
    } catch (error) {
      this.#fail(request, error)
    }
  }

  /**
   * Retries a hold that an earlier attempt of its own may have refused. An attempt that commits while the next one waits for
   * the account is not in the next one's snapshot, but its hold is in the balance or counts against the key's limit. A newer
   * snapshot tells a hold that met itself from one that lacks money (D46), and from one whose `Idempotency-Key` another call
   * has just taken (D43).
   */
  #handleResult(request: HoldRequest, result: HoldAttempt): void {
    switch (result.outcome) {
      case "held":
        this.#used.note(request.hold.key_id)
        this.#recordHold(request.hold, result)
        request.resolve(result)
        return
      case "conflict":
      case "delayed":
        this.#enqueue(request)
        return
      case "gateway_dead":
        void this.#reacquireLease(result.gateway_id, request.until_ms).then(() => this.#enqueue(request))
        return
      case "closed":
        this.#fail(request, new LedgerUnavailable("the id of the call is closed"))
        return
      case "account_moving":
        this.#fail(request, new AccountMoving())
        return
      case "insufficient_balance":
      case "spending_limit_reached":
      case "budget_reached":
        if (request.is_retry || (!request.uncertain && request.hold.idempotency === null)) break
        request.is_retry = true
        this.#enqueue(request)
        return
      case "idempotency_key_used":
      case "idempotency_key_reused":
        // The hold of a caller who was refused. Its key is free again once the hold is released.
        if (!this.#closing.has(result.call_id)) break
        this.#fail(request, new LedgerUnavailable("the call before is being closed"))
        return
    }
    this.#discard(request)
    request.resolve(result)
  }

  /** Records the amount that the end will free, and which statements can write that end. */
  #recordHold(
    hold: Hold,
    { price_multiplier_bp, is_limited, rates }: Extract<HoldAttempt, { readonly outcome: "held" }>,
  ): void {
    if (price_multiplier_bp === undefined && is_limited !== true) return
    this.#outstanding.add({
      ...atMultiplier(hold, price_multiplier_bp),
      ...(is_limited === true && { is_limited }),
      ...(rates !== undefined && { is_rated: true }),
    })
  }

  #fail(request: HoldRequest, error: unknown): void {
    this.#discard(request)
    request.reject(failureOf(error))
  }

  /** Takes a new gateway row, and tries the hold again: nothing can be held under the row of a dead gateway (D35). */
  async #reacquireLease(dead_id: string, until_ms: number): Promise<void> {
    const acquired = this.#lease.reacquire(dead_id, this.#outstanding.floor).catch(() => {})
    await withDeadline(acquired, until_ms - performance.now(), () => {})
  }

  /** Forgets a hold that was not made, or closes its id if it may have been made. */
  #discard({ hold, uncertain }: HoldRequest): void {
    if (!uncertain) {
      this.#outstanding.delete(hold.id)
      return
    }
    this.#closing.set(
      hold.id,
      this.#close(hold).finally(() => this.#closing.delete(hold.id)),
    )
  }

  /**
   * Resolves when the hold is released, or is in the spool to be. If there is none, the queue of ends writes it, so that a late one
   * conflicts with it: without money, which nobody else shall lack meanwhile.
   */
  async #close({ tokens: _, ...hold }: Hold): Promise<void> {
    this.#outstanding.add({ ...hold, amount_nano: 0n })
    await this.#ends.end(releaseOf(hold))
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
