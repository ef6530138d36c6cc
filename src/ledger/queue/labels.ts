import { sql } from "drizzle-orm"
import { nextId } from "../../id.ts"
import type { Tags } from "../../wire/call.ts"
import { BatchQueue, QUEUE_LIMIT } from "../database/batch-queue.ts"
import type { DatabaseConnection, Runner } from "../database/connection.ts"
import { errorCode } from "../database/database-errors.ts"
import { Withdrawn } from "../database/queued.ts"
import { jsonOf, type Row, statement, textOf } from "../database/statement.ts"
import { type Labelled, type Labels, LedgerUnavailable } from "../entries.ts"
import { end_users, labels, OTHER } from "../schema/labels.ts"
import { accounts } from "../schema/tables.ts"
import { ANSWER_MS } from "./holds.ts"

const STATEMENT_MS = 1_000
/** Combinations that a process remembers; the oldest are dropped. */
const KNOWN_LIMIT = 20_000
/** A combination is read again after this time, because another gateway may have forgotten its end user. */
const KNOWN_MS = 300_000
/** New combinations of an account in one UTC day. More would let a client fill the tables and the reports. */
const MAX_NEW_A_DAY = 10_000
const ROUNDS = 3
const CHUNK = 2_000

/** A combination as `labels` and `end_users` have it. */
interface Content {
  readonly account_id: string
  readonly subject: string | null
  readonly tags: Tags
}

/** `is_full`: the account has had its new combinations of this day. Each row is found by an index, also when the tables grow. */
const find = statement(
  "labels",
  sql`
SELECT r.place, l.id, l.end_user_id::text AS end_user_id, l.id IS NULL AND (
  SELECT count(*) FROM (SELECT FROM ${labels} n WHERE n.account_id = r.account_id
    AND n.created_at >= date_trunc('day', now(), 'UTC') LIMIT ${sql.raw(String(MAX_NEW_A_DAY))}) n
  ) = ${sql.raw(String(MAX_NEW_A_DAY))} AS is_full
FROM json_to_recordset($1::text::json) AS r (place int, account_id uuid, subject text, tags jsonb)
LEFT JOIN LATERAL (
  SELECT n.id, n.end_user_id FROM ${labels} n
  WHERE r.subject IS NULL AND n.account_id = r.account_id AND n.tags = r.tags AND n.end_user_id IS NULL
  UNION ALL
  SELECT n.id, n.end_user_id FROM ${end_users} u JOIN ${labels} n
    ON n.account_id = r.account_id AND n.end_user_id = u.id AND n.tags = r.tags
  WHERE u.account_id = r.account_id AND u.subject = r.subject OFFSET 0) l ON true`,
)

/**
 * Adds the missing rows, in a fixed order so that gateways do not deadlock. An end user that another gateway adds at the same time
 * is found by the next round. Nothing is added while the account moves, because its end users are being copied (D76).
 */
const add = statement(
  "labels",
  sql`
WITH asked AS MATERIALIZED (
  SELECT r.* FROM json_to_recordset($1::text::json)
    AS r (id int, account_id uuid, end_user_id uuid, subject text, tags jsonb)
  WHERE NOT EXISTS (SELECT FROM ${accounts} a WHERE a.id = r.account_id AND a.moving_to IS NOT NULL AND a.moved_to IS NULL)
), added AS (
  INSERT INTO ${end_users} (id, account_id, subject)
  SELECT DISTINCT ON (r.account_id, r.subject) r.end_user_id, r.account_id, r.subject FROM asked r
  WHERE r.subject IS NOT NULL ORDER BY r.account_id, r.subject
  ON CONFLICT DO NOTHING RETURNING id, account_id, subject
), named AS MATERIALIZED (
  SELECT r.id, r.account_id, r.subject, r.tags, coalesce(n.id, (
    SELECT u.id FROM ${end_users} u WHERE u.account_id = r.account_id AND u.subject = r.subject)) AS end_user_id
  FROM asked r LEFT JOIN added n ON n.account_id = r.account_id AND n.subject = r.subject
)
INSERT INTO ${labels} (id, account_id, end_user_id, tags)
SELECT r.id, r.account_id, r.end_user_id, r.tags FROM named r WHERE r.subject IS NULL OR r.end_user_id IS NOT NULL
ORDER BY r.account_id, r.end_user_id, r.tags
ON CONFLICT DO NOTHING`,
)

/** Adds what a database has lost, with the ids that holds may have. */
const addAgain = statement(
  "labels",
  sql`
WITH asked AS MATERIALIZED (
  SELECT r.* FROM json_to_recordset($1::text::json)
    AS r (id int, account_id uuid, end_user_id uuid, subject text, tags jsonb)
), added AS (
  INSERT INTO ${end_users} (id, account_id, subject)
  SELECT DISTINCT ON (r.end_user_id) r.end_user_id, r.account_id, r.subject FROM asked r
  WHERE r.end_user_id IS NOT NULL ORDER BY r.end_user_id
  ON CONFLICT DO NOTHING
)
INSERT INTO ${labels} (id, account_id, end_user_id, tags)
SELECT r.id, r.account_id, r.end_user_id, r.tags FROM asked r ORDER BY r.account_id, r.end_user_id, r.tags
ON CONFLICT DO NOTHING`,
)

/** A combination that was found, and its content, which is another one if the account had too many. */
interface Interned {
  readonly labels: Labels
  readonly content: Content
  readonly is_replaced: boolean
}

/** The labels of calls, interned in one database (D94). */
export class LabelQueue {
  readonly #queue: BatchQueue<Labelled, Interned | null>
  readonly #onReplaced: () => void
  readonly #known = new Map<string, Interned & { readonly until_ms: number }>()

  constructor(connection: DatabaseConnection, onReplaced: () => void) {
    this.#queue = new BatchQueue(
      connection,
      { accountOf: ({ account_id }) => account_id, run: intern },
      { limit: QUEUE_LIMIT },
    )
    this.#onReplaced = onReplaced
  }

  /** Rejects with `LedgerUnavailable` or `LedgerBusy`. */
  of(labelled: Labelled): Labels | Promise<Labels> {
    const name = nameOf(labelled)
    const known = this.#known.get(name)
    return known !== undefined && performance.now() < known.until_ms
      ? this.#taken(known)
      : this.#read(name, labelled)
  }

  /** Forgets what it knows of an end user. */
  forget(end_user_id: string): void {
    for (const [name, { labels }] of this.#known)
      if (labels.end_user_id === end_user_id) this.#known.delete(name)
  }

  /** Writes what it knows again, to a database that may have lost commits (D73). */
  async writeAgain(connection: Runner): Promise<void> {
    const rows = [...this.#known.values()].map(({ labels, content }) => ({ ...content, ...labels }))
    for (let at = 0; at < rows.length; at += CHUNK) {
      const chunk = rows.slice(at, at + CHUNK)
      await connection.run(addAgain, [jsonOf(chunk)], STATEMENT_MS * 5, chunk.length)
    }
  }

  stop(): void {
    this.#queue.stop()
  }

  async #read(name: string, labelled: Labelled): Promise<Labels> {
    const interned = await this.#queue.ask(labelled, ANSWER_MS).catch((error: unknown) => {
      throw error instanceof Withdrawn ? new LedgerUnavailable(errorCode(error.cause)) : error
    })
    if (interned === null) throw new LedgerUnavailable("the labels of the call could not be written")
    this.#known.delete(name)
    for (const oldest of this.#known.keys()) {
      if (this.#known.size < KNOWN_LIMIT) break
      this.#known.delete(oldest)
    }
    this.#known.set(name, { ...interned, until_ms: performance.now() + KNOWN_MS })
    return this.#taken(interned)
  }

  #taken({ labels, is_replaced }: Interned): Labels {
    if (is_replaced) this.#onReplaced()
    return labels
  }
}

/** A text that is equal for equal content only. */
function nameOf({ account_id, end_user, fixed, sent }: Labelled): string {
  const pairs = (tags: Tags) => Object.entries(tags).sort(([one], [other]) => (one < other ? -1 : 1))
  return JSON.stringify([account_id, end_user, pairs(fixed), pairs(sent)])
}

/** Null for a combination that could not be added: its account moves. */
async function intern(connection: Runner, asked: readonly Labelled[]): Promise<readonly (Interned | null)[]> {
  const wanted = asked.map((labelled) => ({ content: contentOf(labelled), is_replaced: false }))
  const found: (Interned | null)[] = asked.map(() => null)
  for (let round = 0; round < ROUNDS; round += 1) {
    const open = wanted.flatMap(({ content }, place) =>
      found[place] === null ? [{ place, ...content }] : [],
    )
    const rows = await connection.run(find, [jsonOf(open)], STATEMENT_MS, open.length)
    for (const row of rows) {
      const place = numberOf(row, "place")
      const one = wanted[place]
      const labelled = asked[place]
      if (one === undefined || labelled === undefined) throw new Error("the database found other labels")
      if (row.id !== null) found[place] = { labels: labelsOf(row, one.content), ...one }
      else if (row.is_full === true) wanted[place] = { content: replaced(labelled), is_replaced: true }
    }
    const missing = wanted.filter((_, place) => found[place] === null)
    if (missing.length === 0) break
    const rows_to_add = missing.map(({ content }) => ({
      ...content,
      id: randomId(),
      end_user_id: content.subject === null ? null : nextId(),
    }))
    await connection.run(add, [jsonOf(rows_to_add)], STATEMENT_MS, missing.length)
  }
  return found
}

function contentOf({ account_id, end_user, fixed, sent }: Labelled): Content {
  return { account_id, subject: end_user, tags: { ...sent, ...fixed } }
}

function replaced({ account_id, end_user, fixed, sent }: Labelled): Content {
  const others = Object.fromEntries(Object.keys(sent).map((name) => [name, OTHER]))
  return { account_id, subject: end_user === null ? null : OTHER, tags: { ...others, ...fixed } }
}

function labelsOf(row: Row, { tags }: Content): Labels {
  return {
    id: numberOf(row, "id"),
    end_user_id: row.end_user_id === null ? null : textOf(row, "end_user_id"),
    tags,
  }
}

function numberOf(row: Row, column: string): number {
  const value = row[column]
  if (typeof value !== "number") throw new Error(`${column} is not an int4`)
  return value
}

/** A positive int4: 0 is for labels that sums leave out. */
function randomId(): number {
  const [word = 0] = crypto.getRandomValues(new Uint32Array(1))
  return Math.max(1, word >>> 1)
}
