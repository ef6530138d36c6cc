import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Config } from "../../config/config.ts"
import type { Audit } from "../../ledger/archive/audit.ts"
import type { OneOrMore } from "../../ledger/shards.ts"
import type { UpstreamBody } from "../../wire/statistics.ts"

/** A shard of the ledger (D74), as operators use it. */
export interface OperatedShard {
  readonly name: string
  /** Whether accounts are created in it. */
  readonly open: boolean
  readonly database: PostgresJsDatabase
}

/** What the operators' routes work with. */
export interface Operators {
  /** The bearer token of `/admin`; null: there is no `/admin`. */
  readonly admin_token: string | null
  readonly shards: OneOrMore<OperatedShard>
  readonly limits: Config["limits"]
  /** How long an operator waits for the database. */
  readonly deadline_ms: number
  /**
   * How long an operator waits for queries that read many entries: sums, statistics, past balances, lists of calls, a
   * new limit.
   */
  readonly sums_deadline_ms: number
  /** How long an operator waits for an audit, which reads all calls of open months. */
  readonly audit_deadline_ms: number
  /** The status of the upstreams in each process of this gateway. */
  upstreams(): Promise<readonly UpstreamBody[]>
  /** Violations from the spool of a shard, for its audit (D13): settlements without a hold. */
  unheld?(place: number): Audit["violations"] | Promise<Audit["violations"]>
  /** Called with the results of each audit, one for each shard. */
  onAudit?(audits: readonly Audit[]): void
}
