import { sql } from "drizzle-orm"
import type { Availability } from "../database/availability.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import { isAnswer } from "../database/database-errors.ts"
import { statement, textOf } from "../database/statement.ts"
import type { LedgerLog } from "../events.ts"
import { findForgotten } from "../money/restore.ts"
import { g } from "../schema/aliases.ts"
import { gateways } from "../schema/tables.ts"
import type { AttemptQueue } from "./attempts.ts"
import type { EndQueue } from "./ends.ts"
import type { Spool, SpoolFile } from "./spool.ts"
import type { WriteOutcome } from "./spooled-writes.ts"

const STATEMENT_MS = 2_000

/** The first digits of a WAL file's name are the timeline. Every promotion begins a new one. */
const readTimeline = statement(
  "restore",
  sql`SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline`,
)

interface RecoveryParts {
  readonly connection: DatabaseConnection
  readonly ends: EndQueue
  readonly attempts: AttemptQueue
  readonly availability: Availability
  readonly log: LedgerLog
  rewriteCheckpoints(): void
  /** Writes the known labels of calls again (D94). */
  rewriteLabels(): Promise<void>
  /** Forgets the ids of terms of customer prices (D100): another row may get the id of one that was lost. */
  forgetTerms(): void
  /** Expires the open holds of this process that it does not know of. */
  expireUnknown(): Promise<void>
}

/**
 * A check whether the database has lost acknowledged settlements, which writes them and attempts again (D73). To be run after each
 * renewal of the lease; a failure is retried after the next one.
 */
export function recovering(parts: RecoveryParts): () => Promise<void> {
  const { connection, ends, attempts, availability, log } = parts
  let known_outages = 0
  /** Null before the first reading, and if the server does not report it. */
  let known_timeline: string | null = null
  let tells_timeline = true

  async function writeAgain(): Promise<void> {
    const recent = ends.recent()
    const lost = await findForgotten(
      connection,
      recent.map(({ end }) => end.id),
    )
    if (lost.size === 0) return
    log.warn({ ends: lost.size }, "the database has lost acknowledged settlements: writing them again")
    for (const spooled of recent) if (lost.has(spooled.end.id)) ends.retry(spooled)
  }

  async function timelineNow(): Promise<string | null> {
    if (!tells_timeline) return null
    try {
      const [row] = await connection.run(readTimeline, [], STATEMENT_MS)
      return row === undefined ? null : textOf(row, "timeline")
    } catch (error) {
      if (!isAnswer(error)) throw error
      tells_timeline = false
      return null
    }
  }

  return async () => {
    const { outages } = availability
    const timeline = await timelineNow()
    const is_promoted = known_timeline !== null && timeline !== known_timeline
    const has_lost = is_promoted || outages !== known_outages
    if (is_promoted) {
      parts.forgetTerms()
      await parts.rewriteLabels()
    }
    if (has_lost) await writeAgain()
    attempts.writeAgain(has_lost)
    if (is_promoted) {
      parts.rewriteCheckpoints()
      await parts.expireUnknown()
    }
    known_outages = outages
    known_timeline = timeline
    ends.forgetEarlier()
  }
}

const REPLAY_MS = 5_000

const isDead = statement(
  "sweep",
  sql`SELECT ${g.id} FROM ${gateways} ${g} WHERE ${g.id} = $1::uuid AND ${g.dead_at} IS NOT NULL`,
)

/** Writes what other processes of this directory spooled (D27). A file stays while a line of a dead one is not applied. */
export function replaying(
  spool: Spool,
  { ends, attempts, connection, log }: Pick<RecoveryParts, "ends" | "attempts" | "connection" | "log">,
): () => Promise<void> {
  /** The content of each file when it was replayed; `whole` if all of it is in the ledger. */
  const replayed = new Map<string, { readonly digest: string; readonly whole: boolean }>()

  async function replay({ path, digest, unreadable, ...lines }: SpoolFile): Promise<boolean> {
    const before = replayed.get(path)
    if (before?.digest === digest) return before.whole
    if (unreadable > 0) {
      log.error(
        { path, lines: unreadable },
        "the spool has lines that this version cannot read: the file is kept",
      )
    }
    // Ends first, because they write lost holds again.
    const ended = await Promise.all(lines.ends.map((spooled) => ends.resubmit(spooled)))
    const attempted = await Promise.all(lines.attempts.map((attempt) => attempts.write(attempt, "spool")))
    const count = (results: readonly WriteOutcome[], word: WriteOutcome) =>
      results.filter((result) => result === word).length
    const applied = count(ended, "applied")
    if (applied > 0) log.info({ path, ends: applied }, "wrote the spooled settlements of another process")
    const foreign = count(ended, "none")
    if (foreign > 0) {
      log.error({ path, ends: foreign }, "the spool has settlements without a hold: the file is kept")
    }
    const orphaned = count(attempted, "none")
    if (orphaned > 0)
      log.error({ path, attempts: orphaned }, "the spool has attempts without a hold: the file is kept")
    const all = [...ended, ...attempted]
    if (count(all, "unwritten") > 0) return false
    const whole = unreadable === 0 && foreign === 0 && orphaned === 0 && count(all, "refused") === 0
    replayed.set(path, { digest, whole })
    return whole
  }

  return async () => {
    for (const file of await spool.others()) {
      if (!(await replay(file))) continue
      const dead = await connection.run(isDead, [file.gateway_id], REPLAY_MS)
      if (dead.length > 0) await spool.remove(file)
    }
  }
}
