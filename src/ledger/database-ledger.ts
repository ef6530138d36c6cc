import { endLostChanges } from "./accounts/operator-log.ts"
import { detachMonth } from "./archive/archive.ts"
import { addMonths } from "./archive/months.ts"
import { sealMonth } from "./archive/seals.ts"
import { unheldViolation, type Violation } from "./archive/violations.ts"
import { answerOf } from "./database/answer.ts"
import { Availability } from "./database/availability.ts"
import type { DatabaseConnection } from "./database/connection.ts"
import type { Database } from "./database/database.ts"
import { errorCode } from "./database/database-errors.ts"
import { withDeadline } from "./database/deadline.ts"
import {
  type AttemptEntry,
  type Checkpoint,
  type End,
  type EstimateSample,
  type Hold,
  type Labelled,
  LedgerUnavailable,
  NoAnswer,
  type PriceTerms,
  type RefusedCall,
  type ShardLedger,
} from "./entries.ts"
import type { LedgerEvents, LedgerLog } from "./events.ts"
import { alertLowBalances, forgetAlerts } from "./feed/alerts.ts"
import { SinkQueue } from "./feed/sinks.ts"
import { forgetMembers } from "./money/budgets.ts"
import { Checkpoints, forgetCheckpoints } from "./money/checkpoints.ts"
import { countPrices } from "./money/customer-prices.ts"
import { grantSums, sweepGrants } from "./money/grants.ts"
import { forgetIdempotency, KeptAnswers } from "./money/idempotency-claims.ts"
import { LastUsed } from "./money/last-used.ts"
import { Lease, type LeaseTimes } from "./money/lease.ts"
import { registerTerms } from "./money/terms.ts"
import { AttemptQueue } from "./queue/attempts.ts"
import { inBackground, type Task } from "./queue/background.ts"
import { EndQueue } from "./queue/ends.ts"
import { EstimateQueue } from "./queue/estimates.ts"
import { ANSWER_MS, HoldQueue } from "./queue/holds.ts"
import { LabelQueue } from "./queue/labels.ts"
import { Outstanding } from "./queue/outstanding.ts"
import { recovering, replaying } from "./queue/recovery.ts"
import { RefusalQueue } from "./queue/refusals.ts"
import { Spool } from "./queue/spool.ts"
import { Owners, Standings } from "./queue/standings.ts"
import { Sweeper } from "./queue/sweep.ts"
import { sumHours } from "./reports/sum-hours.ts"
import type { OperatedDatabase } from "./shard-questions.ts"
import { MAIN } from "./shards.ts"

/** A call's first output is in a checkpoint within a second (D57). */
const CHECKPOINT_MS = 900
const UPKEEP_MS = 60_000
/** Interval of the search for months that have ended, and for old counters of members. */
const SEAL_MS = 3_600_000
/** Longest wait of `stop` for writes; the rest is in the spool. */
const STOP_MS = 1_000

export interface DatabaseLedgerOptions {
  readonly database: Database
  readonly data_dir: string
  readonly lease: LeaseTimes
  /** Name of the shard (D74); `open` if accounts are created in it. */
  readonly name?: string
  readonly open?: boolean
  /** The index of this shard among all; absent for the first. */
  readonly shard?: number
  /** Owners of keys, shared by all shards. */
  readonly owners?: Owners
  /** Months for which a past month stays in the journal (D75); absent or null: for ever. */
  readonly keep_months?: number | null
  readonly log: LedgerLog
  readonly events?: LedgerEvents
  /** Charges of the running calls if this process died now (D57). */
  checkpoints(): readonly Checkpoint[]
}

/** One shard (D74). Holds and ends share a connection: on two they would wait for each other's commits. */
export class DatabaseLedger implements ShardLedger {
  readonly operated: OperatedDatabase
  readonly sinks: SinkQueue
  readonly #options: DatabaseLedgerOptions
  readonly #connections: DatabaseConnection[] = []
  readonly #availability: Availability
  readonly #outstanding = new Outstanding()
  readonly #used = new LastUsed()
  readonly #estimates = new EstimateQueue()
  readonly #refusals = new RefusalQueue()
  readonly #lease: Lease
  readonly #spool: Spool
  readonly #standings: Standings
  readonly #labels: LabelQueue
  readonly #answers: KeptAnswers
  readonly #ends: EndQueue
  readonly #running_connection: DatabaseConnection
  readonly #attempts: AttemptQueue
  readonly #holds: HoldQueue
  readonly #sweeper: Sweeper
  readonly #background_connection: DatabaseConnection
  readonly #background: ReturnType<typeof inBackground>
  #counts_due_ms = 0
  #stopping = false

  private constructor(options: DatabaseLedgerOptions) {
    const { data_dir, lease, log, events = {}, shard = 0, owners = new Owners() } = options
    this.#options = options
    this.#availability = new Availability(log, events)
    this.#lease = new Lease(this.#connect(), lease)
    this.#spool = new Spool(data_dir, this.#lease.gateway_id, log)
    this.#standings = new Standings(this.#connect(), this.#used, shard, owners)
    this.#labels = new LabelQueue(this.#connect(), () => events.labelsReplaced?.())
    this.#answers = new KeptAnswers(this.#connect())
    const calls = this.#connect()
    this.#background_connection = this.#connect()
    const gatewayId = () => this.#lease.gateway_id
    this.#ends = new EndQueue(
      calls,
      this.#background_connection,
      gatewayId,
      this.#outstanding,
      this.#spool,
      events,
      log,
    )
    this.#running_connection = this.#connect()
    this.#attempts = new AttemptQueue(this.#running_connection, this.#spool, log)
    this.#holds = new HoldQueue(calls, this.#lease, this.#outstanding, this.#ends, this.#used)
    this.#sweeper = new Sweeper(this.#connect(), this.#lease, (count) => events.expired?.(count))
    const { database, name = MAIN, open = true } = options
    this.sinks = new SinkQueue(name, database.operators, gatewayId)
    this.operated = {
      name,
      open,
      database: database.operators,
      names: database.receipts,
      unheld: () => this.#ends.unheld.map(unheldViolation),
      onForgotten: (id) => this.#labels.forget(id),
      onAudit: ({ violations }) => this.#sweeper.add(abandonedIn(violations)),
    }
    this.#background = inBackground(this.#lease, this.#outstanding, lease, this.#tasks(), log)
  }

  /** Takes a lease and begins to keep it; rejects with the driver's error when the database cannot be reached. */
  static async open(options: DatabaseLedgerOptions): Promise<DatabaseLedger> {
    const ledger = new DatabaseLedger(options)
    try {
      await addMonths(options.database.upkeep)
      await ledger.#lease.acquire(ledger.#outstanding.floor)
    } catch (error) {
      await ledger.#disconnect()
      throw error
    }
    ledger.#background.start()
    return ledger
  }

  get gateway_id(): string {
    return this.#lease.gateway_id
  }

  readonly terms = (wanted: readonly PriceTerms[]) => registerTerms(this.#options.database.operators, wanted)
  readonly standing = (key_hash: string) => this.#standings.read(key_hash)
  readonly labels = (labelled: Labelled) => this.#labels.of(labelled)
  readonly hold = (hold: Hold) => this.#holds.hold(hold)
  readonly end = (end: End) => this.#ends.end(end)
  readonly spooled = (call_id: string) => this.#ends.spooled(call_id)
  readonly attempted = (attempt: AttemptEntry) => void this.#attempts.write(attempt)
  readonly recordEstimate = (sample: EstimateSample) => this.#estimates.add(sample)
  readonly refused = (refusal: RefusedCall) => this.#refusals.add(refusal)
  readonly keepAnswer = (call_id: string, body: string, keep_ms: number) =>
    this.#answers.keep({ call_id, body, keep_ms })

  async customerTerms(wanted: readonly PriceTerms[]): Promise<readonly number[]> {
    try {
      return await answerOf(this.terms(wanted), ANSWER_MS)
    } catch (error) {
      throw error instanceof NoAnswer ? new LedgerUnavailable(error.message) : error
    }
  }

  async keptAnswer(call_id: string): Promise<string | null> {
    try {
      return await this.#answers.find(call_id)
    } catch (error) {
      throw new LedgerUnavailable(errorCode(error))
    }
  }

  /** True if new calls can be held: the database answers, and the lease of this process has not lapsed. */
  writable(): boolean {
    return this.#availability.answering && this.#background.ageMs() < this.#options.lease.expire_ms
  }

  depths() {
    return {
      hold: this.#holds.depth,
      end: this.#ends.depth,
      standing: this.#standings.depth,
      spool: this.#spool.depth,
    }
  }

  /** Gives the lease back only if no call of this process is open, or can still become open; otherwise the lease lapses. */
  async stop(): Promise<void> {
    this.#stopping = true
    const tasks = this.#background.stop()
    const writes = [tasks, this.#ends.drained(), this.#attempts.drained(), this.#holds.closed()]
    await withDeadline(Promise.allSettled(writes), STOP_MS, () => {})
    this.#holds.stop()
    await this.#leave().catch((error: unknown) => {
      this.#options.log.warn({ code: errorCode(error) }, "the lease was not released: it will expire")
    })
    const queues = [this.#ends, this.#attempts, this.#standings, this.#labels, this.#answers, this.#sweeper]
    for (const queue of queues) queue.stop()
    await this.#disconnect()
    await Promise.all([tasks, this.#ends.drained(), this.#attempts.drained()])
    await this.#spool.settled()
  }

  async #leave(): Promise<void> {
    if (!this.#availability.answering) return
    await this.#used.write(this.#background_connection)
    for (const counts of [this.#estimates, this.#refusals]) await this.#write(counts).catch(() => {})
    if (this.#outstanding.size > 0) return
    await this.#background_connection.run(forgetCheckpoints, [this.#lease.gateway_id], STOP_MS)
    await this.#lease.release()
  }

  #tasks(): Task[] {
    const { log, checkpoints, events = {}, shard = 0, database } = this.#options
    const { upkeep } = database
    const replay = replaying({
      spool: this.#spool,
      ends: this.#ends,
      attempts: this.#attempts,
      connection: this.#connect(),
      log,
    })
    const written = new Checkpoints(this.#running_connection, () => this.#lease.gateway_id)
    const recover = recovering({
      connection: this.#background_connection,
      ends: this.#ends,
      attempts: this.#attempts,
      availability: this.#availability,
      log,
      rewriteCheckpoints: () => written.forgetWritten(),
      rewriteLabels: () => this.#labels.writeAgain(this.#background_connection),
      forgetTerms: () => events.promoted?.(shard),
      expireUnknown: () => this.#sweeper.expireUnknown(this.#outstanding),
    })
    return [
      { name: "recovery", run: recover },
      { name: "checkpoint", every_ms: CHECKPOINT_MS, run: () => written.write(checkpoints()) },
      { name: "last_used", run: () => this.#used.write(this.#background_connection) },
      { name: "sweep", run: () => this.#sweeper.run() },
      { name: "grants", run: () => this.#sweepGrants() },
      { name: "alerts", run: () => alertLowBalances(upkeep) },
      { name: "replay", run: replay },
      { name: "forget", run: () => forgetIdempotency(this.#background_connection) },
      { name: "members", every_ms: SEAL_MS, run: () => forgetMembers(this.#background_connection) },
      { name: "months", every_ms: UPKEEP_MS, run: () => addMonths(upkeep) },
      { name: "sums", every_ms: UPKEEP_MS, run: () => sumHours(upkeep, () => this.#stopping) },
      { name: "estimates", every_ms: UPKEEP_MS, run: () => this.#write(this.#estimates) },
      { name: "refusals", every_ms: UPKEEP_MS, run: () => this.#write(this.#refusals) },
      { name: "seals", every_ms: SEAL_MS, run: () => this.#sealMonths() },
      { name: "alerts kept", every_ms: SEAL_MS, run: () => forgetAlerts(upkeep) },
      { name: "lost changes", every_ms: SEAL_MS, run: () => endLostChanges(upkeep) },
      { name: "archive", every_ms: SEAL_MS, run: () => this.#detachMonths() },
    ]
  }

  async #sweepGrants(): Promise<void> {
    const { events = {}, name = MAIN } = this.#options
    await sweepGrants(this.#background_connection)
    if (performance.now() < this.#counts_due_ms) return
    // Before the statements, so that one that takes too long is not repeated at each renewal of the lease.
    this.#counts_due_ms = performance.now() + UPKEEP_MS
    events.grants?.(name, await grantSums(this.#background_connection))
    events.prices?.(name, await countPrices(this.#background_connection))
  }

  #write(counts: EstimateQueue | RefusalQueue): Promise<void> {
    return counts.write(this.#background_connection, STOP_MS)
  }

  async #sealMonths(): Promise<void> {
    const { database, log } = this.#options
    for (;;) {
      const found = await sealMonth(database.upkeep, () => this.#stopping)
      if (found === null || found.sealed === "busy") return
      const { month, sealed } = found
      if (sealed !== "sealed") {
        log.warn({ month, reason: sealed }, "a month of the journal cannot be sealed: see the audit")
        return
      }
      log.info({ month }, "a month of the journal was sealed")
    }
  }

  async #detachMonths(): Promise<void> {
    const { database, keep_months = null, log } = this.#options
    if (keep_months === null) return
    while (!this.#stopping) {
      const month = await detachMonth(database.upkeep, () => database.connection(), keep_months)
      if (month === null) return
      log.info({ month }, "a month of the journal was detached")
    }
  }

  #connect(): DatabaseConnection {
    const connection = this.#options.database.connection(this.#availability.watch)
    this.#connections.push(connection)
    return connection
  }

  async #disconnect(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.end()))
  }
}

/** Open holds that no gateway can end. The next sweep expires them (D73). */
function abandonedIn(violations: readonly Violation[]) {
  return violations.flatMap(({ kind, id, account_id }) =>
    kind === "abandoned" && id !== null ? [{ id, account_id }] : [],
  )
}
