import { type SQL, sql } from "drizzle-orm"
import { alignIds, nextId } from "../../id.ts"
import type { DatabaseConnection } from "../database/connection.ts"
import { names, type Statement, statement } from "../database/statement.ts"
import { e, g, h } from "../schema/aliases.ts"
import { ends, gateways, holds } from "../schema/tables.ts"

/** Deadline of a lease's statement. An overdue renewal is retried immediately. */
const STATEMENT_MS = 2_000

export interface LeaseTimes {
  readonly renew_ms: number
  readonly expire_ms: number
}

const until = sql`now() + $3::int * interval '1 millisecond'`
const ledgerTime = sql`extract(epoch FROM now())::float8 * 1000 AS now_ms`

const acquire = statement(
  "lease",
  sql`
WITH taken AS (
  INSERT INTO ${gateways} (${names(gateways.id, gateways.floor_id, gateways.lease_until)})
  VALUES ($1::uuid, $2::uuid, ${until})
  ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until RETURNING ${names(gateways.id)}
)
SELECT ${ledgerTime} FROM taken`,
)

const renew = statement(
  "lease",
  sql`
WITH renewed AS (
  UPDATE ${gateways} ${g} SET (${names(gateways.lease_until, gateways.floor_id)}) = (${until}, $2::uuid)
  WHERE ${g.id} = $1::uuid AND ${g.dead_at} IS NULL RETURNING ${g.id}
)
SELECT ${ledgerTime} FROM renewed`,
)

/** The open holds `h` of a gateway from `floor_id` on. Without the upper bound the whole journal is read. */
export function openHolds(gateway_id: SQL, floor_id: SQL): SQL {
  return sql`${holds} ${h} WHERE ${h.id} >= ${floor_id} AND ${h.id} <= 'ffffffff-ffff-ffff-ffff-ffffffffffff'
    AND ${h.gateway_id} = ${gateway_id} AND (SELECT ${e.id} FROM ${ends} ${e} WHERE ${e.id} = ${h.id}) IS NULL`
}

/** True if the gateway of the row `g` has no open hold. */
export const nothingOpen = sql`NOT EXISTS (SELECT FROM ${openHolds(sql`${g.id}`, sql`${g.floor_id}`)})`

/** Marks a gateway without open holds as swept. If it has some in the ledger, its lease lapses instead. */
const release = statement(
  "lease",
  sql`
UPDATE ${gateways} ${g} SET (${names(gateways.dead_at, gateways.swept_at)}) = (now(), now())
WHERE ${g.id} = $1::uuid AND ${g.dead_at} IS NULL AND ${nothingOpen}
RETURNING ${g.id}`,
)

export type Lease = ReturnType<typeof leaseOn>

/** The row of this process in `gateways`, by the database's clock. If it was declared dead, a new one follows (D35). */
export function leaseOn(connection: DatabaseConnection, times: LeaseTimes) {
  let own_id = nextId()
  /** The database's time of the last renewal, and of the first renewal since the last gap. */
  let renewed_at = Number.NEGATIVE_INFINITY
  let unbroken_since = Number.NEGATIVE_INFINITY
  let reacquiring: Promise<void> | null = null
  const min_remaining_ms = times.expire_ms / 2

  /** The ledger's time, to which ids are aligned; null if no row was written. */
  async function run(statement: Statement, id: string, floor_id: string): Promise<number | null> {
    const values = [id, floor_id, String(times.expire_ms)]
    const sent_ms = Date.now()
    const [row] = await connection.run(statement, values, STATEMENT_MS)
    if (row === undefined) return null
    const { now_ms } = row
    if (typeof now_ms !== "number") throw new Error("the database did not return the time")
    alignIds(now_ms, sent_ms)
    return now_ms
  }

  function recordRenewal(now_ms: number): void {
    const passed_ms = now_ms - renewed_at
    if (passed_ms < 0 || passed_ms > times.expire_ms - min_remaining_ms) unbroken_since = now_ms
    renewed_at = now_ms
  }

  async function take(id: string, floor_id: string): Promise<void> {
    const now_ms = await run(acquire, id, floor_id)
    if (now_ms === null) throw new Error("a gateway's row was neither inserted nor there")
    own_id = id
    recordRenewal(now_ms)
  }

  /** Continues under a new row, if `dead_id` is still the row of this process. Concurrent callers get the same row. */
  async function reacquire(dead_id: string, floor_id: string): Promise<void> {
    if (dead_id !== own_id) return
    reacquiring ??= take(nextId(), floor_id).finally(() => {
      reacquiring = null
    })
    await reacquiring
  }

  return {
    /** The row that holds are made under. */
    get gateway_id() {
      return own_id
    },
    /** True after a lease's length of renewals without a gap. Only then may others be declared dead. */
    get steady() {
      return renewed_at - unbroken_since >= times.expire_ms
    },
    /** The least rest of the lease while renewals have no gap. */
    min_remaining_ms,
    reacquire,
    acquire: (floor_id: string) => take(own_id, floor_id),
    /** Renews the lease. If this gateway was declared dead, continues under a new row. */
    async renew(floor_id: string): Promise<void> {
      const id = own_id
      const now_ms = await run(renew, id, floor_id)
      if (now_ms === null) await reacquire(id, floor_id)
      else recordRenewal(now_ms)
    },
    /** Ends the lease of a process that has no open holds, and none on the way. */
    async release(): Promise<void> {
      await connection.run(release, [own_id], STATEMENT_MS)
    },
  }
}
