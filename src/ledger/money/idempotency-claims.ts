import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { BatchQueue, QUEUE_LIMIT, type Work } from "../database/batch-queue.ts"
import type { DatabaseConnection, Runner } from "../database/connection.ts"
import { jsonOf, names, of, statement, textOf } from "../database/statement.ts"
import { answers, idempotency } from "../schema/claims.ts"

const STATEMENT_MS = 1_000
/** Longest wait of an answer's last byte for this write, as for the settlement (D32). */
const KEEP_MS = 250
const FIND_MS = 1_000
const CHUNK = 1_000
const chunk = sql.raw(String(CHUNK))

/** Lifetime of an `Idempotency-Key` (D43). */
export const claimLasts = sql.raw("interval '24 hours'")

/** The JSON answer of a call, to be sent again until it expires (D43). */
interface KeptAnswer {
  readonly call_id: string
  readonly body: string
  readonly keep_ms: number
}

const a = alias(answers, "a")
const c = alias(idempotency, "c")

const keep = statement(
  "answers",
  sql`
INSERT INTO ${answers} (${names(answers.call_id, answers.body, answers.expires_at)})
SELECT r.call_id, r.body, now() + r.keep_ms * interval '1 millisecond'
FROM json_to_recordset($1::text::json) AS r (call_id uuid, body text, keep_ms bigint) ORDER BY r.call_id
ON CONFLICT (call_id) DO NOTHING`,
)

const find = statement(
  "answers",
  sql`
SELECT ${a.call_id}, ${a.body} FROM ${answers} ${a}
WHERE ${a.call_id} = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)::uuid)) AND ${a.expires_at} > now()`,
)

const forgetAnswers = statement(
  "answers",
  sql`
DELETE FROM ${answers} ${a} WHERE ${a.call_id} = ANY (ARRAY(
  SELECT o.call_id FROM ${answers} o WHERE o.expires_at <= now() ORDER BY o.expires_at LIMIT ${chunk}))
RETURNING 1`,
)

/** Removes expired claims. Each is checked on its newest version, because another call may take it meanwhile. */
const forgetClaims = statement(
  "answers",
  sql`
DELETE FROM ${idempotency} ${c} USING (
  SELECT o.account_id, o.key_hash FROM ${idempotency} o
  WHERE ${of("o", idempotency.claimed_at)} <= now() - ${claimLasts}
  ORDER BY ${of("o", idempotency.claimed_at)} LIMIT ${chunk} FOR UPDATE SKIP LOCKED) old
WHERE ${c.account_id} = old.account_id AND ${c.key_hash} = old.key_hash AND ${c.claimed_at} <= now() - ${claimLasts}
RETURNING 1`,
)

/** Stores and finds kept answers. Use a separate connection, because bodies may be large. */
export function keptAnswers(connection: DatabaseConnection) {
  const queueOf = <Item, Result>(run: Work<Item, Result>["run"]) =>
    new BatchQueue<Item, Result>(connection, { accountOf: () => "", run }, { limit: QUEUE_LIMIT })
  const keeping = queueOf(keepBatch)
  const finding = queueOf(findBatch)
  return {
    /** Rejects if it is late. */
    async keep(answer: KeptAnswer): Promise<void> {
      await keeping.submit(answer, KEEP_MS)
    },
    /** The body of the call's answer; null when none is kept. Rejects when there is no answer in time. */
    find: (call_id: string) => finding.submit(call_id, FIND_MS),
    stop(): void {
      keeping.stop()
      finding.stop()
    },
  }
}

export async function forgetIdempotency(connection: Runner): Promise<void> {
  for (const forget of [forgetAnswers, forgetClaims]) {
    for (;;) {
      const gone = await connection.run(forget, [], STATEMENT_MS * 5)
      if (gone.length < CHUNK) break
    }
  }
}

async function keepBatch(connection: Runner, kept: readonly KeptAnswer[]): Promise<true[]> {
  await connection.run(keep, [jsonOf(kept)], STATEMENT_MS, kept.length)
  return kept.map(() => true)
}

async function findBatch(connection: Runner, call_ids: readonly string[]): Promise<(string | null)[]> {
  const rows = await connection.run(find, [JSON.stringify(call_ids)], STATEMENT_MS, call_ids.length)
  const bodies = new Map(rows.map((row) => [textOf(row, "call_id"), textOf(row, "body")]))
  return call_ids.map((id) => bodies.get(id) ?? null)
}
