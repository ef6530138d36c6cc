import { sql } from "drizzle-orm"
import { BatchQueue } from "../database/batch-queue.ts"
import type { Runner } from "../database/connection.ts"
import { booleanOf, firstAndLast, isItem, jsonOf, names, statement } from "../database/statement.ts"
import type { AttemptEntry } from "../entries.ts"
import type { LedgerLog } from "../events.ts"
import { h } from "../schema/aliases.ts"
import { attempts } from "../schema/attempts.ts"
import { holds } from "../schema/tables.ts"
import { type Spool, spoolKey } from "./spool.ts"
import { SpooledWrites, type WriteOutcome } from "./spooled-writes.ts"

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

/** The source of an attempt: its call, a file of the spool, or memory, because the database may have lost it. */
type Origin = "call" | "spool" | "memory"

interface QueuedAttempt {
  readonly attempt: AttemptEntry
  readonly origin: Origin
  readonly since_ms: number
  resolve: ((written: WriteOutcome) => void) | null
}

/** Writes failed attempts (D93). */
export class AttemptQueue extends SpooledWrites<QueuedAttempt, boolean, AttemptEntry> {
  protected readonly queue: BatchQueue<QueuedAttempt, boolean>
  readonly #spool: Spool
  /** Attempts whose hold the database has lost. The end of their call writes it again (D73). */
  #unheld: AttemptEntry[] = []

  constructor(connection: Runner, spool: Spool, log: LedgerLog) {
    super(log, "the database refused an attempt: it is kept in the spool")
    this.#spool = spool
    this.queue = new BatchQueue<QueuedAttempt, boolean>(connection, {
      accountOf: ({ attempt }) => attempt.account_id,
      run: (runner, items) =>
        writeAttempts(
          runner,
          items.map(({ attempt }) => attempt),
        ),
      onFirstFailure: (item) => this.spool(item),
    })
  }

  /** Resolves once the attempt is in the ledger, or is in the spool and cannot be written now. */
  write(attempt: AttemptEntry, origin: Origin = "call"): Promise<WriteOutcome> {
    return new Promise((resolve) => this.add({ attempt, origin, since_ms: performance.now(), resolve }))
  }

  /** Writes those again whose hold was missing; with `has_lost`, also all that the database may have lost (D73). */
  writeAgain(has_lost: boolean): void {
    const unheld = this.#unheld
    this.#unheld = []
    for (const attempt of unheld) void this.write(attempt)
    if (has_lost) for (const attempt of this.recent) void this.write(attempt, "memory")
    this.forgetEarlier()
  }

  protected done(item: QueuedAttempt, is_held: boolean): void {
    const { attempt, origin } = item
    if (is_held) {
      if (origin !== "memory") this.remember(attempt)
      this.#spool.delete(spoolKey(item))
    } else {
      this.spool(item)
      if (origin !== "spool") this.#unheld.push(attempt)
    }
    this.finish(item, is_held ? "applied" : "none")
  }

  protected spool({ attempt, origin }: QueuedAttempt): void {
    if (origin !== "spool") this.#spool.add({ attempt })
  }

  protected callOf({ attempt }: QueuedAttempt): string {
    return attempt.id
  }
}
