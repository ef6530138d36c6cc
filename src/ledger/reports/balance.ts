import { sql } from "drizzle-orm"
import { applyChanges } from "../accounts/accounts.ts"
import { amount, type RowOf, RowShape } from "../database/row-shape.ts"
import { piecesOf, type SummedUntil, scan } from "../database/span.ts"
import { type Db, instant, type Row } from "../database/statement.ts"
import { effectOf, isImmediate } from "../money/grants.ts"
import { a, n } from "../schema/aliases.ts"
import { grant_entries } from "../schema/grants.ts"
import { accounts, credits } from "../schema/tables.ts"
import { changesOf } from "./changes.ts"

const balances = new RowShape({ balance_nano: amount, held_nano: amount })

export type PastBalance = RowOf<typeof balances>

/** The amounts at a past time: the current ones without the entries made then or later (D48, D55), or null. */
export async function balanceAt(database: Db, account_id: string, at: Date): Promise<PastBalance | null> {
  await applyChanges(database, [account_id])
  return scan(database, (transaction, until) => balanceIn(transaction, until, account_id, at))
}

/** The same in a snapshot, as `scan` gives it. The account's due changes must have been applied. */
export async function balanceIn(
  transaction: Db,
  until: SummedUntil,
  account_id: string,
  at: Date,
): Promise<PastBalance | null> {
  const own = sql`${account_id}::uuid`
  const moment = instant(at)
  const pieces = piecesOf({ from: at, to: null }, until)
  const changes = changesOf(pieces, { with_holds: true }, { account_ids: [account_id], is_total: false })
  const [row] = await transaction.execute<Row>(sql`
    SELECT (${a.balance_nano} + since.charge_nano - coalesce((
        SELECT sum(${credits.amount_nano}) FROM ${credits}
        WHERE ${credits.account_id} = ${own} AND ${credits.created_at} >= ${moment} AND ${isImmediate(credits)}), 0)
      - coalesce((
        SELECT sum(${effectOf(n)}) FROM ${grant_entries} ${n} WHERE ${n.account_id} = ${own} AND ${n.at} >= ${moment}), 0))::text AS balance_nano,
      (${a.held_nano} - since.held_nano)::text AS held_nano
    FROM ${accounts} ${a} CROSS JOIN (
      SELECT coalesce(sum(x.charge_nano), 0) AS charge_nano, coalesce(sum(x.held_nano), 0) AS held_nano FROM ${changes} x) since
    WHERE ${a.id} = ${own}`)
  return row === undefined ? null : balances.read(row)
}

/** The sums of an account's past balances in all shards (D74); null if it is in none. */
export async function addBalances(parts: readonly (PastBalance | null)[]): Promise<PastBalance | null> {
  const [sum = null] = await balances.merge([parts.filter((part) => part !== null)])
  return sum
}
