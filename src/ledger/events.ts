import type { GrantSums } from "../wire/credits.ts"
import type { PriceCounts } from "../wire/customer-prices.ts"

/** Purpose of a statement: its name in metrics and logs. */
export type StatementKind =
  | "hold"
  | "end"
  | "standing"
  | "restore"
  | "expire"
  | "checkpoint"
  | "last_used"
  | "lease"
  | "sweep"
  | "answers"
  | "attempts"
  | "estimates"
  | "refusals"
  | "labels"
  | "grants"
  | "prices"

/** Hooks for metrics. */
export interface LedgerEvents {
  /** A statement served `size` items, or failed; it took `duration_ms`. */
  statement?(kind: StatementKind, size: number, duration_ms: number): void
  /** An end changed nothing, because its hold had ended before (D13). */
  endIgnored?(): void
  /** Holds of dead gateways were expired (D13). */
  expired?(count: number): void
  /** An end went to the spool (D27). */
  spooled?(): void
  /** A call's labels were replaced, because its account had too many new ones on this day (D94). */
  labelsReplaced?(): void
  /** Another server has taken the place of a shard's database, and may have lost commits (D73). */
  promoted?(shard: number): void
  /** The sums of a shard's grants were read, which happens each minute (D95). */
  grants?(shard: string, sums: GrantSums): void
  /** The customer prices of a shard were counted, which happens each minute (D100). */
  prices?(shard: string, counts: PriceCounts): void
}

/** The part of a pino logger that the ledger uses. Never with keys, prompts, statements or values in it. */
export interface LedgerLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
