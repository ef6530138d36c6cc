import { lineLabel, priceUnit } from "../kinds.ts"
import type { CallBody } from "../wire/admin.ts"
import { lessUsd } from "./amount.ts"

/** One step in the timeline of a call. */
export interface ReceiptStep {
  readonly name: string
  /** Null if it has not happened. */
  readonly at: string | null
  /** Milliseconds since the hold. */
  readonly after_ms: number | null
  /** Why the time is missing. */
  readonly missing: string | null
}

/** The times of a call, as operators and clients see it. */
export type TimedCall = Pick<CallBody, "started_at" | "settled_at" | "ttft_ms" | "duration_ms" | "state">

const CLOSED: Readonly<Record<string, string>> = { released: "Released", expired: "Expired" }

/** The timeline: held, first output, last byte, settled. */
export function receiptSteps(call: TimedCall): readonly ReceiptStep[] {
  const { started_at, settled_at, ttft_ms, duration_ms, state } = call
  const began_ms = Date.parse(started_at)
  const step = (name: string, after_ms: number | null, why: string): ReceiptStep =>
    after_ms === null
      ? { name, at: null, after_ms, missing: state === "open" ? "not yet" : why }
      : { name, at: new Date(began_ms + after_ms).toISOString(), after_ms, missing: null }
  const closed_ms = settled_at === null ? null : Math.max(0, Date.parse(settled_at) - began_ms)
  return [
    step("Held", 0, ""),
    step("First output", ttft_ms, "no output"),
    step("Last byte", duration_ms, "unknown: the gateway stopped unexpectedly"),
    { ...step(CLOSED[state] ?? "Settled", closed_ms, "not yet"), at: settled_at },
  ]
}

/** The released part of the hold; null while the call is open. */
export function releasedPart({ held, charge, overage }: CallBody): string | null {
  if (charge === null) return null
  return overage !== null && overage !== "0" ? "0" : lessUsd(held, charge)
}

/** The cost of each kind at the admission's prices. `count` is null for the price per call. Empty without usage. */
export function costLines({ lines }: Pick<CallBody, "lines">) {
  return lines.map((line) => ({
    kind: lineLabel(line),
    count: line.kind === "per_call" ? null : line.count,
    price: line.price,
    unit: priceUnit(line.kind),
    amount: line.cost,
  }))
}
