import { type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { recordOf } from "../../kinds.ts"
import { recordedKinds } from "../../wire/credits.ts"
import { applyChanges, applyDueChanges } from "../accounts/accounts.ts"
import { amount, count, type RowOf, RowShape, text, word } from "../database/row-shape.ts"
import { piecesOf, scan } from "../database/span.ts"
import { type Db, instant, nanoOf, type Row } from "../database/statement.ts"
import { effectOf, isImmediate } from "../money/grants.ts"
import { a, n, t } from "../schema/aliases.ts"
import { grant_entries } from "../schema/grants.ts"
import { accounts, credits, terms } from "../schema/tables.ts"
import { balanceIn } from "./balance.ts"
import { changesOf } from "./changes.ts"
import { countedColumns, countedSums } from "./counted.ts"

/** Statements of accounts, and the trial balance of all (D106). */

/** Credits of a kind that came to balances; a grant that begins later comes at its start. */
const flows = new RowShape({ kind: word(recordedKinds), credits: count, amount_nano: amount })
type KindFlow = RowOf<typeof flows>

/** Charges of ended calls to a model, with the differences of corrections (D13), the dearest model first. */
const charges = new RowShape({ model: text, ...countedColumns }, (one, other) =>
  one.charge_nano > other.charge_nano ? -1 : 1,
)

/** The balances of an account at the start and the end of a time, and everything that changed it between them. */
export interface AccountStatement {
  readonly opening_nano: bigint
  readonly credits: readonly KindFlow[]
  readonly charges: readonly RowOf<typeof charges>[]
  readonly expired_nano: bigint
  readonly voided_nano: bigint
  readonly closing_nano: bigint
}

const c = alias(credits, "c")

/** Credits by kind, and `expired` and `voided`. Moves (D76) are of the kind `moved`, 0 over all shards together. */
function kindsBetween(from: SQL | null, to: SQL, account_id: string | null): SQL {
  const within = (at: SQL) => sql`${from === null ? sql`true` : sql`${at} >= ${from}`} AND ${at} < ${to}`
  const own = (column: SQL) => (account_id === null ? sql`true` : sql`${column} = ${account_id}::uuid`)
  const kind = sql`CASE WHEN ${c.kind} IS NOT NULL THEN ${c.kind} WHEN ${c.amount_nano} < 0 THEN 'correction' ELSE 'payment' END`
  const has_moved = sql`${c.moved_with} IS NOT NULL OR (${c.kind} IS NULL AND ${c.reason} ~ '^Moved (to|from) shard ')`
  return sql`SELECT x.kind, count(*)::text AS credits, sum(x.amount_nano)::text AS amount_nano FROM (
      SELECT CASE WHEN ${has_moved} THEN 'moved' ELSE ${kind} END AS kind, ${c.amount_nano} FROM ${credits} ${c}
      WHERE ${own(sql`${c.account_id}`)} AND ${within(sql`${c.created_at}`)} AND ${isImmediate(c)}
      UNION ALL
      SELECT CASE ${n.change} WHEN 'started' THEN ${kind} ELSE ${n.change} END, abs(${effectOf(n)})
      FROM ${grant_entries} ${n} JOIN ${credits} ${c} ON ${c.id} = ${n.credit_id}
      WHERE ${own(sql`${n.account_id}`)} AND ${within(sql`${n.at}`)} AND ${n.change} IN ('started', 'expired', 'voided')) x
    GROUP BY x.kind`
}

function flowsOf(rows: readonly Row[]) {
  const of = (kind: string) => rows.filter((row) => row.kind === kind)
  const [expired, voided] = ["expired", "voided"].map(
    (kind) => of(kind).map((row) => nanoOf(row, "amount_nano"))[0],
  )
  return {
    credits: recordedKinds.flatMap((kind) => of(kind).map((row) => flows.read(row))),
    expired_nano: expired ?? 0n,
    voided_nano: voided ?? 0n,
  }
}

/** The statement of an account in one shard, in one snapshot. Null if it is not there. */
export async function accountStatement(
  database: Db,
  account_id: string,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<AccountStatement | null> {
  await applyChanges(database, [account_id])
  return scan(database, async (transaction, until) => {
    const balanceAt = (at: Date) => balanceIn(transaction, until, account_id, at)
    const [opening, closing] = [await balanceAt(from), await balanceAt(to)]
    if (opening === null || closing === null) return null
    const kinds = await transaction.execute<Row>(kindsBetween(instant(from), instant(to), account_id))
    const filter = { account_ids: [account_id], is_total: false }
    const changes = changesOf(piecesOf({ from, to }, until), { with_holds: false }, filter)
    const charged = await transaction.execute<Row>(sql`
      SELECT ${t.model}, ${countedSums}
      FROM ${changes} x JOIN ${terms} ${t} ON ${t.id} = x.terms_id GROUP BY ${t.model}`)
    return {
      ...flowsOf(kinds),
      opening_nano: opening.balance_nano,
      closing_nano: closing.balance_nano,
      charges: charged.map((row) => charges.read(row)),
    }
  })
}

/** The statement over all shards, or null. Rejects if it does not add up. */
export async function addStatements(
  parts: readonly (AccountStatement | null)[],
): Promise<AccountStatement | null> {
  const found = parts.filter((part) => part !== null)
  if (found.length === 0) return null
  const whole: AccountStatement = {
    ...sumsOf(["opening_nano", "closing_nano", "expired_nano", "voided_nano"], found),
    credits: await addKinds(found.map(({ credits }) => credits)),
    charges: await charges.merge(found.map((part) => part.charges)),
  }
  const credited = whole.credits.reduce((total, { amount_nano }) => total + amount_nano, 0n)
  const charged = whole.charges.reduce((total, { charge_nano }) => total + charge_nano, 0n)
  const expected_nano = whole.opening_nano + credited - charged - whole.expired_nano - whole.voided_nano
  if (expected_nano !== whole.closing_nano) throw new Error("a statement of an account does not add up")
  return whole
}

/** The sum of each of these amounts over all parts. */
const sumsOf = <Name extends string>(
  names: readonly Name[],
  parts: readonly Readonly<Record<Name, bigint>>[],
) => recordOf(names, (name) => parts.reduce((total, part) => total + part[name], 0n))

/** Money that moved from one shard to another is none that came or went. */
async function addKinds(parts: readonly (readonly KindFlow[])[]): Promise<KindFlow[]> {
  const kinds = await flows.merge(parts)
  return kinds.filter(({ kind, amount_nano }) => kind !== "moved" || amount_nano !== 0n)
}

export type TrialBalance = Awaited<ReturnType<typeof trialBalance>>

/**
 * The trial balance, in one snapshot: the balances of all accounts at a moment, without later changes, and all money that came and went before
 * it, from the beginning, computed apart. Positive and negative: the sums of the balances above and below 0.
 */
export async function trialBalance(database: Db, at: Date) {
  await applyDueChanges(database)
  return scan(database, async (transaction, until) => {
    const moment = instant(at)
    const since = changesOf(
      piecesOf({ from: at, to: null }, until),
      { with_holds: true },
      { is_total: false },
    )
    const [sums] = await transaction.execute<
      Record<"accounts" | "positive" | "negative" | "held", string>
    >(sql`
      WITH changed AS (
        SELECT x.account_id, sum(x.charge_nano) AS nano, sum(x.held_nano) AS held_nano FROM ${since} x GROUP BY x.account_id
        UNION ALL SELECT ${c.account_id}, -sum(${c.amount_nano}), 0 FROM ${credits} ${c}
          WHERE ${c.created_at} >= ${moment} AND ${isImmediate(c)} GROUP BY ${c.account_id}
        UNION ALL SELECT ${n.account_id}, -sum(${effectOf(n)}), 0 FROM ${grant_entries} ${n}
          WHERE ${n.at} >= ${moment} GROUP BY ${n.account_id}
      ), summed AS (
        SELECT account_id, sum(nano) AS nano, sum(held_nano) AS held_nano FROM changed GROUP BY account_id
      ), past AS (
        SELECT ${a.moved_to} IS NULL AND ${a.created_at} < ${moment} AS is_counted, ${a.balance_nano} + coalesce(s.nano, 0) AS nano,
          ${a.held_nano} - coalesce(s.held_nano, 0) AS held_nano
        FROM ${accounts} ${a} LEFT JOIN summed s ON s.account_id = ${a.id}
      )
      SELECT count(*) FILTER (WHERE is_counted)::text AS accounts, coalesce(sum(nano) FILTER (WHERE nano > 0), 0)::text AS positive,
        coalesce(sum(nano) FILTER (WHERE nano < 0), 0)::text AS negative, coalesce(sum(held_nano), 0)::text AS held FROM past`)
    const kinds = await transaction.execute<Row>(kindsBetween(null, moment, null))
    const before = changesOf(
      piecesOf({ from: new Date(0), to: at }, until),
      { with_holds: false },
      { is_total: true },
    )
    const [charged] = await transaction.execute<{ nano: string }>(
      sql`SELECT coalesce(sum(x.charge_nano), 0)::text AS nano FROM ${before} x`,
    )
    if (sums === undefined || charged === undefined) throw new Error("a trial balance returned nothing")
    return {
      ...flowsOf(kinds),
      accounts: Number(sums.accounts),
      positive_nano: BigInt(sums.positive),
      negative_nano: BigInt(sums.negative),
      held_nano: BigInt(sums.held),
      charged_nano: BigInt(charged.nano),
    }
  })
}

export async function addTrialBalances(parts: readonly TrialBalance[]): Promise<TrialBalance> {
  return {
    accounts: parts.reduce((total, { accounts }) => total + accounts, 0),
    ...sumsOf(["positive_nano", "negative_nano", "held_nano"], parts),
    ...sumsOf(["charged_nano", "expired_nano", "voided_nano"], parts),
    credits: await addKinds(parts.map(({ credits }) => credits)),
  }
}
