import { and, desc, eq, getTableColumns, type SQL, sql } from "drizzle-orm"
import { type CreditKind, DEFAULT_PRIORITY } from "../../wire/credits.ts"
import { withDeadline } from "../database/deadline.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { type Db, firstRow } from "../database/statement.ts"
import { AccountMoving, NoAnswer } from "../entries.ts"
import { calls, credits } from "../schema/tables.ts"
import { type Account, getAccountRow } from "./accounts.ts"
import { type EndedGrant, endedGrants, openGrants } from "./grants.ts"

export type Credit = typeof credits.$inferSelect

/** A grant (D95), or a correction. The same `id` or `source_ref` again never moves money twice. */
export interface CreditOrder {
  readonly id: string
  readonly account_id: string
  readonly amount_nano: bigint
  readonly reason: string | null
  readonly kind?: CreditKind | undefined
  readonly priority?: number | undefined
  readonly effective_at?: Date | undefined
  readonly expires_at?: Date | undefined
  readonly source_ref?: string | undefined
  /** The call that it refunds (D106). */
  readonly call_id?: string | undefined
  /** The facts about that call from other shards. */
  readonly refunds?: RefundedCall | undefined
}

/** A call of an account, in one shard: its charge, null if the call is not there or open, and its refunds. */
interface RefundedCall {
  readonly charge_nano: bigint | null
  readonly refunded_nano: bigint
}

export type CreditResult =
  | { readonly outcome: "credited" | "known"; readonly credit: CreditStanding; readonly account: Account }
  /** The id or the reference belongs to a credit of another amount or account. */
  | { readonly outcome: "conflict"; readonly field: "id" | "source_ref" }
  | { readonly outcome: "no_account" | "out_of_range" }
  /**
   * It would already have expired; or the account has no such call, the call is open, or its refunds would exceed its
   * charge.
   */
  | { readonly outcome: (typeof refusals)[number] }

const refusals = ["expired", "no_call", "call_open", "over_charge"] as const

/** Bound of a balance after a credit: half of an int8, so that balance, held and sums of both fit in one. */
export const MAX_BALANCE_NANO = 4_000_000_000_000_000_000n

/** Writes the credit and moves the balance in one statement. Throws `AccountMoving` (D76). */
export async function credit(database: Db, order: CreditOrder): Promise<CreditResult> {
  const outcome = await outcomeOf(database, add(order))
  if (outcome === "no_account") return { outcome }
  const known = await findCredit(database, order)
  if (known === null) {
    if (outcome === "account_moving") throw new AccountMoving()
    return { outcome: refusals.find((refusal) => refusal === outcome) ?? "out_of_range" }
  }
  const conflict = outcome === "credited" ? null : conflictOf(known, order)
  if (conflict !== null) return conflict
  return { outcome: outcome === "credited" ? outcome : "known", ...(await standingOf(database, known)) }
}

async function standingOf(database: Db, credit: Credit) {
  const account = await getAccountRow(database, credit.account_id)
  const [standing] = await withRemaining(database, credit.account_id, [credit])
  if (account === null || standing === undefined) throw new Error("a credit has no account")
  return { credit: standing, account }
}

/** The conflict of an order with the credit that has its id or reference; null if it is the same order again. */
export function conflictOf(
  known: Credit,
  order: Omit<CreditOrder, "id"> & { readonly id?: string | undefined },
): (CreditResult & { readonly outcome: "conflict" }) | null {
  const { account_id, amount_nano, source_ref = null, call_id = null } = order
  if (
    known.account_id === account_id &&
    known.amount_nano === amount_nano &&
    known.call_id === call_id &&
    (source_ref === null || known.source_ref === source_ref)
  )
    return null
  return { outcome: "conflict", field: known.id === order.id ? "id" : "source_ref" }
}

const time = (at: Date | undefined) => at?.toISOString() ?? null

function add(order: CreditOrder): SQL {
  const { id, account_id, amount_nano, reason, effective_at, expires_at } = order
  const {
    kind = amount_nano < 0n ? "correction" : order.call_id === undefined ? "payment" : "refund",
    priority = DEFAULT_PRIORITY,
    source_ref = null,
    call_id = null,
    refunds = { charge_nano: null, refunded_nano: 0n },
  } = order
  return sql`SELECT tollgate.add_credit(${id}::uuid, ${account_id}::uuid, ${amount_nano.toString()}::bigint, ${reason}::text,
    ${kind}::text, ${priority}::integer, ${time(effective_at)}::timestamptz, ${time(expires_at)}::timestamptz,
    ${source_ref}::text, ${MAX_BALANCE_NANO.toString()}::bigint, ${call_id}::uuid, ${refunds.charge_nano?.toString() ?? null}::bigint,
    ${refunds.refunded_nano.toString()}::bigint) AS outcome`
}

/** A call as refunds see it (D106). Its charge counts only in the account that paid it. */
export async function refundedCall(
  database: Db,
  call_id: string,
  account_id?: string,
): Promise<RefundedCall> {
  const [found] = await database.execute<{ charge: string | null; refunded: string }>(sql`
    SELECT (SELECT ${calls.charge_nano}::text FROM ${calls} WHERE ${calls.id} = ${call_id}::uuid
        AND ${calls.account_id} = ${account_id ?? null}::uuid) AS charge,
      tollgate.refunded_of(${call_id}::uuid)::text AS refunded`)
  if (found === undefined) throw new Error("the refunds of a call returned nothing")
  const { charge, refunded } = found
  return { charge_nano: charge === null ? null : BigInt(charge), refunded_nano: BigInt(refunded) }
}

export async function refundedOf(database: Db, call_id: string): Promise<bigint> {
  return (await refundedCall(database, call_id)).refunded_nano
}

/** Longest wait of a receipt for the refunds in other shards. */
const REFUNDS_MS = 2_000

/** The sum of a call's refunds in several shards; null if one does not answer within `REFUNDS_MS`. */
export async function addRefunds(refunds: readonly Promise<bigint>[]): Promise<bigint | null> {
  try {
    const parts = await withDeadline(Promise.all(refunds), REFUNDS_MS, () => null)
    return parts?.reduce((sum, part) => sum + part, 0n) ?? null
  } catch (error) {
    if (error instanceof NoAnswer) return null
    throw error
  }
}

/** The facts about a call from several shards, together. */
export function addRefunded(parts: readonly RefundedCall[]): RefundedCall {
  return {
    charge_nano: parts.find(({ charge_nano }) => charge_nano !== null)?.charge_nano ?? null,
    refunded_nano: parts.reduce((sum, { refunded_nano }) => sum + refunded_nano, 0n),
  }
}

async function outcomeOf(database: Db, question: SQL): Promise<string> {
  const [row] = await database.execute<{ outcome: string }>(question)
  if (row === undefined) throw new Error("a function of the ledger returned nothing")
  return row.outcome
}

/** The credit of this id or, if there is none, of this reference. */
export async function findCredit(
  database: Db,
  { id, source_ref }: Pick<CreditOrder, "source_ref"> & { readonly id?: string | undefined },
): Promise<Credit | null> {
  const known = id === undefined ? null : await getCredit(database, id)
  if (known !== null || source_ref === undefined) return known
  return firstRow(database.select().from(credits).where(eq(credits.source_ref, source_ref)))
}

/** Result of a void. `known`: nothing was left of it. `no_grant`: its amount is negative. */
type VoidResult =
  | { readonly outcome: "voided" | "known"; readonly credit: CreditStanding; readonly account: Account }
  | { readonly outcome: "no_grant" }

/** Takes back the rest of a credit; null if there is none. Money that open calls hold is taken back when they end (D95). */
export async function voidCredit(
  database: Db,
  id: string,
  reason: string | null,
): Promise<VoidResult | null> {
  const outcome = await outcomeOf(
    database,
    sql`SELECT tollgate.void_credit(${id}::uuid, ${reason}::text) AS outcome`,
  )
  const known = await getCredit(database, id)
  if (known === null) return null
  if (outcome === "no_grant") return { outcome }
  return { outcome: outcome === "voided" ? outcome : "known", ...(await standingOf(database, known)) }
}

export function getCredit(database: Db, id: string): Promise<Credit | null> {
  return firstRow(database.select().from(credits).where(eq(credits.id, id)))
}

/** Parts of a credit's amount. The rest of it was spent, or has moved to another shard. */
interface Remaining extends EndedGrant {
  readonly left_nano: bigint
}

export type CreditStanding = Credit & Remaining

export async function withRemaining<Found extends Credit>(
  database: Db,
  account_id: string,
  found: readonly Found[],
): Promise<readonly (Found & Remaining)[]> {
  const ids = found.map(({ id }) => id)
  const [open, ended] = await Promise.all([
    openGrants(database, account_id),
    endedGrants(database, account_id, ids),
  ])
  const left = new Map(open.map(({ credit_id, left_nano }) => [credit_id, left_nano]))
  return found.map((credit) => ({
    ...credit,
    ...(ended.get(credit.id) ?? { expired_nano: 0n, voided_nano: 0n }),
    left_nano: left.get(credit.id) ?? 0n,
  }))
}

/** A credit and its time in microseconds, which is the order of credits. */
interface TimedCredit extends Credit {
  readonly at_us: string
}

const at_us = sql<string>`(extract(epoch FROM ${credits.created_at}) * 1000000)::bigint::text`
const timed = { ...getTableColumns(credits), at_us }

export function getTimedCredit(database: Db, id: string): Promise<TimedCredit | null> {
  return firstRow(database.select(timed).from(credits).where(eq(credits.id, id)))
}

/** The newest credits of an account, `most` of them at most: those before a credit of any shard, or all. */
export async function creditsBefore(
  database: Db,
  account_id: string,
  before: TimedCredit | null,
  most: number,
): Promise<readonly (TimedCredit & CreditStanding)[]> {
  const made = sql`(${credits.created_at}, ${credits.id})`
  const found = await database
    .select(timed)
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
  return withRemaining(database, account_id, found)
}

/** Credits of several shards, newest first, as a page. */
export function pageOfCredits<Found extends TimedCredit>(found: readonly Found[], page: Page): PageOf<Found> {
  const timeOf = ({ at_us }: TimedCredit) => BigInt(at_us)
  const sorted = found.toSorted((left, right) => {
    const difference = timeOf(right) - timeOf(left)
    if (difference !== 0n) return difference > 0n ? 1 : -1
    return left.id < right.id ? 1 : -1
  })
  return paged(sorted, page)
}
