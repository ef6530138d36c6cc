import type { CallLedger, PriceTerms } from "./entries.ts"
import type { SinkQueue } from "./feed/sinks.ts"
import type { OperatorLedger } from "./operators.ts"
import type { ClientReports } from "./reports/client.ts"

/** The ledger as one gateway process uses it: in one database, or in several shards (D74). No caller can tell which. */
export interface Ledger extends CallLedger {
  readonly operators: OperatorLedger
  /** For clients that read their own account (D47). */
  readonly reports: ClientReports
  /** The sinks of events in each shard, as this process delivers to them (D96). */
  readonly sinks: readonly SinkQueue[]
  /** The ids of terms in each shard, by which holds and ends name them (D56). Rejects if one shard does not register them. */
  terms(wanted: readonly PriceTerms[]): Promise<readonly (readonly number[])[]>
  /** True if new calls of some account can be held. */
  writable(): boolean
  /** Shards, and if they can take holds; empty where there is one database. */
  writableShards(): readonly (readonly [name: string, writable: boolean])[]
  /** Numbers of items that wait for a statement, by kind, and of ends in the spool. */
  depths(): Readonly<Record<"hold" | "end" | "standing" | "spool", number>>
  /** Writes what is pending, and closes timers and sockets. What takes over a second is in the spool. */
  stop(): Promise<void>
}
