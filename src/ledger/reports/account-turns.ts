import { answerOf } from "../database/answer.ts"
import { FairShare, Waiters } from "../database/fair-share.ts"
import { LedgerBusy, NoAnswer } from "../entries.ts"

/** One account has at most this part of the questions that are asked or wait. */
const PART_OF_ACCOUNT = 8
export const DEADLINE_MS = 10_000

/**
 * Bounds the questions of clients to a database, by accounts in turn (D78): so many are asked at a time, and so many are asked or
 * wait. A client that leaves does not end its question, and the driver's own queue has no bound.
 */
export class AccountTurns {
  readonly #at_once: number
  readonly #most: number
  #asked = 0
  readonly #share = new FairShare()
  readonly #waiters = new Waiters()

  constructor(at_once: number, most: number) {
    this.#at_once = at_once
    this.#most = most
  }

  /** Rejects with `NoAnswer` if the turn or the answer is late. Throws `LedgerBusy` when too many questions wait. */
  async ask<Answer>(account_id: string, question: () => Promise<Answer>): Promise<Answer> {
    const share = this.#share
    if (share.used >= this.#most || share.of(account_id) >= this.#most / PART_OF_ACCOUNT)
      throw new LedgerBusy()
    share.add(account_id, 1)
    return answerOf(this.#askInTurn(account_id, question), DEADLINE_MS)
  }

  async #askInTurn<Answer>(account_id: string, question: () => Promise<Answer>): Promise<Answer> {
    const since_ms = performance.now()
    if (this.#asked < this.#at_once) this.#asked += 1
    else await this.#waiters.wait(account_id)
    try {
      const left_ms = since_ms + DEADLINE_MS - performance.now()
      if (left_ms <= 0) throw new NoAnswer("deadline", {})
      // A lost statement may never end: it must not keep its place.
      return await answerOf(question(), left_ms)
    } finally {
      this.#share.release(account_id, 1)
      // The place passes to the next one.
      if (!this.#waiters.next()) this.#asked -= 1
    }
  }
}
