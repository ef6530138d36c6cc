import { GatewayError } from "../errors.ts"
import { type Closed, closeBatch } from "./close.ts"
import type { Connection } from "./connection.ts"
import type { Database } from "./database.ts"
import { type Entry, Lane, Withdrawn, type Work } from "./lane.ts"
import { Lease, type LeaseTimes } from "./lease.ts"
import { Outstanding } from "./outstanding.ts"
import type { Books, Closing, Hold, HoldResult, Standing } from "./reservation.ts"
import { type Reserved, reserveBatch } from "./reserve.ts"
import { readStandings } from "./standing.ts"

/** How long a call waits for the books (D27). */
const ANSWER_MS = 2_000
/** Lanes of each kind: accounts are spread over them, so that they do not wait for one another. */
const LANES = 4
/** How many calls may wait on one lane. */
const LANE_LIMIT = 4_096
/** How many keys' owners are kept: they never change. */
const OWNERS_LIMIT = 50_000

export interface LedgerOptions {
  readonly database: Database
  readonly lease: LeaseTimes
}

/** The books of one process. */
export class Ledger implements Books {
  readonly #lease: Lease
  readonly #outstanding: Outstanding
  readonly #reserves: readonly Lane<Hold, Reserved>[]
  readonly #closes: readonly Lane<Closing, Closed>[]
  readonly #standings: Lane<string, Standing | null>
  readonly #connections: Connection[] = []
  readonly #owners = new Map<string, { account_id: string; key_id: string }>()
  readonly #database: Database
  readonly #renewal: ReturnType<typeof setInterval>

  private constructor(options: LedgerOptions, lease: Lease, outstanding: Outstanding) {
    this.#database = options.database
    this.#lease = lease
    this.#outstanding = outstanding
    this.#reserves = this.#lanes(LANES, LANE_LIMIT, {
      accountOf: (hold) => hold.account_id,
      run: (connection, holds, patience_ms) => reserveBatch(connection, lease.gateway_id, holds, patience_ms),
    })
    this.#closes = this.#lanes(LANES, Number.POSITIVE_INFINITY, {
      accountOf: (closing) => outstanding.accountOf(closing.id) ?? "",
      run: closeBatch,
    })
    this.#standings = this.#lane(LANE_LIMIT, { accountOf: () => "", run: readStandings })
    this.#renewal = setInterval(() => {
      lease.renew(outstanding.raise()).catch(() => {})
    }, options.lease.renew_ms)
  }

  static async open(options: LedgerOptions): Promise<Ledger> {
    const outstanding = new Outstanding()
    const connection = options.database.connection()
    const lease = new Lease(connection, options.lease)
    await lease.take(outstanding.floor)
    const ledger = new Ledger(options, lease, outstanding)
    ledger.#connections.push(connection)
    return ledger
  }

  async standing(key_hash: string): Promise<Standing | null> {
    return this.#answer(this.#standings, this.#standings.enter(key_hash))
  }

  async owner(key_hash: string): Promise<{ account_id: string; key_id: string } | null> {
    const known = this.#owners.get(key_hash)
    if (known !== undefined) return known
    const standing = await this.standing(key_hash)
    if (standing === null) return null
    const owner = { account_id: standing.account_id, key_id: standing.key_id }
    for (const oldest of this.#owners.keys()) {
      if (this.#owners.size < OWNERS_LIMIT) break
      this.#owners.delete(oldest)
    }
    this.#owners.set(key_hash, owner)
    return owner
  }

  async reserve(hold: Hold): Promise<HoldResult> {
    const lane = laneOf(this.#reserves, hold.account_id)
    this.#outstanding.add(hold.id, hold.account_id)
    const result = await this.#answer(lane, lane.enter(hold))
    if (result.outcome === "held") return { outcome: "held" }
    this.#outstanding.delete(hold.id)
    switch (result.outcome) {
      case "insufficient_balance":
        return result
      case "invalid_api_key":
      case "model_not_allowed":
        return { outcome: result.outcome }
      default:
        throw new GatewayError("ledger_unavailable")
    }
  }

  async close(closing: Closing): Promise<void> {
    await laneOf(this.#closes, this.#outstanding.accountOf(closing.id) ?? "").enter(closing).outcome
    this.#outstanding.delete(closing.id)
  }

  writable(): boolean {
    return true
  }

  async stop(): Promise<void> {
    clearInterval(this.#renewal)
    await this.#lease.giveBack()
    for (const lane of [...this.#reserves, ...this.#closes, this.#standings]) lane.stop()
    await Promise.all(this.#connections.map((connection) => connection.end()))
  }

  async #answer<Item, Result>(lane: Lane<Item, Result>, entry: Entry<Item, Result>): Promise<Result> {
    const timer = setTimeout(() => lane.withdraw(entry), ANSWER_MS)
    try {
      return await entry.outcome
    } catch (error) {
      throw error instanceof Withdrawn ? new GatewayError("ledger_unavailable", { cause: error }) : error
    } finally {
      clearTimeout(timer)
    }
  }

  #lanes<Item, Result>(
    count: number,
    limit: number,
    work: ConnectedWork<Item, Result>,
  ): Lane<Item, Result>[] {
    return Array.from({ length: count }, () => this.#lane(limit, work))
  }

  #lane<Item, Result>(limit: number, work: ConnectedWork<Item, Result>): Lane<Item, Result> {
    const connection = this.#database.connection()
    this.#connections.push(connection)
    const run: Work<Item, Result>["run"] = (items, patience_ms) => work.run(connection, items, patience_ms)
    return new Lane({ accountOf: work.accountOf, run }, limit)
  }
}

/** A lane's work before the lane has its connection. */
interface ConnectedWork<Item, Result> {
  accountOf(item: Item): string
  run(connection: Connection, items: readonly Item[], patience_ms: number): Promise<readonly Result[]>
}

/** An account's lane is always the same: the last hexadecimal digits of a UUIDv7 are random. */
function laneOf<Item, Result>(lanes: readonly Lane<Item, Result>[], account_id: string): Lane<Item, Result> {
  const lane = lanes[(Number.parseInt(account_id.slice(-4), 16) || 0) % lanes.length]
  if (lane === undefined) throw new Error("there is no lane")
  return lane
}
