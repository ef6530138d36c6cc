import { and, desc, eq, getTableColumns, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { names } from "../database/statement.ts"
import { AccountMoving } from "../entries.ts"
import { accounts, credits } from "../schema/tables.ts"
import type { Account } from "./accounts.ts"

export type Credit = typeof credits.$inferSelect

/** Money to put on an account; a negative amount is a correction. The same `id` again never moves money twice. */
export interface CreditOrder {
  readonly id: string
  readonly account_id: string
  readonly amount_nano: bigint
  readonly reason: string | null
}

export type CreditResult =
  | { readonly outcome: "credited" | "known"; readonly credit: Credit; readonly account: Account }
  /** The id belongs to a credit of another amount or account. */
  | { readonly outcome: "conflict" }
  | { readonly outcome: "no_account" }
  | { readonly outcome: "out_of_range" }

/** Bound of a balance after a credit: half of an int8, so that balance, held and sums of both fit in one. */
export const MAX_BALANCE_NANO = 4_000_000_000_000_000_000n

/**
 * Writes the credit and moves the balance in one statement. Rejects with `AccountMoving` if the account is in another shard
 * (D76).
 */
export async function credit(database: PostgresJsDatabase, order: CreditOrder): Promise<CreditResult> {
  const [moved] = await database.execute<{ fits: boolean; inserted: boolean; is_away: boolean }>(move(order))
  if (moved === undefined) return { outcome: "no_account" }
  const [known] = await database
    .select({ credit: credits, account: accounts })
    .from(credits)
    .innerJoin(accounts, eq(accounts.id, credits.account_id))
    .where(eq(credits.id, order.id))
  if (known === undefined && moved.is_away) throw new AccountMoving()
  if (known === undefined) return { outcome: moved.fits ? "conflict" : "out_of_range" }
  if (moved.inserted) return { outcome: "credited", ...known }
  const same = known.credit.account_id === order.account_id && known.credit.amount_nano === order.amount_nano
  return same ? { outcome: "known", ...known } : { outcome: "conflict" }
}

const a = alias(accounts, "a")

/**
 * Locks the account first, in the mode of the statements that hold and end. Afterwards it only waits for another credit of the
 * same id, which by then needs no other lock, so there is no cycle.
 */
function move({ id, account_id, amount_nano, reason }: CreditOrder) {
  const amount = sql`${amount_nano.toString()}::bigint`
  const limit = sql.raw(MAX_BALANCE_NANO.toString())
  return sql`
    WITH account AS MATERIALIZED (
      SELECT ${a.id}, abs(${a.balance_nano}::numeric + ${amount}) <= ${limit} AS fits,
        ${a.moved_to} IS NOT NULL AS is_away
      FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid FOR NO KEY UPDATE
    ), inserted AS (
      INSERT INTO ${credits} (${names(credits.id, credits.account_id, credits.amount_nano, credits.reason)})
      SELECT ${id}::uuid, account.id, ${amount}, ${reason}::text FROM account WHERE account.fits AND NOT account.is_away
      ON CONFLICT (id) DO NOTHING
      RETURNING ${names(credits.account_id, credits.amount_nano)}
    ), moved AS (
      UPDATE ${accounts} ${a} SET ${names(accounts.balance_nano)} = ${a.balance_nano} + i.amount_nano
      FROM inserted i WHERE ${a.id} = i.account_id RETURNING ${a.id}
    )
    SELECT account.fits, account.is_away, EXISTS (SELECT FROM inserted) AS inserted,
      1 / ((SELECT count(*) FROM moved) = (SELECT count(*) FROM inserted))::int AS whole
    FROM account`
}

export async function getCredit(database: PostgresJsDatabase, id: string): Promise<Credit | null> {
  const [found] = await database.select().from(credits).where(eq(credits.id, id))
  return found ?? null
}

/** A credit and its time in microseconds, which is the order of credits. */
export interface TimedCredit extends Credit {
  readonly at_us: string
}

const at_us = sql<string>`(extract(epoch FROM ${credits.created_at}) * 1000000)::bigint::text`

export async function getTimedCredit(database: PostgresJsDatabase, id: string): Promise<TimedCredit | null> {
  const [found] = await database
    .select({ ...getTableColumns(credits), at_us })
    .from(credits)
    .where(eq(credits.id, id))
  return found ?? null
}

/** The newest credits of an account, `most` of them at most: those before a credit of any shard, or all. */
export async function creditsBefore(
  database: PostgresJsDatabase,
  account_id: string,
  before: TimedCredit | null,
  most: number,
): Promise<readonly TimedCredit[]> {
  const made = sql`(${credits.created_at}, ${credits.id})`
  return database
    .select({ ...getTableColumns(credits), at_us })
    .from(credits)
    .where(
      and(
        eq(credits.account_id, account_id),
        before === null
          ? undefined
          : sql`${made} < (timestamptz 'epoch' + ${before.at_us}::float8 * interval '1 microsecond', ${before.id}::uuid)`,
      ),
    )
    .orderBy(desc(credits.created_at), desc(credits.id))
    .limit(most)
}

/** Credits of several shards, newest first, as a page. */
export function pageOfCredits(found: readonly TimedCredit[], page: Page): PageOf<Credit> {
  const timeOf = ({ at_us }: TimedCredit) => BigInt(at_us)
  const sorted = found.toSorted((left, right) => {
    const difference = timeOf(right) - timeOf(left)
    if (difference !== 0n) return difference > 0n ? 1 : -1
    return left.id < right.id ? 1 : -1
  })
  return paged(sorted, page)
}
