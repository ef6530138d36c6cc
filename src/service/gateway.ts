import type { Catalog } from "../admission/catalog.ts"
import type { InFlight } from "../admission/in-flight.ts"
import type { KeyLoads } from "../admission/key-loads.ts"
import type { Memory } from "../admission/memory.ts"
import type { Config } from "../config/config.ts"
import type { CallLedger } from "../ledger/entries.ts"
import type { ClientReports } from "../ledger/reports/client.ts"
import type { Log } from "../log.ts"
import type { Metrics } from "../metrics/metrics.ts"
import type { UsageWarnings } from "../metrics/usage-warnings.ts"
import type { Tracer } from "../traces/trace.ts"
import type { CircuitBreakers } from "../upstream/circuit-breakers.ts"
import type { HiddenOutput } from "../upstream/hidden-output.ts"

/** The dependencies of the routes. One object per process, given to `createApp`. */
export interface Gateway {
  /** The configuration. A reload replaces it; calls in flight keep the one of their admission. */
  readonly config: Config
  readonly catalog: Catalog
  readonly ledger: CallLedger
  /** The clients' view of their own account (D47). */
  readonly reports: ClientReports
  readonly breakers: CircuitBreakers
  readonly hidden_output: HiddenOutput
  readonly in_flight: InFlight
  readonly key_loads: KeyLoads
  readonly memory: Memory
  readonly metrics: Metrics
  readonly usage_warnings: UsageWarnings
  readonly log: Log
  /** Null without tracing (D54). */
  readonly tracer: Tracer | null
  readonly sockets: Sockets
  /** Why the gateway takes no new calls: it drains, or the ledger cannot be written. Null when it is ready. */
  notReady(): string | null
}

export interface Sockets {
  /** Disables the server's idle timeout for a request that may be silent for long. */
  keepOpen(request: Request): void
  /** Enables it again, for the next request of the connection. */
  restore(request: Request): void
  /** Closes the connection of a client that does not read. */
  cut(request: Request): void
  /** Who sends a request: the IP address, of IPv6 the network of 64 bits. Empty if the connection is over. */
  address(request: Request): string
}
