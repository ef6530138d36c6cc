import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { accounts, credits, reservations } from "./schema.ts"

/** What an account's row says and what its journal says instead. */
export interface Violation {
  readonly account_id: string
  readonly kind: "balance" | "held"
  /** Null when the journal has lines of an account that does not exist. */
  readonly recorded_nano: bigint | null
  readonly expected_nano: bigint
}

export interface Audit {
  readonly checked_at: Date
  readonly accounts: number
  readonly open_reservations: number
  readonly violations: readonly Violation[]
}

/** How many violations one audit lists. */
export const MAX_VIOLATIONS = 1_000

/**
 * Recomputes what every account must say from the journal: `balance = credits - charges`, `held = open reservations`.
 * One statement, so one snapshot: calls that are held and settled meanwhile disturb nothing.
 */
export async function audit(database: PostgresJsDatabase): Promise<Audit> {
  const rows = await database.execute<Row>(recompute)
  const [first] = rows
  if (first === undefined) throw new Error("the audit returned nothing")
  return {
    checked_at: new Date(first.checked_at),
    accounts: Number(first.accounts),
    open_reservations: Number(first.open_reservations),
    violations: [...rows].flatMap(violation),
  }
}

/** Every row repeats the summary; without violations there is one row that has only that. */
interface Row extends Record<string, unknown> {
  readonly checked_at: string
  readonly accounts: string
  readonly open_reservations: string
  readonly account_id: string | null
  readonly kind: "balance" | "held" | null
  readonly recorded: string | null
  readonly expected: string | null
}

function violation({ account_id, kind, recorded, expected }: Row): Violation[] {
  if (account_id === null || kind === null || expected === null) return []
  return [
    {
      account_id,
      kind,
      recorded_nano: recorded === null ? null : BigInt(recorded),
      expected_nano: BigInt(expected),
    },
  ]
}

/** Lines without an account are a violation even where they sum up to nothing. */
const recompute = sql`
  WITH line AS (
    SELECT account_id, amount_nano AS balance, 0::bigint AS held, 0 AS open FROM ${credits}
    UNION ALL
    SELECT account_id, -coalesce(charge_nano, 0), CASE WHEN state = 'open' THEN amount_nano ELSE 0 END,
      (state = 'open')::int
    FROM ${reservations}
  ), journal AS MATERIALIZED (
    SELECT account_id, sum(balance) AS balance, sum(held) AS held, sum(open) AS open FROM line GROUP BY account_id
  ), violation AS (
    SELECT coalesce(a.id, j.account_id) AS account_id, said.kind, said.recorded, said.expected
    FROM ${accounts} a
    FULL JOIN journal j ON j.account_id = a.id
    CROSS JOIN LATERAL (
      VALUES ('balance', a.balance_nano, coalesce(j.balance, 0)), ('held', a.held_nano, coalesce(j.held, 0))
    ) AS said (kind, recorded, expected)
    WHERE said.recorded IS DISTINCT FROM said.expected
    LIMIT ${sql.raw(String(MAX_VIOLATIONS))}
  )
  SELECT now() AS checked_at, (SELECT count(*) FROM ${accounts}) AS accounts,
    (SELECT coalesce(sum(open), 0) FROM journal) AS open_reservations,
    account_id, kind, recorded::text, expected::text
  FROM (VALUES (1)) AS once LEFT JOIN violation ON true
  ORDER BY account_id, kind`
