import { nextId } from "../../id.ts"
import type { Hold } from "../entries.ts"

/** Maximum age of a call's id when the call is held. A slow body takes far less. */
const ID_AGE_MS = 600_000

/** The holds of this process that may be open in the ledger, by their ids, and the floor below which none is (D35). */
export class Outstanding extends Map<string, Hold> {
  #marks: { readonly id: string; readonly made_at: number }[] = []
  /** At or below every id that is open or can still become open. A sweeper starts there. */
  floor = nextId()

  add(hold: Hold): void {
    this.set(hold.id, hold)
  }

  /** Raises the floor for sweepers, because ids only increase and no call with an old id can still be held. */
  raise(now_ms = performance.now()): string {
    this.#marks.push({ id: nextId(), made_at: now_ms })
    const old = this.#marks.findLastIndex(({ made_at }) => made_at <= now_ms - ID_AGE_MS)
    if (old === -1) return this.floor
    let floor = this.#marks[old]?.id ?? this.floor
    this.#marks = this.#marks.slice(old)
    for (const id of this.keys()) if (id < floor) floor = id
    this.floor = floor
    return floor
  }
}
