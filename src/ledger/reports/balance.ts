import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { accounts, corrections, credits, ends, holds } from "../schema.ts"
import { scan } from "./span.ts"

/** What an account had at a moment. */
export interface PastBalance {
  readonly balance_nano: bigint
  readonly held_nano: bigint
}

const a = alias(accounts, "a")

/**
 * What stood on an account at a moment of the ledger's clock: what stands there now without the entries that were made
 * then or later, so that a range of a report leads from one balance to the next (D48, D55). Null when there is no such account.
 */
export async function balanceAt(
  database: PostgresJsDatabase,
  account_id: string,
  at: Date,
): Promise<PastBalance | null> {
  const moment = sql`${at.toISOString()}::timestamptz`
  const since = (sum: ReturnType<typeof sql>, from: ReturnType<typeof sql>) =>
    sql`coalesce((SELECT sum(${sum}) FROM ${from} >= ${moment}), 0)`
  const own = sql`${account_id}::uuid`
  const rows = await scan(database, (transaction) =>
    transaction.execute<{ balance: string; held: string }>(sql`
    SELECT (${a.balance_nano}
        - ${since(sql`${credits.amount_nano}`, sql`${credits} WHERE ${credits.account_id} = ${own} AND ${credits.created_at}`)}
        + ${since(sql`${ends.charge_nano}`, sql`${ends} WHERE ${ends.account_id} = ${own} AND ${ends.ended_at}`)}
        + ${since(
          sql`${corrections.difference_nano}`,
          sql`${corrections} WHERE ${corrections.account_id} = ${own} AND ${corrections.corrected_at}`,
        )})::text AS balance,
      (${a.held_nano}
        - ${since(sql`${holds.amount_nano}`, sql`${holds} WHERE ${holds.account_id} = ${own} AND ${holds.held_at}`)}
        + ${since(sql`${ends.freed_nano}`, sql`${ends} WHERE ${ends.account_id} = ${own} AND ${ends.ended_at}`)})::text AS held
    FROM ${accounts} ${a} WHERE ${a.id} = ${own}`),
  )
  const [row] = rows
  return row === undefined ? null : { balance_nano: BigInt(row.balance), held_nano: BigInt(row.held) }
}
