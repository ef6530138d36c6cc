import { Counter, Gauge, type Registry } from "prom-client"
import { BATCH, OWN_S } from "./buckets.ts"
import { CellHistogram } from "./cells.ts"

/** What an audit found. */
export interface Audited {
  readonly checked_at: Date
  readonly violations: readonly unknown[]
}

/** What waits for a statement, by its kind, and the closings in the spool. */
export type Depths = Readonly<Record<string, number>> & { readonly spool: number }

/** How the books do. */
export function booksMetrics(registry: Registry) {
  const registers = [registry]
  const statements = new CellHistogram({
    name: "tollgate_ledger_statement_seconds",
    help: "Statements of the ledger, by kind.",
    labelNames: ["kind"],
    buckets: OWN_S,
    registry,
  })
  const batches = new CellHistogram({
    name: "tollgate_ledger_batch_size",
    help: "Calls that one statement of the ledger served, by kind.",
    labelNames: ["kind"],
    buckets: BATCH,
    registry,
  })
  const expired = new Counter({
    name: "tollgate_reservations_expired_total",
    help: "Reservations of dead gateways that this process closed.",
    registers,
  })
  const spooled = new Counter({
    name: "tollgate_closings_spooled_total",
    help: "Closings that went to the spool because the books could not be written.",
    registers,
  })
  const ignored = new Counter({
    name: "tollgate_closings_ignored_total",
    help: "Closings of reservations that were closed before: they changed nothing.",
    registers,
  })
  return {
    /** A statement of `kind` (a word of the code) served `size` calls. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.cell(kind).observe(duration_ms / 1_000)
      batches.cell(kind).observe(size)
    },
    expired: (count: number): void => expired.inc(count),
    spooled: (): void => spooled.inc(),
    /** A closing changed nothing, for its reservation was closed before (D13). */
    endIgnored: (): void => ignored.inc(),
    audited: auditMetrics(registry),
    /** Where it is read whenever the metrics are what waits for a statement, by its kind, and in the spool (D27). */
    watchDepths(read: () => Depths): void {
      new Gauge({
        name: "tollgate_ledger_lane_depth",
        help: "Calls that wait for a statement of the books, by its kind.",
        labelNames: ["kind"],
        registers,
        collect() {
          const { spool, ...lanes } = read()
          for (const [kind, depth] of Object.entries(lanes)) this.set({ kind }, depth)
        },
      })
      new Gauge({
        name: "tollgate_spool_closings",
        help: "Closings of this process in the spool, which the books have not taken yet.",
        registers,
        collect() {
          this.set(read().spool)
        },
      })
    },
  }
}

/** What the last audit found. Before the first one there is nothing to see: a 0 would say that the books agree. */
function auditMetrics(registry: Registry): (audit: Audited) => void {
  const violations = new Gauge({
    name: "tollgate_audit_violations",
    help: "What the last audit that this process was asked for found wrong; nothing before the first.",
    registers: [],
  })
  const last = new Gauge({
    name: "tollgate_audit_timestamp_seconds",
    help: "When the last audit that this process was asked for was made; nothing before the first.",
    registers: [],
  })
  return (audit) => {
    violations.set(audit.violations.length)
    last.set(audit.checked_at.getTime() / 1_000)
    for (const gauge of [violations, last]) registry.registerMetric(gauge)
  }
}
