import { withDeadline } from "../database/deadline.ts"
import {
  cancelMove,
  carry,
  type MoveProgress,
  type MoveResult,
  type MoveRow,
  type MoveShard,
  moveAccount,
  rowOf,
} from "./move.ts"

export type MoveState =
  | MoveResult
  /** The move continues in this process. */
  | ({ readonly outcome: "moving" } & MoveProgress)
  /** It was being moved, and is live again where it was. */
  | { readonly outcome: "cancelled" }
  /** The account is in that shard, and was not moved there. */
  | { readonly outcome: "same_shard" }
  | { readonly outcome: "one_shard" }
  /** There is no shard of this name. `known`: the names of the shards. */
  | { readonly outcome: "no_shard"; readonly known: readonly string[] }

interface Running {
  readonly to: string
  readonly result: Promise<MoveState>
  progress: MoveProgress
}

interface AccountLocation extends MoveRow {
  readonly shard: MoveShard
}

const WAIT_MS = 2_000

const AT_FIRST: MoveProgress = { step: "draining", held_nano: 0n }

/** The moves of accounts that run in this process (D76). */
export class Moves {
  readonly #shards: readonly MoveShard[]
  readonly #running = new Map<string, Running>()

  constructor(shards: readonly MoveShard[]) {
    this.#shards = shards
  }

  async isKnown(account_id: string): Promise<boolean> {
    return (await this.#find(account_id)).length > 0
  }

  /** Begins or continues a move, and waits a short time for it. Afterwards another call returns its progress. */
  async move(account_id: string, to: MoveShard): Promise<MoveState> {
    const running = this.#running.get(account_id) ?? this.#start(account_id, to)
    if (running.to !== to.name) return { outcome: "elsewhere", shard: running.to }
    return withDeadline(running.result, WAIT_MS, () => ({ outcome: "moving", ...running.progress }))
  }

  #start(account_id: string, to: MoveShard): Running {
    const running: Running = {
      to: to.name,
      result: this.#run(account_id, to, (progress) => {
        running.progress = progress
      }).finally(() => this.#running.delete(account_id)),
      progress: AT_FIRST,
    }
    // Nobody may be waiting when it fails. The next request gets the error.
    running.result.catch(() => {})
    this.#running.set(account_id, running)
    return running
  }

  async #run(
    account_id: string,
    to: MoveShard,
    onProgress: (progress: MoveProgress) => void,
  ): Promise<MoveState> {
    const found = await this.#find(account_id)
    for (const { shard, moved_to } of found) {
      const next = this.#shards.find(({ name }) => name === moved_to)
      if (next !== undefined) await carry(shard, next, account_id)
    }
    const here = found.find(({ moved_to }) => moved_to === null)
    const from = here ?? found.find((row) => isLeaving(row, found))
    if (from === undefined) return { outcome: "no_account" }
    if (from.shard.name !== to.name) return moveAccount(from.shard, to, account_id, { onProgress })
    if (from.moving_to !== null)
      return (await cancelMove(to, account_id)) ? { outcome: "cancelled" } : { outcome: "same_shard" }
    const before = found.find(
      ({ moved_to, moving_id }) => moved_to === to.name && moving_id === from.moving_id,
    )
    return before === undefined
      ? { outcome: "same_shard" }
      : moveAccount(before.shard, to, account_id, { onProgress })
  }

  async #find(account_id: string): Promise<readonly AccountLocation[]> {
    const rows = await Promise.all(
      this.#shards.map(async (shard) => ({ shard, row: await rowOf(shard, account_id) })),
    )
    return rows.flatMap(({ shard, row }) => (row === null ? [] : [{ ...row, shard }]))
  }
}

/** True if the account has left this shard and is not live on the next one yet. */
function isLeaving(
  { shard, moved_to, moving_id }: AccountLocation,
  found: readonly AccountLocation[],
): boolean {
  const next = found.find((row) => row.shard.name === moved_to)
  return next?.moving_id === moving_id && next.moved_to === shard.name
}
