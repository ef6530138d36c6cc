import { sql } from "drizzle-orm"
import { nextId } from "../id.ts"
import type { Connection } from "./connection.ts"
import { gateways, reservations } from "./schema.ts"
import { type Row, type Statement, statement } from "./statement.ts"

/** How long a statement about leases may take; a renewal that is overdue is tried again at once. */
const STATEMENT_MS = 2_000

export interface LeaseTimes {
  readonly renew_ms: number
  readonly expire_ms: number
}

const take = statement(
  "lease",
  sql`
INSERT INTO ${gateways} (id, floor_id, lease_until)
VALUES ($1::uuid, $2::uuid, now() + $3::int * interval '1 millisecond')
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING extract(epoch FROM now())::float8 * 1000 AS now_ms`,
)

const renew = statement(
  "lease",
  sql`
UPDATE ${gateways} SET lease_until = now() + $3::int * interval '1 millisecond', floor_id = $2::uuid
WHERE id = $1::uuid AND dead_at IS NULL
RETURNING extract(epoch FROM now())::float8 * 1000 AS now_ms`,
)

/** Whether the books show nothing open under the row `g`. */
export const nothingOpen = sql`NOT EXISTS (SELECT FROM ${reservations} x
    WHERE x.id >= g.floor_id AND x.gateway_id = g.id AND x.state = 'open')`

/** Nothing of this gateway is open, so no sweeper needs to look; what the books know better lapses. */
const giveBack = statement(
  "lease",
  sql`
UPDATE ${gateways} g SET dead_at = now(), swept_at = now()
WHERE g.id = $1::uuid AND g.dead_at IS NULL AND ${nothingOpen}
RETURNING g.id`,
)

/**
 * The row of this process in `gateways`. A lapsed lease may be renewed until a sweeper has declared the gateway dead;
 * then the process goes on under a new row (D35). All times are the database's.
 */
export class Lease {
  readonly #connection: Connection
  readonly #times: LeaseTimes
  #id = nextId()
  /** The database's time of the last renewal, and of the first one since which there was no gap. */
  #renewed_at = Number.NEGATIVE_INFINITY
  #unbroken_since = Number.NEGATIVE_INFINITY
  #succession: Promise<void> | null = null

  constructor(connection: Connection, times: LeaseTimes) {
    this.#connection = connection
    this.#times = times
  }

  /** The row that holds are made under. */
  get gateway_id(): string {
    return this.#id
  }

  /**
   * Whether this process has renewed without a gap for as long as a lease lasts: only then may it declare others dead.
   * A gap is a pause in which others could have lost their leases to the same outage.
   */
  get steady(): boolean {
    return this.#renewed_at - this.#unbroken_since >= this.#times.expire_ms
  }

  /** How much of this lease is left as long as there is no gap. */
  get fresh_ms(): number {
    return this.#times.expire_ms / 2
  }

  async take(floor_id: string): Promise<void> {
    const [row] = await this.#run(take, this.#id, floor_id)
    if (row === undefined) throw new Error("a gateway's row was neither inserted nor there")
    this.#note(row)
  }

  /** Renews, or goes on under a new row when this gateway was declared dead. */
  async renew(floor_id: string): Promise<void> {
    const id = this.#id
    const [row] = await this.#run(renew, id, floor_id)
    if (row === undefined) await this.succeed(id, floor_id)
    else this.#note(row)
  }

  /** Goes on under a new row, if `dead_id` is still the row of this process; several who ask get one row. */
  async succeed(dead_id: string, floor_id: string): Promise<void> {
    if (dead_id !== this.#id) return
    this.#succession ??= this.#succeed(floor_id).finally(() => {
      this.#succession = null
    })
    await this.#succession
  }

  /** Ends the lease of a process that has nothing open and nothing on its way there. */
  async giveBack(): Promise<void> {
    await this.#connection.run(giveBack, [this.#id], STATEMENT_MS)
  }

  async #succeed(floor_id: string): Promise<void> {
    const id = nextId()
    const [row] = await this.#run(take, id, floor_id)
    if (row === undefined) throw new Error("a gateway's row was neither inserted nor there")
    this.#id = id
    this.#note(row)
  }

  #run(statement: Statement, id: string, floor_id: string): Promise<readonly Row[]> {
    const values = [id, floor_id, String(this.#times.expire_ms)]
    return this.#connection.run(statement, values, STATEMENT_MS)
  }

  #note({ now_ms }: Row): void {
    if (typeof now_ms !== "number") throw new Error("the database did not tell its time")
    const passed_ms = now_ms - this.#renewed_at
    if (passed_ms < 0 || passed_ms > this.#times.expire_ms - this.fresh_ms) this.#unbroken_since = now_ms
    this.#renewed_at = now_ms
  }
}
