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
export function accountTurns(at_once: number, most: number) {
  let asked = 0
  const share = new FairShare()
  const waiters = new Waiters()

  async function askInTurn<Answer>(account_id: string, question: () => Promise<Answer>): Promise<Answer> {
    const since_ms = performance.now()
    if (asked < at_once) asked += 1
    else await waiters.wait(account_id)
    try {
      const left_ms = since_ms + DEADLINE_MS - performance.now()
      if (left_ms <= 0) throw new NoAnswer("deadline", {})
      // A lost statement may never end: it must not keep its place.
      return await answerOf(question(), left_ms)
    } finally {
      share.release(account_id, 1)
      // The place passes to the next one.
      if (!waiters.next()) asked -= 1
    }
  }

  /** Rejects with `NoAnswer` if the turn or the answer is late. Throws `LedgerBusy` when too many questions wait. */
  return async <Answer>(account_id: string, question: () => Promise<Answer>): Promise<Answer> => {
    if (share.used >= most || share.of(account_id) >= most / PART_OF_ACCOUNT) throw new LedgerBusy()
    share.add(account_id, 1)
    return answerOf(askInTurn(account_id, question), DEADLINE_MS)
  }
}
