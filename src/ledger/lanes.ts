import type { Connection } from "./connection.ts"
import { Lane, type Work } from "./lane.ts"

/** A lane's work before the lane has its connection. */
export interface ConnectedWork<Item, Result> extends Omit<Work<Item, Result>, "run"> {
  run(connection: Connection, items: readonly Item[], patience_ms: number): Promise<readonly Result[]>
}

/** Lanes of one kind, each on a connection of its own; the items of one account are always on the same lane. */
export class Lanes<Item, Result> {
  readonly #lanes: readonly Lane<Item, Result>[]

  constructor(connections: readonly Connection[], work: ConnectedWork<Item, Result>, limit?: number) {
    this.#lanes = connections.map((connection) => {
      return new Lane(
        { ...work, run: (items, patience_ms) => work.run(connection, items, patience_ms) },
        limit,
      )
    })
  }

  /** The last digits of an account's UUID are random. */
  of(account_id: string): Lane<Item, Result> {
    const place = Number.parseInt(account_id.slice(-4), 16) || 0
    const lane = this.#lanes[place % this.#lanes.length]
    if (lane === undefined) throw new Error("there is no lane")
    return lane
  }

  get depth(): number {
    return this.#lanes.reduce((depth, lane) => depth + lane.depth, 0)
  }

  stop(): void {
    for (const lane of this.#lanes) lane.stop()
  }
}
