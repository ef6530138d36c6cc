import { sql } from "drizzle-orm"
import { BatchQueue } from "../database/batch-queue.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import { names, type Statement, statement, textOf } from "../database/statement.ts"
import { forgetCheckpoints } from "../money/checkpoints.ts"
import { expireBatch, type Orphan } from "../money/expire.ts"
import { type Lease, nothingOpen, openHolds } from "../money/lease.ts"
import { g, h } from "../schema/aliases.ts"
import { gateways } from "../schema/tables.ts"
import type { Outstanding } from "./outstanding.ts"

const STATEMENT_MS = 10_000
const PAGE = 1_000
/** Longest wait of one page for locked accounts. The next page finds what it leaves. */
const PAGE_MS = 5_000
/** Minimum time after a gateway's death during which the sweep searches for its late holds. */
const LATE_MS = 60_000

/** Declares a gateway with an expired lease dead, in one locked row, if the sweeper's own lease is fresh (D35). */
const declareDead = statement(
  "sweep",
  sql`
WITH lapsed AS MATERIALIZED (
  SELECT ${g.id}, now() AS dead_at FROM ${gateways} ${g} WHERE ${g.dead_at} IS NULL AND ${g.lease_until} < now()
    AND EXISTS (SELECT FROM ${gateways} me WHERE me.id = $1::uuid AND me.dead_at IS NULL
      AND me.lease_until > now() + $2::int * interval '1 millisecond')
  ORDER BY ${g.id} LIMIT 1 FOR UPDATE OF g SKIP LOCKED
)
UPDATE ${gateways} ${g} SET ${names(gateways.dead_at)} = l.dead_at FROM lapsed l WHERE ${g.id} = l.id RETURNING ${g.id}`,
)

const findDead = statement(
  "sweep",
  sql`SELECT ${g.id}, ${g.floor_id} FROM ${gateways} ${g}
    WHERE ${g.dead_at} IS NOT NULL AND ${g.swept_at} IS NULL ORDER BY ${g.id}`,
)

const findOrphans = statement(
  "sweep",
  sql`SELECT ${h.id}, ${h.account_id} FROM ${openHolds(sql`$1::uuid`, sql`$2::uuid`)}
    ORDER BY ${h.id} LIMIT ${sql.raw(String(PAGE))}`,
)

/**
 * Marks a gateway as swept once it has no open hold and cannot get one. A holding statement that began before the gateway was
 * declared dead may still insert a hold, so that moment must be long ago, and every older transaction must have ended.
 */
const markSwept = statement(
  "sweep",
  sql`
UPDATE ${gateways} ${g} SET ${names(gateways.swept_at)} = now()
WHERE ${g.id} = $1::uuid AND ${g.swept_at} IS NULL AND ${g.dead_at} < now() - $2::int * interval '1 millisecond'
  AND ${nothingOpen}
  AND NOT EXISTS (SELECT FROM pg_stat_activity s WHERE s.datname = current_database() AND s.pid <> pg_backend_pid()
    AND s.backend_type = 'client backend' AND s.xact_start < ${g.dead_at} + $2::int / 2 * interval '1 millisecond')
RETURNING ${g.id}`,
)

/** Expires the open holds of dead gateways (D13, D35), and tells how many. Any number of processes may sweep concurrently. */
export function holdSweeper(
  connection: DatabaseConnection,
  lease: Lease,
  onExpired: (count: number) => void,
  late_ms = LATE_MS,
) {
  const expiries = new BatchQueue(connection, {
    accountOf: ({ account_id }) => account_id,
    run: expireBatch,
  })
  /** Holds that an audit found (D73). */
  let abandoned: readonly Orphan[] = []
  const query = (statement: Statement, ...values: readonly string[]) =>
    connection.run(statement, values, STATEMENT_MS)

  async function declareAll(): Promise<void> {
    const { gateway_id, min_remaining_ms: fresh_ms } = lease
    for (;;) {
      const declared = await query(declareDead, gateway_id, String(Math.round(fresh_ms)))
      if (declared.length === 0) return
    }
  }

  async function sweep(gateway_id: string, floor_id: string, isDue = (_: Orphan) => true): Promise<void> {
    for (let from = floor_id; ; ) {
      const rows = await query(findOrphans, gateway_id, from)
      const orphans = rows.map((row) => ({ id: textOf(row, "id"), account_id: textOf(row, "account_id") }))
      await expireAll(orphans.filter(isDue))
      const last = orphans.at(-1)
      if (last === undefined || orphans.length < PAGE) return
      from = last.id
    }
  }

  async function expireAll(orphans: readonly Orphan[]): Promise<void> {
    const results = await Promise.allSettled(orphans.map((orphan) => expiries.submit(orphan, PAGE_MS)))
    const count = results.filter((result) => result.status === "fulfilled" && result.value).length
    if (count > 0) onExpired(count)
  }

  return {
    /** Adds open holds that nobody can end; the next run expires them. */
    add(found: readonly Orphan[]): void {
      abandoned = [...abandoned, ...found]
    },
    /** Expires the open holds of this process that it does not know of, because a failover has lost their ends (D73). */
    expireUnknown: (outstanding: Outstanding) =>
      sweep(lease.gateway_id, outstanding.floor, ({ id }) => !outstanding.has(id)),
    async run(): Promise<void> {
      const found = abandoned
      abandoned = []
      await expireAll(found)
      if (lease.steady) await declareAll()
      for (const row of await query(findDead)) {
        const gateway_id = textOf(row, "id")
        await sweep(gateway_id, textOf(row, "floor_id"))
        const swept = await query(markSwept, gateway_id, String(late_ms))
        if (swept.length > 0) await query(forgetCheckpoints, gateway_id)
      }
    },
    stop: () => expiries.stop(),
  }
}
