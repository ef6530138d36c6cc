import { sql } from "drizzle-orm"
import { nextId } from "../../id.ts"
import type { Tags } from "../../wire/call.ts"
import { BatchQueue, QUEUE_LIMIT } from "../database/batch-queue.ts"
import type { DatabaseConnection, Runner } from "../database/connection.ts"
import { intOf, jsonOf, type Row, statement, textOrNull } from "../database/statement.ts"
import { type Labelled, type Labels, LedgerUnavailable } from "../entries.ts"
import { end_users, labels, OTHER } from "../schema/labels.ts"
import { accounts } from "../schema/tables.ts"
import { ANSWER_MS } from "./holds.ts"

const STATEMENT_MS = 1_000
/** Maximum number of combinations in memory, and of characters in their texts; the oldest are dropped. */
const KNOWN_LIMIT = 20_000
const KNOWN_CHARACTERS = 8 * 2 ** 20
/** Time after which a combination is read again, because another gateway may have erased its end user. */
const KNOWN_MS = 300_000
/** Maximum number of new combinations of an account in one UTC day, so that no client fills the tables and the reports. */
const MAX_NEW_A_DAY = 10_000
/** Time after which an account's combinations are counted again, because another day may have begun. */
const FULL_MS = 60_000
const ROUNDS = 3
const CHUNK = 2_000

/** A combination as `labels` and `end_users` have it. */
interface Content {
  readonly account_id: string
  readonly subject: string | null
  readonly tags: Tags
}

/** `is_full`: the account has had its new combinations of this day, which are counted once for each account. */
const find = statement(
  "labels",
  sql`
WITH found AS MATERIALIZED (
  SELECT r.ordinal, r.account_id, l.id, l.end_user_id, l.id IS NULL AND r.is_counted AS is_counted
  FROM json_to_recordset($1::text::json)
    AS r (ordinal int, account_id uuid, subject text, tags jsonb, is_counted boolean)
  LEFT JOIN LATERAL (
    SELECT n.id, n.end_user_id FROM ${labels} n
    WHERE r.subject IS NULL AND n.account_id = r.account_id AND n.tags = r.tags AND n.end_user_id IS NULL
    UNION ALL
    SELECT n.id, n.end_user_id FROM ${end_users} u JOIN ${labels} n
      ON n.account_id = r.account_id AND n.end_user_id = u.id AND n.tags = r.tags
    WHERE u.account_id = r.account_id AND u.subject = r.subject OFFSET 0) l ON true
), counted AS MATERIALIZED (
  SELECT a.account_id, (
    SELECT count(*) FROM (SELECT FROM ${labels} n WHERE n.account_id = a.account_id
      AND n.created_at >= date_trunc('day', now(), 'UTC') LIMIT ${sql.raw(String(MAX_NEW_A_DAY))}) n
  ) = ${sql.raw(String(MAX_NEW_A_DAY))} AS is_full
  FROM (SELECT DISTINCT f.account_id FROM found f WHERE f.is_counted) a
)
SELECT f.ordinal, f.id, f.end_user_id::text AS end_user_id, c.is_full FROM found f
LEFT JOIN counted c ON f.is_counted AND c.account_id = f.account_id`,
)

const rows_to_add = sql`SELECT r.* FROM json_to_recordset($1::text::json)
    AS r (id int, account_id uuid, end_user_id uuid, subject text, tags jsonb)`

/**
 * Adds the missing rows, in a fixed order so that gateways do not deadlock. An end user that another gateway adds at the same time
 * is found by the next round. Nothing is added while the account moves, because its end users are being copied (D76).
 */
const add = statement(
  "labels",
  sql`
WITH requested AS MATERIALIZED (
  ${rows_to_add}
  WHERE NOT EXISTS (SELECT FROM ${accounts} a WHERE a.id = r.account_id AND a.moving_to IS NOT NULL AND a.moved_to IS NULL)
), added AS (
  INSERT INTO ${end_users} (id, account_id, subject)
  SELECT DISTINCT ON (r.account_id, r.subject) r.end_user_id, r.account_id, r.subject FROM requested r
  WHERE r.subject IS NOT NULL ORDER BY r.account_id, r.subject
  ON CONFLICT DO NOTHING RETURNING id, account_id, subject
), named AS MATERIALIZED (
  SELECT r.id, r.account_id, r.subject, r.tags, coalesce(n.id, (
    SELECT u.id FROM ${end_users} u WHERE u.account_id = r.account_id AND u.subject = r.subject)) AS end_user_id
  FROM requested r LEFT JOIN added n ON n.account_id = r.account_id AND n.subject = r.subject
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
WITH requested AS MATERIALIZED (${rows_to_add}), added AS (
  INSERT INTO ${end_users} (id, account_id, subject)
  SELECT DISTINCT ON (r.end_user_id) r.end_user_id, r.account_id, r.subject FROM requested r
  WHERE r.end_user_id IS NOT NULL ORDER BY r.end_user_id
  ON CONFLICT DO NOTHING
)
INSERT INTO ${labels} (id, account_id, end_user_id, tags)
SELECT r.id, r.account_id, r.end_user_id, r.tags FROM requested r ORDER BY r.account_id, r.end_user_id, r.tags
ON CONFLICT DO NOTHING`,
)

interface Interned {
  readonly labels: Labels
  readonly content: Content
}

/** The same for a call; `is_replaced` if the account had too many, so that the content is another one. */
interface InternedCall extends Interned {
  readonly is_replaced: boolean
}

/** The labels of calls, interned in one database (D94). */
export function labelQueue(connection: DatabaseConnection, onReplaced: () => void) {
  const queue = new BatchQueue<Labelled, InternedCall | null>(
    connection,
    { accountOf: ({ account_id }) => account_id, run: intern },
    { limit: QUEUE_LIMIT },
  )
  const known = new Map<string, Interned & { readonly until_ms: number }>()
  let known_characters = 0
  /** Accounts that have had their new combinations of this day, and until when that is believed. */
  const full = new Map<string, number>()

  async function read(labelled: Labelled): Promise<Labels> {
    const answered = await queue.submitForCaller(labelled, ANSWER_MS)
    if (answered === null) throw new LedgerUnavailable("the labels of the call could not be written")
    if (answered.is_replaced) onReplaced()
    return answered.labels
  }

  function knownOf(content: Content): Interned | null {
    const found = known.get(nameOf(content))
    return found !== undefined && performance.now() < found.until_ms ? found : null
  }

  /** By the recorded content, not by the client's text: beyond the bound each call would have a new text. */
  function remember({ labels: { id, end_user_id }, content }: Interned): void {
    const name = nameOf(content)
    drop(name)
    for (const oldest of known.keys()) {
      const characters = known_characters + name.length
      if (known.size < KNOWN_LIMIT && characters <= KNOWN_CHARACTERS) break
      drop(oldest)
    }
    const copy = copyOf(content)
    known.set(name, {
      labels: { id, end_user_id, tags: copy.tags },
      content: copy,
      until_ms: performance.now() + KNOWN_MS,
    })
    known_characters += name.length
  }

  function drop(name: string): void {
    if (known.delete(name)) known_characters -= name.length
  }

  function isFull(account_id: string): boolean {
    const until_ms = full.get(account_id)
    if (until_ms === undefined || performance.now() < until_ms) return until_ms !== undefined
    full.delete(account_id)
    return false
  }

  /** Null for a combination that could not be added: its account moves. */
  async function intern(
    runner: Runner,
    requested: readonly Labelled[],
  ): Promise<readonly (InternedCall | null)[]> {
    const wanted = requested.map((labelled) => ({ content: contentOf(labelled), is_replaced: false }))
    const found: (InternedCall | null)[] = requested.map(() => null)
    for (let round = 0; round < ROUNDS; round += 1) {
      const open = wanted.flatMap(({ content, is_replaced }, ordinal) =>
        found[ordinal] === null
          ? [{ ordinal, ...content, is_counted: !is_replaced && !isFull(content.account_id) }]
          : [],
      )
      const rows = await runner.run(find, [jsonOf(open)], STATEMENT_MS, open.length)
      for (const row of rows) {
        const ordinal = intOf(row, "ordinal")
        const one = wanted[ordinal]
        const labelled = requested[ordinal]
        if (one === undefined || labelled === undefined) throw new Error("the database found other labels")
        const { content } = one
        if (row.is_full === true) full.set(content.account_id, performance.now() + FULL_MS)
        if (row.id !== null) {
          found[ordinal] = { labels: labelsOf(row, content), ...one }
          remember(found[ordinal])
        } else if (!one.is_replaced && isFull(content.account_id)) {
          const other = { content: replaced(labelled), is_replaced: true }
          const same = knownOf(other.content)
          wanted[ordinal] = other
          if (same !== null) found[ordinal] = { ...same, is_replaced: true }
        }
      }
      const missing = wanted.filter((_, position) => found[position] === null)
      if (missing.length === 0) break
      const rows_to_add = missing.map(({ content }) => ({
        ...content,
        id: randomId(),
        end_user_id: content.subject === null ? null : nextId(),
      }))
      await runner.run(add, [jsonOf(rows_to_add)], STATEMENT_MS, missing.length)
    }
    return found
  }

  return {
    /** Rejects with `LedgerUnavailable` or `LedgerBusy`. */
    of(labelled: Labelled): Labels | Promise<Labels> {
      return knownOf(contentOf(labelled))?.labels ?? read(labelled)
    },
    forget(end_user_id: string): void {
      for (const [name, { labels }] of known) if (labels.end_user_id === end_user_id) drop(name)
    },
    /** Writes what it knows again, to a database that may have lost commits (D73). */
    async writeAgain(runner: Runner): Promise<void> {
      const rows = [...known.values()].map(({ labels, content }) => ({ ...content, ...labels }))
      for (let at = 0; at < rows.length; at += CHUNK) {
        const chunk = rows.slice(at, at + CHUNK)
        await runner.run(addAgain, [jsonOf(chunk)], STATEMENT_MS * 5, chunk.length)
      }
    },
    stop: () => queue.stop(),
  }
}

/** A text that is equal for equal content only. */
function nameOf({ account_id, subject, tags }: Content): string {
  const pairs = Object.entries(tags).sort(([one], [other]) => (one < other ? -1 : 1))
  return JSON.stringify([account_id, subject, pairs])
}

/** With copied texts, because a part of a text keeps the whole text in memory. */
function copyOf({ account_id, subject, tags }: Content): Content {
  const copy = (text: string) => Buffer.from(text).toString()
  return {
    account_id: copy(account_id),
    subject: subject === null ? null : copy(subject),
    tags: Object.fromEntries(Object.entries(tags).map(([name, value]) => [copy(name), copy(value)])),
  }
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
    id: intOf(row, "id"),
    end_user_id: textOrNull(row, "end_user_id"),
    tags,
  }
}

/** A positive int4: 0 is for labels that sums leave out. */
function randomId(): number {
  const [word = 0] = crypto.getRandomValues(new Uint32Array(1))
  return Math.max(1, word >>> 1)
}
