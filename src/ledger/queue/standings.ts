import { sql } from "drizzle-orm"
import { isObject } from "../../wire/usage.ts"
import { BatchQueue, QUEUE_LIMIT } from "../database/batch-queue.ts"
import type { DatabaseConnection, Runner } from "../database/connection.ts"
import { booleanOf, intOf, nanoOf, type Row, statement, textOf } from "../database/statement.ts"
import { AccountMoving, type CustomerPrice, type Owner, type Standing } from "../entries.ts"
import { multiplierOf } from "../money/charge.ts"
import { customerPricesIn, pricesOfAccount } from "../money/customer-prices.ts"
import { available, changeDue, isDelayed, isDue } from "../money/grants.ts"
import type { LastUsed } from "../money/last-used.ts"
import { periodOf, spentIn } from "../money/spending.ts"
import { a, k } from "../schema/aliases.ts"
import { accounts, keys } from "../schema/tables.ts"
import { ANSWER_MS } from "./holds.ts"

const STATEMENT_MS = 1_000
/** Longest wait for an account whose grants change. */
const LOCK_MS = 100
/** Maximum number of keys, and of accounts with prices; the oldest are dropped. */
const OWNERS_LIMIT = 50_000

/** Owners of keys that could call at the last read. Unknown hashes are not kept, because they may become keys. */
export class Owners {
  readonly #owners = new Map<string, Owner>()
  /** The last list of each account, which its keys share (D100). */
  readonly #prices = new Map<string, readonly CustomerPrice[]>()

  get(key_hash: string): Owner | null {
    return this.#owners.get(key_hash) ?? null
  }

  /** Keeps the owner of a key that may call. Forgets other keys, and replaced secrets, which expire (D104). */
  note(key_hash: string, { shard, account_id, key_id, tag_rules, prices, ...now }: Standing): void {
    if (now.current_hash !== undefined || !now.active || now.key_suspended || now.account_suspended) {
      this.#owners.delete(key_hash)
      return
    }
    const known = this.#owners.get(key_hash)
    const is_same = known?.shard === shard && known.tag_rules?.version === tag_rules?.version
    if (is_same && idsOf(known?.prices) === idsOf(prices)) return
    remember(this.#owners, key_hash, {
      shard,
      account_id,
      key_id,
      ...(tag_rules !== undefined && { tag_rules }),
      ...(prices !== undefined && { prices: this.#shared(account_id, prices) }),
    })
  }

  #shared(account_id: string, prices: readonly CustomerPrice[]): readonly CustomerPrice[] {
    const known = this.#prices.get(account_id)
    if (known !== undefined && idsOf(known) === idsOf(prices)) return known
    remember(this.#prices, account_id, prices)
    return prices
  }

  forget(key_hash: string): void {
    this.#owners.delete(key_hash)
  }
}

function remember<Value>(kept: Map<string, Value>, name: string, value: Value): void {
  for (const oldest of kept.keys()) {
    if (kept.size < OWNERS_LIMIT) break
    kept.delete(oldest)
  }
  kept.set(name, value)
}

function idsOf(prices: readonly CustomerPrice[] = []): string {
  return prices.map(({ id }) => id).join()
}

/** `$1` is a JSON array of hashes. */
const given_hashes = sql`(ARRAY(SELECT json_array_elements_text($1::text::json)))`

/**
 * Reads the standings of keys in one snapshot (D22, D26), by their secrets and by those before the last rotations, as long as these
 * work (D104). In one statement, because a made-up key would otherwise cost two. Without a join, because its plan, if made
 * for one account, would read all accounts for each key.
 */
export const standing = statement(
  "standing",
  sql`
SELECT ${k}.given_hash AS hash, ${k}.current_hash, ${k.id} AS key_id, ${k.account_id}, to_json(${k.models})::text AS models,
  ${k.labels}::text AS labels, to_json(${k.required_tags})::text AS required_tags, ${k.ignores_client_tags}, ${k.labels_version},
  ${k.revoked_at} IS NULL AND (${k.expires_at} IS NULL OR ${k.expires_at} > now()) AS active,
  (${available})::text AS available_nano, CASE WHEN ${isDue} THEN ${a.id} END AS due_account_id, ${a.price_multiplier_bp} AS price_multiplier_bp,
  ${k.suspended_at} IS NOT NULL AS key_suspended, ${a.suspended_at} IS NOT NULL AS account_suspended,
  ${a.moving_to} IS NOT NULL AS moving, ${k.spend_period} AS period, (${k.spend_limit_nano} - ${spentIn(k)})::text AS remaining_nano,
  ${a.is_limited}, CASE WHEN ${a.is_limited} THEN ${pricesOfAccount(sql`${a.id}`)}::text END AS prices
FROM (
  SELECT ${k}.*, ${k.hash} AS given_hash, NULL AS current_hash FROM ${keys} ${k} WHERE ${k.hash} = ANY ${given_hashes}
  UNION ALL
  SELECT ${k}.*, ${k.previous_hash}, ${k.hash} FROM ${keys} ${k}
  WHERE ${k.previous_hash} = ANY ${given_hashes} AND ${k.previous_hash} IS NOT NULL AND ${k.previous_until} > now()
) ${k} CROSS JOIN LATERAL (SELECT * FROM ${accounts} ${a} WHERE ${a.id} = ${k.account_id} OFFSET 0) ${a}`,
)

/** The standing of each hash in the database of a shard, in their order; null where there is no such key, `moving` during a move (D76), `delayed` if the account's grants could not be changed (D95). */
export async function readStandings(
  connection: Runner,
  hashes: readonly string[],
  shard: number,
): Promise<(Standing | "moving" | "delayed" | null)[]> {
  const read = () => connection.run(standing, [JSON.stringify(hashes)], STATEMENT_MS, hashes.length)
  let rows = await read()
  let errors: ReadonlyMap<string, unknown> = new Map()
  if (rows.some((row) => row.due_account_id !== null)) {
    errors = await changeDue(connection, rows, LOCK_MS, STATEMENT_MS)
    rows = await read()
  }
  const results = new Map<string, Standing | "moving" | "delayed">()
  for (const row of rows) {
    const now = booleanOf(row, "moving") ? "moving" : standingOf(row, shard)
    results.set(textOf(row, "hash"), isDelayed(row, errors) ? "delayed" : now)
  }
  return hashes.map((hash) => results.get(hash) ?? null)
}

export function standingQueue(connection: DatabaseConnection, used: LastUsed, shard: number, owners: Owners) {
  const queue = new BatchQueue<string, Standing | "moving" | "delayed" | null>(
    connection,
    {
      accountOf: (key_hash) => key_hash,
      run: (runner, hashes) => readStandings(runner, hashes, shard),
      isDelayed: (standing) => standing === "delayed",
    },
    { limit: QUEUE_LIMIT },
  )
  return {
    get depth() {
      return queue.depth
    },
    /** Reads a standing in a batch with the others that wait. */
    async read(key_hash: string): Promise<Standing | null> {
      const standing = await queue.submitForCaller(key_hash, ANSWER_MS)
      if (standing === "moving") throw new AccountMoving()
      if (standing === "delayed") throw new Error("a delayed standing was not asked again")
      if (standing === null) return null
      owners.note(key_hash, standing)
      if (standing.active) used.note(standing.key_id)
      return standing
    },
    stop: () => queue.stop(),
  }
}

function standingOf(row: Row, shard: number): Standing {
  return {
    shard,
    account_id: textOf(row, "account_id"),
    key_id: textOf(row, "key_id"),
    ...(row.current_hash !== null && { current_hash: textOf(row, "current_hash") }),
    active: booleanOf(row, "active"),
    models: row.models === null ? null : namesOf(JSON.parse(textOf(row, "models"))),
    available_nano: nanoOf(row, "available_nano"),
    ...multiplierOf(row),
    ...tagRulesOf(row),
    key_suspended: booleanOf(row, "key_suspended"),
    account_suspended: booleanOf(row, "account_suspended"),
    spending:
      row.period === null
        ? null
        : { remaining_nano: nanoOf(row, "remaining_nano"), period: periodOf(row, "period") },
    is_limited: booleanOf(row, "is_limited"),
    ...(row.prices !== null && { prices: customerPricesIn(textOf(row, "prices")) }),
  }
}

function namesOf(value: unknown): string[] {
  if (!Array.isArray(value)) throw new Error("a column of names is not a list")
  return value.map(nameOf)
}

function nameOf(value: unknown): string {
  if (typeof value !== "string") throw new Error("a name is not a text")
  return value
}

/** The key's rules for tags; absent if it never had any (D94). */
function tagRulesOf(row: Row): Pick<Standing, "tag_rules"> {
  const version = intOf(row, "labels_version")
  const ignores_client_tags = booleanOf(row, "ignores_client_tags")
  if (version === 0 && row.labels === null && row.required_tags === null && !ignores_client_tags) return {}
  const labels: unknown = row.labels === null ? {} : JSON.parse(textOf(row, "labels"))
  if (!isObject(labels)) throw new Error("the labels of a key are not an object")
  return {
    tag_rules: {
      version,
      labels: Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, nameOf(value)])),
      required_tags: row.required_tags === null ? [] : namesOf(JSON.parse(textOf(row, "required_tags"))),
      ignores_client_tags,
    },
  }
}
