import { type SQL, sql } from "drizzle-orm"
import { addMonths, JOURNAL_TABLES } from "../src/ledger/archive/months.ts"
import type { Db } from "../src/ledger/database/statement.ts"
import { months } from "../src/ledger/schema/sums.ts"
import { accounts, ends, holds } from "../src/ledger/schema/tables.ts"

/** A quarter of a year of calls, written by SQL into the tables of the ledger. */

export const SPAN_DAYS = 92
const DAY_MS = 86_400_000
/** Rows per statement, so that transactions stay small. */
const BATCH = 200_000
/** Of the charge of each call in nano-USD: what its prompt costs at the benchmark's prices, and each token of its output. */
const PROMPT_NANO = 16_400
const OUTPUT_NANO = 4_000

export interface Fill {
  readonly payers: readonly { readonly account_id: string; readonly key_id: string }[]
  readonly terms_ids: readonly number[]
  readonly gateway_id: string
  readonly calls: number
  /** When the last call ends, and with it the span. */
  readonly until_ms: number
}

/** Replaces the months of an empty journal by those of the last 92 days and the next two. */
export async function beginMonths(database: Db, until_ms: number): Promise<void> {
  const first = new Date(until_ms - SPAN_DAYS * DAY_MS).toISOString().slice(0, 7)
  const rows = await database.select({ month: months.month }).from(months)
  await database.transaction(async (transaction) => {
    for (const table of JOURNAL_TABLES) {
      for (const { month } of rows)
        await transaction.execute(
          sql.raw(`DROP TABLE tollgate.${table}_${month.slice(0, 7).replace("-", "_")}`),
        )
      const to = `tollgate.month_id(('${first}-01'::date + interval '1 month')::date)`
      const [bound] = await transaction.execute<{ id: string }>(sql.raw(`SELECT ${to} AS id`))
      const name = `tollgate.${table}_${first.replace("-", "_")}`
      await transaction.execute(
        sql.raw(
          `CREATE TABLE ${name} PARTITION OF tollgate.${table} FOR VALUES FROM (MINVALUE) TO ('${bound?.id}')`,
        ),
      )
    }
    await transaction.execute(sql`DELETE FROM ${months}`)
    await transaction.execute(sql`
      INSERT INTO ${months} (month, to_id)
      SELECT m, tollgate.month_id((m + interval '1 month')::date) FROM (SELECT ${`${first}-01`}::date AS m) x`)
  })
  await addMonths(database)
}

/** Writes settled calls, at the same distance from each other, and charges the accounts. `said` is told how many there are. */
export async function fill(database: Db, options: Fill, said: (calls: number) => void) {
  for (let first = 0; first < options.calls; first += BATCH) {
    const last = Math.min(first + BATCH, options.calls)
    await Promise.all([
      insertHolds(database, options, first, last),
      insertEnds(database, options, first, last),
    ])
    said(last)
  }
  await database.execute(sql`
    UPDATE ${accounts} a SET balance_nano = a.balance_nano - e.charge_nano FROM (
      SELECT account_id, sum(charge_nano)::bigint AS charge_nano FROM ${ends} GROUP BY account_id) e
    WHERE a.id = e.account_id`)
}

function insertHolds(database: Db, options: Fill, first: number, last: number) {
  return database.execute(sql`
    INSERT INTO ${holds} (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream)
    SELECT x.id, x.account_id, x.key_id, ${options.gateway_id}::uuid, 5000000, x.at, x.terms_id, x.n % 2 = 0
    FROM (${callsOf(options, first, last)}) x`)
}

function insertEnds(database: Db, options: Fill, first: number, last: number) {
  return database.execute(sql`
    INSERT INTO ${ends} (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, prompt_tokens, cached_tokens,
      completion_tokens, ttft_ms, duration_ms, outcome, basis, ending)
    SELECT x.id, x.account_id, x.key_id, ${sql.raw(String(PROMPT_NANO))} + ${sql.raw(String(OUTPUT_NANO))} * x.output, 5000000,
      x.at + x.output * interval '20 milliseconds', x.terms_id, 20, 4, x.output, 100 + x.output, x.output * 20,
      'settled', 'usage', 'completed'
    FROM (${callsOf(options, first, last)}) x`)
}

/** The calls from number `first` on and before `last`: unequally many of each account and model. */
function callsOf({ payers, terms_ids, calls, until_ms }: Fill, first: number, last: number): SQL {
  const from_ms = until_ms - SPAN_DAYS * DAY_MS
  const list = (ids: readonly string[]) => sql.raw(`'{${ids.join(",")}}'::uuid[]`)
  const step_ms = sql.raw(String((SPAN_DAYS * DAY_MS) / calls))
  return sql`
    SELECT c.n, (lpad(to_hex(c.ms), 12, '0') || '7' || lpad(to_hex(c.n % 4096), 3, '0') || '8000' || lpad(to_hex(c.n), 12, '0'))::uuid AS id,
      to_timestamp(c.ms / 1000.0) AS at, (${list(payers.map(({ account_id }) => account_id))})[c.payer] AS account_id,
      (${list(payers.map(({ key_id }) => key_id))})[c.payer] AS key_id, c.output,
      (${sql.raw(`'{${terms_ids.join(",")}}'::int[]`)})[1 + c.payer * c.n % ${sql.raw(String(terms_ids.length))}] AS terms_id
    FROM (SELECT n, (${sql.raw(String(from_ms))} + n * ${step_ms})::bigint AS ms, 50 + (hashint8(n) & 127) AS output,
        1 + (hashint8(n)::bigint & 65535) * (hashint8(n + 1)::bigint & 65535) * ${sql.raw(String(payers.length))} / (65536::bigint * 65536) AS payer
      FROM generate_series(${sql.raw(String(first))}::bigint, ${sql.raw(String(last - 1))}::bigint) AS n) c`
}
