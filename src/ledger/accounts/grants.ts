import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { mapInTurns } from "../../turns.ts"
import { amount, optionalMoment, type RowOf, RowShape, text } from "../database/row-shape.ts"
import { arrayOf, type Db, type Row, textOf } from "../database/statement.ts"
import { a, n } from "../schema/aliases.ts"
import { grant_entries, grant_pins, grants } from "../schema/grants.ts"
import { accounts, credits } from "../schema/tables.ts"

const c = alias(credits, "c")
const g = alias(grants, "g")
const p = alias(grant_pins, "p")

/** A grant with money left, also one that is not effective yet. */
const open_grant = new RowShape({
  credit_id: text,
  /** The rest after the spending until now, with the pinned money of an expired grant. */
  left_nano: amount,
  /** Its amount is not in the balance before; null once it is. */
  starts_at: optionalMoment,
  expires_at: optionalMoment,
})

export type OpenGrant = RowOf<typeof open_grant>

/** Spending since the last change is drawn as `settle_grants` will draw it; without grants, credits by age. */
const question = (account_id: string) => sql`
  WITH account AS MATERIALIZED (
    SELECT ${a.id}, ${a.balance_nano}, ${a.next_change_at} IS NOT NULL AS has_grants FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid
  ), own AS (
    SELECT ${g.credit_id}, ${g.priority}, ${g.starts_at}, ${g.expires_at}, ${g.made_at}, ${g.left_nano} FROM ${grants} ${g}
      WHERE ${g.account_id} = ${account_id}::uuid
    UNION ALL SELECT ${c.id}, ${c.priority}, NULL, NULL, ${c.created_at}, ${c.amount_nano} FROM account JOIN ${credits} ${c}
      ON ${c.account_id} = account.id AND NOT account.has_grants AND ${c.amount_nano} > 0
  ), pinned AS MATERIALIZED (
    SELECT ${p.credit_id}, sum(${p.amount_nano}) AS pinned_nano FROM ${grant_pins} ${p} WHERE ${p.account_id} = ${account_id}::uuid
    GROUP BY ${p.credit_id}
  ), laid AS (
    SELECT o.*, coalesce(sum(o.left_nano) FILTER (WHERE o.starts_at IS NULL) OVER (
        ORDER BY o.priority, coalesce(o.expires_at, 'infinity'), o.made_at, o.credit_id ROWS UNBOUNDED PRECEDING), 0) AS until_nano,
      coalesce(sum(o.left_nano) FILTER (WHERE o.starts_at IS NULL) OVER (), 0)
        + coalesce((SELECT sum(pinned_nano) FROM pinned), 0) - (SELECT balance_nano FROM account) AS spent_nano
    FROM own o
  )
  SELECT credit_id, l.starts_at, coalesce(l.expires_at, (SELECT ${c.expires_at} FROM ${credits} ${c} WHERE ${c.id} = credit_id)) AS expires_at,
    coalesce(l.spent_nano < 0, false) AS has_returned,
    (coalesce(CASE WHEN l.starts_at IS NOT NULL THEN l.left_nano
      ELSE l.left_nano - least(l.left_nano, greatest(0, l.spent_nano - l.until_nano + l.left_nano)) END, 0)
      + coalesce(pinned.pinned_nano, 0))::text AS left_nano
  FROM laid l FULL JOIN pinned USING (credit_id)
  ORDER BY l.priority, coalesce(l.expires_at, 'infinity'), l.made_at, credit_id`

/** The grants of an account with money left, in the draw-down order. Its due changes must have been applied. */
export async function openGrants(database: Db, account_id: string): Promise<readonly OpenGrant[]> {
  let rows = await database.execute<Row>(question(account_id))
  if (rows.some(({ has_returned }) => has_returned === true)) {
    // Money came back, for which `settle_grants` chooses the grant.
    await database.execute(sql`SELECT tollgate.change_grants(${account_id}::uuid)`)
    rows = await database.execute<Row>(question(account_id))
  }
  const open = await mapInTurns(rows, (row) => open_grant.read(row))
  return open.filter(({ left_nano }) => left_nano !== 0n)
}

/** Amounts of a credit that have expired, or were taken back. */
const ended_grant = new RowShape({ expired_nano: amount, voided_nano: amount })

export type EndedGrant = RowOf<typeof ended_grant>

/** The given credits of which a part has expired or was voided. */
export async function endedGrants(
  database: Db,
  account_id: string,
  credit_ids: readonly string[],
): Promise<ReadonlyMap<string, EndedGrant>> {
  const rows = await database.execute<Row>(sql`
    SELECT ${n.credit_id}, coalesce(sum(${n.amount_nano}) FILTER (WHERE ${n.change} = 'expired'), 0)::text AS expired_nano,
      coalesce(sum(${n.amount_nano}) FILTER (WHERE ${n.change} = 'voided'), 0)::text AS voided_nano
    FROM ${grant_entries} ${n}
    WHERE ${n.account_id} = ${account_id}::uuid AND ${n.credit_id} = ANY (${arrayOf(credit_ids, (id) => id)}::uuid[])
      AND ${n.change} IN ('expired', 'voided')
    GROUP BY ${n.credit_id}`)
  return new Map(rows.map((row) => [textOf(row, "credit_id"), ended_grant.read(row)]))
}
