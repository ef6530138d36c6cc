import { lt, sql } from "drizzle-orm"
import type { Trouble } from "../../wire/alerts.ts"
import type { Db } from "../database/statement.ts"
import { alerts, upstream_troubles } from "../schema/alerts.ts"
import { accounts, gateways } from "../schema/tables.ts"

/** Alerts (D96): written once by the gateway that notices, however many there are. */

/** Accounts that one run looks at. The next one finds the others. */
const PAGE = 200
/** An upstream has at most one alert of a kind in this time, so that a flapping one does not write many. */
const QUIET = sql.raw("interval '1 minute'")
const KEPT_DAYS = 90
// Parameters, because in the text of a statement the name of the schema is replaced (D74).
const LOW = "tollgate.balance.low"
const UPSTREAM = "tollgate.upstream."

/** Writes an alert for each account whose balance has fallen below its threshold, once until it has recovered. */
export async function alertLowBalances(database: Db): Promise<void> {
  const is_low = sql`(a.balance_nano < a.low_balance_nano)`
  await database.execute(sql`
    WITH due AS MATERIALIZED (
      SELECT a.id FROM ${accounts} a WHERE a.low_balance_nano IS NOT NULL AND a.moved_to IS NULL AND a.is_balance_low <> ${is_low}
      ORDER BY a.id LIMIT ${PAGE}::int FOR NO KEY UPDATE SKIP LOCKED
    ), changed AS (
      UPDATE ${accounts} a SET is_balance_low = NOT a.is_balance_low FROM due
      WHERE a.id = due.id AND a.is_balance_low <> ${is_low}
      RETURNING a.id, a.is_balance_low, a.balance_nano, a.low_balance_nano
    )
    INSERT INTO ${alerts} (type, account_id, details)
    SELECT ${LOW}::text, c.id,
      jsonb_build_object('balance', c.balance_nano::text, 'threshold', c.low_balance_nano::text)
    FROM changed c WHERE c.is_balance_low`)
}

/** Notes the troubles of upstreams, and writes an alert for each change. */
export async function noteTroubles(
  database: Db,
  gateway_id: string,
  seen: readonly Trouble[],
): Promise<void> {
  await database.execute(sql`
    WITH seen AS (
      SELECT s.upstream, coalesce(s.key, '') AS key, s.trouble, s.is_on
      FROM json_to_recordset(${JSON.stringify(seen)}::text::json) AS s (upstream text, key text, trouble text, is_on boolean)
    ), changed AS (
      INSERT INTO ${upstream_troubles} AS t (upstream, key, trouble, is_on, gateway_id)
      SELECT s.upstream, s.key, s.trouble, s.is_on, ${gateway_id}::uuid FROM seen s
      WHERE s.is_on OR EXISTS (SELECT FROM ${upstream_troubles} o
        WHERE o.upstream = s.upstream AND o.key = s.key AND o.trouble = s.trouble AND o.is_on)
      ORDER BY s.upstream, s.key, s.trouble
      ON CONFLICT (upstream, key, trouble) DO UPDATE
        SET is_on = excluded.is_on, gateway_id = excluded.gateway_id, changed_at = now()
        WHERE t.is_on <> excluded.is_on AND t.changed_at < now() - ${QUIET} AND (excluded.is_on
          OR t.gateway_id = excluded.gateway_id OR NOT EXISTS (SELECT FROM ${gateways} g
            WHERE g.id = t.gateway_id AND g.dead_at IS NULL AND g.lease_until > now()))
      RETURNING t.upstream, t.key, t.trouble, t.is_on
    )
    INSERT INTO ${alerts} (type, details)
    SELECT ${UPSTREAM}::text || CASE WHEN c.is_on THEN c.trouble ELSE 'up' END,
      jsonb_build_object('upstream', c.upstream, 'upstream_key', nullif(c.key, ''))
    FROM changed c WHERE c.is_on OR c.trouble = 'down'`)
}

export async function forgetAlerts(database: Db): Promise<void> {
  await database.delete(alerts).where(lt(alerts.at, sql`now() - ${KEPT_DAYS}::int * interval '1 day'`))
}
