import { GatewayError } from "../errors.ts"
import { Answers, forgetIdempotency } from "./answers.ts"
import { writeCheckpoints } from "./checkpoint.ts"
import { Closings } from "./closings.ts"
import type { Connection } from "./connection.ts"
import { Connections } from "./connections.ts"
import type { Database } from "./database.ts"
import type { LedgerEvents } from "./events.ts"
import { Holds } from "./holds.ts"
import { type Chore, Keeper } from "./keeper.ts"
import { LastUsed } from "./last-used.ts"
import { Lease, type LeaseTimes } from "./lease.ts"
import type { Log } from "./log.ts"
import { Outstanding } from "./outstanding.ts"
import { Pulse } from "./pulse.ts"
import { Replay } from "./replay.ts"
import type { Books, Checkpoint, Closing, Hold, HoldResult, Owner, Standing } from "./reservation.ts"
import { Spool } from "./spool.ts"
import { Standings } from "./standings.ts"
import { Sweeper } from "./sweep.ts"
import { codeOf } from "./trouble.ts"

/** How long `stop` waits for what is being written; the rest is in the spool. */
const STOP_MS = 1_000

export interface LedgerOptions {
  readonly database: Database
  /** Where the spool is (D27). */
  readonly data_dir: string
  readonly lease: LeaseTimes
  readonly log: Log
  readonly events?: LedgerEvents
  /** What the calls that have outlived a renewal would be charged if this process died now (D13). */
  checkpoints(): readonly Checkpoint[]
}

/** The books of one process. */
export class Ledger implements Books {
  readonly #options: LedgerOptions
  readonly #connections: Connections
  readonly #pulse: Pulse
  readonly #outstanding = new Outstanding()
  readonly #used = new LastUsed()
  readonly #lease: Lease
  readonly #spool: Spool
  readonly #standings: Standings
  readonly #answers: Answers
  readonly #closings: Closings
  readonly #holds: Holds
  readonly #sweeper: Sweeper
  readonly #keeping: Connection
  readonly #keeper: Keeper

  private constructor(options: LedgerOptions) {
    const { database, data_dir, lease, log, events = {} } = options
    this.#options = options
    this.#pulse = new Pulse(log, events)
    this.#connections = new Connections(database, this.#pulse.watch)
    this.#lease = new Lease(this.#connections.one(), lease)
    this.#spool = new Spool(data_dir, this.#lease.gateway_id, log)
    this.#standings = new Standings(this.#connections, this.#used)
    this.#answers = new Answers(this.#connections)
    this.#closings = new Closings(this.#connections, this.#outstanding, this.#spool, events, log)
    this.#holds = new Holds(this.#connections, this.#lease, this.#outstanding, this.#closings, this.#used)
    this.#sweeper = new Sweeper(this.#connections, this.#lease, (count) => events.expired?.(count))
    this.#keeping = this.#connections.one()
    this.#keeper = new Keeper(this.#lease, this.#outstanding, lease, this.#chores(), log)
  }

  /** Takes a lease and begins to keep it; rejects with the driver's error when the books cannot be reached. */
  static async open(options: LedgerOptions): Promise<Ledger> {
    const ledger = new Ledger(options)
    try {
      await ledger.#lease.take(ledger.#outstanding.floor)
    } catch (error) {
      await ledger.#connections.end()
      throw error
    }
    ledger.#keeper.start()
    return ledger
  }

  standing(key_hash: string): Promise<Standing | null> {
    return this.#standings.read(key_hash)
  }

  owner(key_hash: string): Promise<Owner | null> {
    return this.#standings.owner(key_hash)
  }

  reserve(hold: Hold): Promise<HoldResult> {
    return this.#holds.reserve(hold)
  }

  close(closing: Closing): Promise<void> {
    return this.#closings.close(closing)
  }

  keepAnswer(call_id: string, body: string, keep_ms: number): Promise<void> {
    return this.#answers.keep({ call_id, body, keep_ms })
  }

  async keptAnswer(call_id: string): Promise<string | null> {
    try {
      return await this.#answers.find(call_id)
    } catch (error) {
      throw new GatewayError("ledger_unavailable", { cause: codeOf(error) })
    }
  }

  /** Whether new calls can be held: the books answer, and the lease of this process has not lapsed. */
  writable(): boolean {
    return this.#pulse.answering && this.#keeper.age_ms < this.#options.lease.expire_ms
  }

  /** What waits for a statement, by its kind; and the closings in the spool. */
  depths(): Readonly<Record<"reserve" | "close" | "standing" | "spool", number>> {
    return {
      reserve: this.#holds.depth,
      close: this.#closings.depth,
      standing: this.#standings.depth,
      spool: this.#spool.depth,
    }
  }

  /**
   * Writes what there is to write, and leaves no timer and no socket. What the books do not take within a second is in
   * the spool. The lease is given back only when nothing of this process is open, nor can come to be; otherwise it
   * lapses, and a sweeper comes.
   */
  async stop(): Promise<void> {
    const chores = this.#keeper.stop()
    await atMost(STOP_MS, [chores, ...this.#closings.writing, ...this.#holds.burials])
    this.#holds.stop()
    await this.#leave().catch((error: unknown) => {
      this.#options.log.warn({ code: codeOf(error) }, "the lease was not given back; it lapses")
    })
    const unwritten = this.#closings.writing
    for (const lanes of [this.#closings, this.#standings, this.#answers, this.#sweeper]) lanes.stop()
    await this.#connections.end()
    await Promise.all([chores, ...unwritten])
    await this.#spool.settled()
  }

  async #leave(): Promise<void> {
    if (!this.#pulse.answering) return
    await this.#used.write(this.#keeping)
    if (this.#outstanding.size === 0) await this.#lease.giveBack()
  }

  #chores(): Chore[] {
    const { log } = this.#options
    const replay = new Replay(this.#spool, this.#closings, this.#connections.one(), log)
    return [
      { name: "checkpoint", run: () => writeCheckpoints(this.#keeping, this.#options.checkpoints()) },
      { name: "last_used", run: () => this.#used.write(this.#keeping) },
      { name: "sweep", run: () => this.#sweeper.run() },
      { name: "replay", run: () => replay.run() },
      { name: "forget", run: () => forgetIdempotency(this.#keeping) },
    ]
  }
}

/** Waits for all of `work`, but not longer than `wait_ms`. */
async function atMost(wait_ms: number, work: readonly Promise<unknown>[]): Promise<void> {
  const overdue = Promise.withResolvers<void>()
  const timer = setTimeout(overdue.resolve, wait_ms)
  await Promise.race([Promise.allSettled(work), overdue.promise])
  clearTimeout(timer)
}
