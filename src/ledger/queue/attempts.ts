import { sql } from "drizzle-orm"
import { BatchQueue } from "../database/batch-queue.ts"
import type { Runner } from "../database/connection.ts"
import { errorCode } from "../database/database-errors.ts"
import { Withdrawn } from "../database/queued.ts"
import { booleanOf, firstAndLast, isItem, jsonOf, names, statement } from "../database/statement.ts"
import type { AttemptEntry } from "../entries.ts"
import type { LedgerLog } from "../events.ts"
import { h } from "../schema/aliases.ts"
import { attempts } from "../schema/attempts.ts"
import { holds } from "../schema/tables.ts"
import { PendingWrites, RecentWrites } from "./pending-writes.ts"
import { type Spool, spoolKey } from "./spool.ts"

/** Deadline of one statement. It is then retried. */
const STATEMENT_MS = 5_000

/** Adds each attempt once, with the account of its hold. Says which have a hold, in the order of the batch. */
const write = statement(
  "attempts",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, hold.account_id FROM json_to_recordset($3::text::json) AS x (batch_ordinal int, id uuid, ordinal int, upstream text,
    key text, status int, failure text, ms int, request_id text, ended_at timestamptz)
  LEFT JOIN LATERAL (
    SELECT ${h.account_id} FROM ${holds} ${h} WHERE ${isItem(h.id, sql`x.id`, 1)} OFFSET 0) hold ON true
), written AS (
  INSERT INTO ${attempts} (${names(
    attempts.id,
    attempts.ordinal,
    attempts.account_id,
    attempts.upstream,
    attempts.upstream_key,
    attempts.status,
    attempts.failure,
    attempts.duration_ms,
    attempts.request_id,
    attempts.ended_at,
  )})
  SELECT a.id, a.ordinal, a.account_id, a.upstream, a.key, a.status, a.failure, a.ms, a.request_id, a.ended_at
  FROM requested a WHERE a.account_id IS NOT NULL
  ON CONFLICT (id, ordinal) DO NOTHING
)
SELECT a.account_id IS NOT NULL AS is_held FROM requested a ORDER BY a.batch_ordinal`,
)

/** Adds attempts to the journal (D93). Returns for each, in their order, if its call has a hold; without one it is not added. */
export async function writeAttempts(
  connection: Runner,
  batch: readonly AttemptEntry[],
): Promise<readonly boolean[]> {
  const numbered = batch.map((attempt, batch_ordinal) => ({ ...attempt, batch_ordinal }))
  const values = [...firstAndLast(batch), jsonOf(numbered)]
  const rows = await connection.run(write, values, STATEMENT_MS, batch.length)
  return rows.map((row) => booleanOf(row, "is_held"))
}

/** The result of an attempt: written, without a hold, `refused` for its data, or `unwritten` when the queue was stopped. */
export type AttemptOutcome = "applied" | "none" | "refused" | "unwritten"

/** The source of an attempt: its call, a file of the spool, or memory, because the database may have lost it. */
type Origin = "call" | "spool" | "memory"

interface QueuedAttempts {
  readonly attempt: AttemptEntry
  readonly origin: Origin
  readonly since_ms: number
  readonly resolve: (written: AttemptOutcome) => void
}

/** Writes failed attempts in the background (D93), each until it is in the ledger, and spools it until then. */
export class AttemptQueue {
  readonly #queue: BatchQueue<QueuedAttempts, boolean>
  readonly #spool: Spool
  readonly #log: LedgerLog
  readonly #pending = new PendingWrites<QueuedAttempts>((item) => this.#spoolAttempt(item))
  readonly #recent = new RecentWrites<AttemptEntry>()
  /** Attempts whose hold the database has lost. The end of their call writes it again (D73). */
  #unheld: AttemptEntry[] = []

  constructor(connection: Runner, spool: Spool, log: LedgerLog) {
    this.#spool = spool
    this.#log = log
    this.#queue = new BatchQueue<QueuedAttempts, boolean>(connection, {
      accountOf: ({ attempt }) => attempt.account_id,
      run: (runner, items) =>
        writeAttempts(
          runner,
          items.map(({ attempt }) => attempt),
        ),
      onFirstFailure: (item) => this.#spoolAttempt(item),
    })
  }

  drained(): Promise<void> {
    return this.#pending.drained()
  }

  /** Resolves once the attempt is in the ledger, or is in the spool and cannot be written now. */
  write(attempt: AttemptEntry, origin: Origin = "call"): Promise<AttemptOutcome> {
    return new Promise((resolve) => {
      const item: QueuedAttempts = { attempt, origin, since_ms: performance.now(), resolve }
      this.#pending.add(item)
      try {
        this.#queue.add(item, Number.POSITIVE_INFINITY, false, {
          resolve: (_, is_held) => this.#done(item, is_held),
          reject: (_, error) => this.#failed(item, error),
        })
      } catch (error) {
        this.#failed(item, error)
      }
    })
  }

  /** Writes those again whose hold was missing; with `has_lost`, also all that the database may have lost (D73). */
  writeAgain(has_lost: boolean): void {
    const unheld = this.#unheld
    this.#unheld = []
    for (const attempt of unheld) void this.write(attempt)
    if (has_lost) for (const attempt of this.#recent.list) void this.write(attempt, "memory")
    this.#recent.forgetEarlier()
  }

  stop(): void {
    this.#queue.stop()
    this.#pending.stop()
  }

  #done(item: QueuedAttempts, is_held: boolean): void {
    const { attempt } = item
    if (is_held) {
      if (item.origin !== "memory") this.#recent.add(attempt)
      this.#spool.delete(spoolKey(item))
      this.#finish(item, "applied")
      return
    }
    this.#spoolAttempt(item)
    if (item.origin !== "spool") this.#unheld.push(attempt)
    this.#finish(item, "none")
  }

  #failed(item: QueuedAttempts, error: unknown): void {
    this.#spoolAttempt(item)
    if (error instanceof Withdrawn) {
      this.#finish(item, "unwritten")
      return
    }
    const { id } = item.attempt
    this.#log.error(
      { id, code: errorCode(error) },
      "the database refused an attempt: it is kept in the spool",
    )
    this.#finish(item, "refused")
  }

  #finish(item: QueuedAttempts, written: AttemptOutcome): void {
    item.resolve(written)
    this.#pending.delete(item)
  }

  #spoolAttempt({ attempt, origin }: QueuedAttempts): void {
    if (origin !== "spool") this.#spool.add({ attempt })
  }
}
