import { endLostChanges } from "./accounts/operator-log.ts"
import { detachMonth } from "./archive/archive.ts"
import { addMonths } from "./archive/months.ts"
import { sealMonth } from "./archive/seals.ts"
import { unheldViolation, type Violation } from "./archive/violations.ts"
import { answerOf } from "./database/answer.ts"
import { watchAvailability } from "./database/availability.ts"
import type { DatabaseConnection } from "./database/connection.ts"
import type { Database } from "./database/database.ts"
import { errorCode } from "./database/database-errors.ts"
import { withDeadline } from "./database/deadline.ts"
import { type Checkpoint, LedgerUnavailable, NoAnswer, type PriceTerms, type ShardLedger } from "./entries.ts"
import type { LedgerEvents, LedgerLog } from "./events.ts"
import { alertLowBalances, forgetAlerts } from "./feed/alerts.ts"
import { SinkQueue } from "./feed/sinks.ts"
import { forgetMembers } from "./money/budgets.ts"
import { checkpointsOn, forgetCheckpoints } from "./money/checkpoints.ts"
import { countPrices } from "./money/customer-prices.ts"
import { grantSums, sweepGrants } from "./money/grants.ts"
import { forgetIdempotency, keptAnswers } from "./money/idempotency-claims.ts"
import { LastUsed } from "./money/last-used.ts"
import { type LeaseTimes, leaseOn } from "./money/lease.ts"
import { registerTerms } from "./money/terms.ts"
import { attemptQueue } from "./queue/attempts.ts"
import { inBackground } from "./queue/background.ts"
import { endQueue } from "./queue/ends.ts"
import { EstimateQueue } from "./queue/estimates.ts"
import { ANSWER_MS, holdQueue } from "./queue/holds.ts"
import { labelQueue } from "./queue/labels.ts"
import { Outstanding } from "./queue/outstanding.ts"
import { recovering, replaying } from "./queue/recovery.ts"
import { RefusalQueue } from "./queue/refusals.ts"
import { Spool } from "./queue/spool.ts"
import { Owners, standingQueue } from "./queue/standings.ts"
import { holdSweeper } from "./queue/sweep.ts"
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

/** One shard (D74), as this process uses it. */
export type DatabaseLedger = Awaited<ReturnType<typeof openDatabaseLedger>>

/** Takes a lease and begins to keep it; rejects with the driver's error when the database cannot be reached. */
export async function openDatabaseLedger({
  database,
  data_dir,
  lease: times,
  name = MAIN,
  open = true,
  shard = 0,
  owners = new Owners(),
  keep_months = null,
  log,
  events = {},
  checkpoints,
}: DatabaseLedgerOptions) {
  const { operators, upkeep } = database
  const availability = watchAvailability(log, events)
  const connections: DatabaseConnection[] = []
  const connect = () => {
    const connection = database.connection(availability.watch)
    connections.push(connection)
    return connection
  }
  const disconnect = () => Promise.all(connections.map((connection) => connection.end()))
  const outstanding = new Outstanding()
  const used = new LastUsed()
  const estimates = new EstimateQueue()
  const refusals = new RefusalQueue()
  const lease = leaseOn(connect(), times)
  const gatewayId = () => lease.gateway_id
  const spool = new Spool(data_dir, lease.gateway_id, log)
  const standings = standingQueue(connect(), used, shard, owners)
  const labels = labelQueue(connect(), () => events.labelsReplaced?.())
  const answers = keptAnswers(connect())
  // Holds and ends share a connection: on two they would wait for each other's commits.
  const of_calls = connect()
  const of_running = connect()
  const of_background = connect()
  const ends = endQueue(of_calls, of_background, gatewayId, outstanding, spool, events, log)
  const attempts = attemptQueue(of_running, spool, log)
  const holds = holdQueue(of_calls, lease, outstanding, ends, used)
  const sweeper = holdSweeper(connect(), lease, (count) => events.expired?.(count))
  const written = checkpointsOn(of_running, gatewayId, (id) => outstanding.has(id))
  let counts_due_ms = 0
  let stopping = false

  const terms = (wanted: readonly PriceTerms[]) => registerTerms(operators, wanted)
  const write = (counts: EstimateQueue | RefusalQueue) => counts.write(of_background, STOP_MS)

  async function sweepAllGrants(): Promise<void> {
    await sweepGrants(of_background)
    if (performance.now() < counts_due_ms) return
    // Before the statements, so that one that takes too long is not repeated at each renewal of the lease.
    counts_due_ms = performance.now() + UPKEEP_MS
    events.grants?.(name, await grantSums(of_background))
    events.prices?.(name, await countPrices(of_background))
  }

  async function sealMonths(): Promise<void> {
    for (;;) {
      const found = await sealMonth(upkeep, () => stopping)
      if (found === null || found.sealed === "busy") return
      const { month, sealed } = found
      if (sealed !== "sealed") {
        log.warn({ month, reason: sealed }, "a month of the journal cannot be sealed: see the audit")
        return
      }
      log.info({ month }, "a month of the journal was sealed")
    }
  }

  async function detachMonths(): Promise<void> {
    if (keep_months === null) return
    while (!stopping) {
      const month = await detachMonth(upkeep, () => database.connection(), keep_months)
      if (month === null) return
      log.info({ month }, "a month of the journal was detached")
    }
  }

  const recover = recovering({
    connection: of_background,
    ends,
    attempts,
    availability,
    log,
    rewriteCheckpoints: () => written.forgetWritten(),
    rewriteLabels: () => labels.writeAgain(of_background),
    forgetTerms: () => events.promoted?.(shard),
    expireUnknown: () => sweeper.expireUnknown(outstanding),
  })
  const background = inBackground(
    lease,
    outstanding,
    times,
    [
      { name: "recovery", run: recover },
      { name: "checkpoint", every_ms: CHECKPOINT_MS, run: () => written.write(checkpoints()) },
      { name: "last_used", run: () => used.write(of_background) },
      { name: "sweep", run: () => sweeper.run() },
      { name: "grants", run: sweepAllGrants },
      { name: "alerts", run: () => alertLowBalances(upkeep) },
      { name: "replay", run: replaying(spool, { ends, attempts, connection: connect(), log }) },
      { name: "forget", run: () => forgetIdempotency(of_background) },
      { name: "members", every_ms: SEAL_MS, run: () => forgetMembers(of_background) },
      { name: "months", every_ms: UPKEEP_MS, run: () => addMonths(upkeep) },
      { name: "sums", every_ms: UPKEEP_MS, run: () => sumHours(upkeep, () => stopping) },
      { name: "estimates", every_ms: UPKEEP_MS, run: () => write(estimates) },
      { name: "refusals", every_ms: UPKEEP_MS, run: () => write(refusals) },
      { name: "seals", every_ms: SEAL_MS, run: sealMonths },
      { name: "alerts kept", every_ms: SEAL_MS, run: () => forgetAlerts(upkeep) },
      { name: "lost changes", every_ms: SEAL_MS, run: () => endLostChanges(upkeep) },
      { name: "archive", every_ms: SEAL_MS, run: detachMonths },
    ],
    log,
  )

  /** Gives the lease back only if no call of this process is open, or can still become open; otherwise the lease lapses. */
  async function leave(): Promise<void> {
    if (!availability.answering) return
    await used.write(of_background)
    for (const counts of [estimates, refusals]) await write(counts).catch(() => {})
    if (outstanding.size > 0) return
    await of_background.run(forgetCheckpoints, [lease.gateway_id], STOP_MS)
    await lease.release()
  }

  const of_shard: ShardLedger = {
    labels: (labelled) => labels.of(labelled),
    hold: (hold) => holds.hold(hold),
    end: (end) => ends.end(end),
    spooled: (call_id) => ends.spooled(call_id),
    attempted: (attempt) => void attempts.write(attempt),
    recordEstimate: (sample) => estimates.add(sample),
    refused: (refusal) => refusals.add(refusal),
    keepAnswer: (call_id, body, keep_ms) => answers.keep({ call_id, body, keep_ms }),
    async customerTerms(wanted) {
      try {
        return await answerOf(terms(wanted), ANSWER_MS)
      } catch (error) {
        throw error instanceof NoAnswer ? new LedgerUnavailable(error.message) : error
      }
    },
    async keptAnswer(call_id) {
      try {
        return await answers.find(call_id)
      } catch (error) {
        throw new LedgerUnavailable(errorCode(error))
      }
    },
  }
  const operated: OperatedDatabase = {
    name,
    open,
    database: operators,
    names: database.receipts,
    unheld: () => ends.unheld().map(unheldViolation),
    onForgotten: (id) => labels.forget(id),
    onAudit: ({ violations }) => sweeper.add(abandonedIn(violations)),
  }

  try {
    await addMonths(upkeep)
    await lease.acquire(outstanding.floor)
  } catch (error) {
    await disconnect()
    throw error
  }
  background.start()
  return {
    ...of_shard,
    operated,
    terms,
    sinks: new SinkQueue(name, operators, gatewayId),
    standing: (key_hash: string) => standings.read(key_hash),
    get gateway_id() {
      return lease.gateway_id
    },
    /** True if new calls can be held: the database answers, and the lease of this process has not lapsed. */
    writable: () => availability.answering && background.ageMs() < times.expire_ms,
    depths: () => ({ hold: holds.depth, end: ends.depth, standing: standings.depth, spool: spool.depth }),
    async stop(): Promise<void> {
      stopping = true
      const tasks = background.stop()
      const writes = [tasks, ends.drained(), attempts.drained(), holds.closed()]
      await withDeadline(Promise.allSettled(writes), STOP_MS, () => {})
      holds.stop()
      await leave().catch((error: unknown) => {
        log.warn({ code: errorCode(error) }, "the lease was not released: it will expire")
      })
      for (const queue of [ends, attempts, standings, labels, answers, sweeper]) queue.stop()
      await disconnect()
      await Promise.all([tasks, ends.drained(), attempts.drained()])
      await spool.settled()
    },
  }
}

/** Open holds that no gateway can end. The next sweep expires them (D73). */
function abandonedIn(violations: readonly Violation[]) {
  return violations.flatMap(({ kind, id, account_id }) =>
    kind === "abandoned" && id !== null ? [{ id, account_id }] : [],
  )
}
