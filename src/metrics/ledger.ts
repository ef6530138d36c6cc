import { Counter, Gauge, type Registry } from "prom-client"
import { BATCH, OWN_S } from "./buckets.ts"
import { CellHistogram } from "./cells.ts"

/** The result of an audit. */
export interface Audited {
  readonly checked_at: Date
  readonly violations: readonly unknown[]
}

/** Queued items by kind of statement, and call ends in the spool. */
export type Depths = Readonly<Record<string, number>> & { readonly spool: number }

/** Metrics of the ledger. */
export function ledgerMetrics(registry: Registry) {
  const registers = [registry]
  const statements = new CellHistogram({
    name: "tollgate_ledger_statement_seconds",
    help: "Duration of ledger statements, by kind.",
    labelNames: ["kind"],
    buckets: OWN_S,
    registry,
  })
  const batches = new CellHistogram({
    name: "tollgate_ledger_batch_size",
    help: "Items per batched ledger statement, by kind.",
    labelNames: ["kind"],
    buckets: BATCH,
    registry,
  })
  const expired = new Counter({
    name: "tollgate_reservations_expired_total",
    help: "Holds of crashed gateways that this process expired.",
    registers,
  })
  const spooled = new Counter({
    name: "tollgate_closings_spooled_total",
    help: "Call ends that were written to the spool because the database was unavailable.",
    registers,
  })
  const ignored = new Counter({
    name: "tollgate_closings_ignored_total",
    help: "Call ends that were ignored because the hold had already ended.",
    registers,
  })
  return {
    /** Counts a statement of `kind` (a fixed word) that served `size` items. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.cell(kind).observe(duration_ms / 1_000)
      batches.cell(kind).observe(size)
    },
    expired: (count: number): void => expired.inc(count),
    spooled: (): void => spooled.inc(),
    /** Counts an end that changed nothing, because the hold had already ended (D13). */
    endIgnored: (): void => ignored.inc(),
    audited: auditMetrics(registry),
    /** Sets the source of the queue depths and of the spool size (D27), which is read at each scrape. */
    watchDepths(read: () => Depths): void {
      new Gauge({
        name: "tollgate_ledger_lane_depth",
        help: "Items that wait in a batch queue of the ledger, by kind of statement.",
        labelNames: ["kind"],
        registers,
        collect() {
          const { spool, ...queues } = read()
          for (const [kind, depth] of Object.entries(queues)) this.set({ kind }, depth)
        },
      })
      new Gauge({
        name: "tollgate_spool_closings",
        help: "Call ends of this process that are in the spool and not yet in the database.",
        registers,
        collect() {
          this.set(read().spool)
        },
      })
    },
  }
}

/** The result of the last audit. Absent before the first one: a 0 would claim that the ledger is consistent. */
function auditMetrics(registry: Registry): (audit: Audited) => void {
  const violations = new Gauge({
    name: "tollgate_audit_violations",
    help: "Violations found by the last audit of this process; absent before the first audit.",
    registers: [],
  })
  const last = new Gauge({
    name: "tollgate_audit_timestamp_seconds",
    help: "Time of the last audit of this process, as a Unix timestamp; absent before the first audit.",
    registers: [],
  })
  return (audit) => {
    violations.set(audit.violations.length)
    last.set(audit.checked_at.getTime() / 1_000)
    for (const gauge of [violations, last]) registry.registerMetric(gauge)
  }
}
