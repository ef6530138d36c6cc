import type { Connection } from "../database/connection.ts"
import { BatchQueue, type Work } from "./batch-queue.ts"

/** Queues of one kind, each on a connection of its own; the items of one account are always in the same one. */
export class BatchQueues<Item, Result> {
  readonly #queues: readonly BatchQueue<Item, Result>[]

  constructor(connections: readonly Connection[], work: Work<Item, Result>, limit?: number) {
    this.#queues = connections.map((connection) => new BatchQueue(connection, work, limit))
  }

  /** The last digits of an account's UUID are random. */
  of(account_id: string): BatchQueue<Item, Result> {
    const place = Number.parseInt(account_id.slice(-4), 16) || 0
    const queue = this.#queues[place % this.#queues.length]
    if (queue === undefined) throw new Error("there is no queue")
    return queue
  }

  get depth(): number {
    return this.#queues.reduce((depth, queue) => depth + queue.depth, 0)
  }

  stop(): void {
    for (const queue of this.#queues) queue.stop()
  }
}
