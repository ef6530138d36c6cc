import { sql } from "drizzle-orm"
import type { Runner } from "../database/connection.ts"
import { booleanOf, firstAndLast, isItem, jsonOf, names, statement } from "../database/statement.ts"
import type { AttemptEntry } from "../entries.ts"
import type { LedgerLog } from "../events.ts"
import { h } from "../schema/aliases.ts"
import { attempts } from "../schema/attempts.ts"
import { holds } from "../schema/tables.ts"
import { type Spool, spoolKey } from "./spool.ts"
import { spooledWrites } from "./spooled-writes.ts"

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
}

export type AttemptQueue = ReturnType<typeof attemptQueue>

/** Writes failed attempts (D93). */
export function attemptQueue(connection: Runner, spool: Spool, log: LedgerLog) {
  /** Attempts whose hold the database has lost. The end of their call writes it again (D73). */
  let unheld: AttemptEntry[] = []
  const writes = spooledWrites<QueuedAttempt, boolean, AttemptEntry>(
    connection,
    {
      refusal: "the database refused an attempt: it is kept in the spool",
      accountOf: ({ attempt }) => attempt.account_id,
      callOf: ({ attempt }) => attempt.id,
      run: (runner, items) =>
        writeAttempts(
          runner,
          items.map(({ attempt }) => attempt),
        ),
      spool: spoolAttempt,
      done(item, is_held) {
        const { attempt, origin } = item
        if (is_held) {
          if (origin !== "memory") writes.remember(attempt)
          spool.delete(spoolKey(item))
        } else {
          spoolAttempt(item)
          if (origin !== "spool") unheld.push(attempt)
        }
        writes.finish(item, is_held ? "applied" : "none")
      },
    },
    log,
  )

  function spoolAttempt({ attempt, origin }: QueuedAttempt): void {
    if (origin !== "spool") spool.add({ attempt })
  }

  const write = (attempt: AttemptEntry, origin: Origin = "call") => writes.write({ attempt, origin })
  return {
    write,
    drained: writes.drained,
    stop: writes.stop,
    /** Writes those again whose hold was missing; with `has_lost`, also all that the database may have lost (D73). */
    writeAgain(has_lost: boolean): void {
      const again = unheld
      unheld = []
      for (const attempt of again) void write(attempt)
      if (has_lost) for (const attempt of writes.recent()) void write(attempt, "memory")
      writes.forgetEarlier()
    },
  }
}
