import type { StatementKind } from "./statement.ts"

/** What the books tell whoever counts. */
export interface LedgerEvents {
  /** A statement served `size` items, or failed; it took `duration_ms`. */
  statement?(kind: StatementKind, size: number, duration_ms: number): void
  /** A closing changed nothing, for its reservation was closed before (D13). */
  closingIgnored?(): void
  /** Reservations of dead gateways were closed (D13). */
  expired?(count: number): void
  /** A closing went to the spool (D27). */
  spooled?(): void
}
