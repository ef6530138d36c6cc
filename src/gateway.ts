import type { Catalog } from "./admission/catalog.ts"
import type { InFlight } from "./admission/in-flight.ts"
import type { KeyLoads } from "./admission/key-loads.ts"
import type { Config } from "./config/config.ts"
import type { CallLedger } from "./ledger/entries.ts"
import type { ClientReports } from "./ledger/reports/client.ts"
import type { Log } from "./log.ts"
import type { Metrics } from "./metrics/metrics.ts"
import type { Tracer } from "./trace.ts"
import type { CircuitBreakers } from "./upstream/circuit-breakers.ts"

/** What the routes work with: one object a process, handed to `createApp`. */
export interface Gateway {
  /** As last loaded; a reload replaces it whole, and calls in flight keep what they were admitted with. */
  readonly config: Config
  readonly catalog: Catalog
  readonly ledger: CallLedger
  /** What clients read of their own account, by its shard (D47, D74). */
  readonly reports: readonly ClientReports[]
  readonly breakers: CircuitBreakers
  readonly in_flight: InFlight
  readonly key_loads: KeyLoads
  readonly metrics: Metrics
  readonly log: Log
  /** Null where no traces are kept (D54). */
  readonly tracer: Tracer | null
  /** The sockets of the requests, as far as a route may touch them. */
  readonly sockets: Sockets
  /** Why the gateway takes no new calls: it drains, or the ledger cannot be written. Null when it is ready. */
  notReady(): string | null
}

export interface Sockets {
  /** Takes the server's idle timeout off a request that may be silent for long. */
  keepOpen(request: Request): void
  /** Puts it back, for the connection's next request. */
  restore(request: Request): void
  /** Ends the connection of a client that takes nothing. */
  cut(request: Request): void
}
