import { GatewayError } from "../errors.ts"
import type { Connections } from "./connections.ts"
import { Withdrawn } from "./entry.ts"
import { Lanes } from "./lanes.ts"
import type { LastUsed } from "./last-used.ts"
import { ANSWER_MS, LANE_LIMIT } from "./limits.ts"
import type { Owner, Standing } from "./reservation.ts"
import { readStandings } from "./standing.ts"
import { codeOf } from "./trouble.ts"

/** How many keys' owners are kept; the oldest make room. */
const OWNERS_LIMIT = 50_000

/** Whose keys they are, and what they may do now. */
export class Standings {
  readonly #lanes: Lanes<string, Standing | null>
  readonly #used: LastUsed
  /** A hash that is unknown today may be a key tomorrow, so it is not kept. */
  readonly #owners = new Map<string, Owner>()

  constructor(connections: Connections, used: LastUsed) {
    this.#lanes = new Lanes(connections.several(1), { accountOf: () => "", run: readStandings }, LANE_LIMIT)
    this.#used = used
  }

  get depth(): number {
    return this.#lanes.depth
  }

  /** Read from the books, in a batch with the others that wait. */
  async read(key_hash: string): Promise<Standing | null> {
    const standing = await this.#ask(key_hash)
    if (standing?.active) this.#used.note(standing.key_id)
    return standing
  }

  /** What never changes, so that it may be remembered (D26). */
  async owner(key_hash: string): Promise<Owner | null> {
    const known = this.#owners.get(key_hash)
    if (known !== undefined) return known
    const standing = await this.#ask(key_hash)
    if (standing === null) return null
    const owner = { account_id: standing.account_id, key_id: standing.key_id }
    for (const oldest of this.#owners.keys()) {
      if (this.#owners.size < OWNERS_LIMIT) break
      this.#owners.delete(oldest)
    }
    this.#owners.set(key_hash, owner)
    return owner
  }

  stop(): void {
    this.#lanes.stop()
  }

  async #ask(key_hash: string): Promise<Standing | null> {
    try {
      return await this.#lanes.of("").ask(key_hash, ANSWER_MS)
    } catch (error) {
      if (error instanceof Withdrawn)
        throw new GatewayError("ledger_unavailable", { cause: codeOf(error.cause) })
      throw error
    }
  }
}
