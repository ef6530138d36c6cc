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

/** Marks a gateway that has no open hold, so that no sweeper reads it. If the ledger disagrees, the lease lapses instead. */
const release = statement(
  "lease",
  sql`
UPDATE ${gateways} ${g} SET (${names(gateways.dead_at, gateways.swept_at)}) = (now(), now())
WHERE ${g.id} = $1::uuid AND ${g.dead_at} IS NULL AND ${nothingOpen}
RETURNING ${g.id}`,
)

/** The row of this process in `gateways`, by the database's clock. If it was declared dead, a new one follows (D35). */
export class Lease {
  readonly #connection: DatabaseConnection
  readonly #times: LeaseTimes
  #id = nextId()
  /** The database's time of the last renewal, and of the first renewal since the last gap. */
  #renewed_at = Number.NEGATIVE_INFINITY
  #unbroken_since = Number.NEGATIVE_INFINITY
  #reacquiring: Promise<void> | null = null

  constructor(connection: DatabaseConnection, times: LeaseTimes) {
    this.#connection = connection
    this.#times = times
  }

  /** The row that holds are made under. */
  get gateway_id(): string {
    return this.#id
  }

  /** True after a lease's length of renewals without a gap. Only then may others be declared dead. */
  get steady(): boolean {
    return this.#renewed_at - this.#unbroken_since >= this.#times.expire_ms
  }

  /** Part of the lease that is left, at least, while renewals have no gap. */
  get min_remaining_ms(): number {
    return this.#times.expire_ms / 2
  }

  async acquire(floor_id: string): Promise<void> {
    const now_ms = await this.#run(acquire, this.#id, floor_id)
    if (now_ms === null) throw new Error("a gateway's row was neither inserted nor there")
    this.#recordRenewal(now_ms)
  }

  /** Renews the lease. If this gateway was declared dead, continues under a new row. */
  async renew(floor_id: string): Promise<void> {
    const id = this.#id
    const now_ms = await this.#run(renew, id, floor_id)
    if (now_ms === null) await this.reacquire(id, floor_id)
    else this.#recordRenewal(now_ms)
  }

  /** Continues under a new row, if `dead_id` is still the row of this process. Concurrent callers get the same row. */
  async reacquire(dead_id: string, floor_id: string): Promise<void> {
    if (dead_id !== this.#id) return
    this.#reacquiring ??= this.#acquireNew(floor_id).finally(() => {
      this.#reacquiring = null
    })
    await this.#reacquiring
  }

  /** Ends the lease of a process that has no open holds, and none on the way. */
  async release(): Promise<void> {
    await this.#connection.run(release, [this.#id], STATEMENT_MS)
  }

  async #acquireNew(floor_id: string): Promise<void> {
    const id = nextId()
    const now_ms = await this.#run(acquire, id, floor_id)
    if (now_ms === null) throw new Error("a gateway's row was neither inserted nor there")
    this.#id = id
    this.#recordRenewal(now_ms)
  }

  /** The ledger's time, to which ids are aligned; null if no row was taken or renewed. */
  async #run(statement: Statement, id: string, floor_id: string): Promise<number | null> {
    const values = [id, floor_id, String(this.#times.expire_ms)]
    const sent_ms = Date.now()
    const [row] = await this.#connection.run(statement, values, STATEMENT_MS)
    if (row === undefined) return null
    const { now_ms } = row
    if (typeof now_ms !== "number") throw new Error("the database did not return the time")
    alignIds(now_ms, sent_ms)
    return now_ms
  }

  #recordRenewal(now_ms: number): void {
    const passed_ms = now_ms - this.#renewed_at
    if (passed_ms < 0 || passed_ms > this.#times.expire_ms - this.min_remaining_ms)
      this.#unbroken_since = now_ms
    this.#renewed_at = now_ms
  }
}
