import { lineLabel, priceUnit } from "../kinds.ts"
import type { CallBody } from "../wire/admin.ts"
import { lessUsd } from "./amount.ts"

/** One step in the timeline of a call. */
export interface ReceiptStep {
  readonly name: "Held" | "First output" | "Last byte" | "Settled" | "Released" | "Expired"
  /** Null if it has not happened. */
  readonly at: string | null
  /** Milliseconds since the hold. */
  readonly after_ms: number | null
  /** Why the time is missing. */
  readonly missing: string | null
}

/** What one kind costs of a call, at the prices of its admission. */
export interface CostLine {
  readonly kind: string
  /** Tokens or other units; null for the price per call. */
  readonly count: number | null
  /** USD per `unit`. */
  readonly price: string
  readonly unit: string
  readonly amount: string
}

const CLOSED = { settled: "Settled", released: "Released", expired: "Expired" } as const

/** The timeline: held, first output, last byte, settled. */
export function receiptSteps(call: CallBody): readonly ReceiptStep[] {
  const { started_at, settled_at, ttft_ms, duration_ms, state } = call
  const open = state === "open"
  const closed_ms = settled_at === null ? null : Date.parse(settled_at) - Date.parse(started_at)
  return [
    { name: "Held", at: started_at, after_ms: 0, missing: null },
    later("First output", started_at, ttft_ms, open ? "not yet" : "no output"),
    later(
      "Last byte",
      started_at,
      duration_ms,
      open ? "not yet" : "unknown: the gateway stopped unexpectedly",
    ),
    {
      name: closedName(state),
      at: settled_at,
      after_ms: closed_ms === null ? null : Math.max(0, closed_ms),
      missing: settled_at === null ? "not yet" : null,
    },
  ]
}

function closedName(state: string): ReceiptStep["name"] {
  return state === "released" || state === "expired" ? CLOSED[state] : CLOSED.settled
}

function later(name: ReceiptStep["name"], from: string, ms: number | null, missing: string): ReceiptStep {
  if (ms === null) return { name, at: null, after_ms: null, missing }
  return { name, at: new Date(Date.parse(from) + ms).toISOString(), after_ms: ms, missing: null }
}

/** The released part of the hold; null while the call is open. */
export function releasedPart({ held, charge, overage }: CallBody): string | null {
  if (charge === null) return null
  return overage !== null && overage !== "0" ? "0" : lessUsd(held, charge)
}

/** The lines whose sum, rounded up once to a billionth of a USD, is the charge; empty without usage. */
export function costLines({ lines }: CallBody): readonly CostLine[] {
  return lines.map((line) => ({
    kind: lineLabel(line),
    count: line.kind === "per_call" ? null : line.count,
    price: line.price,
    unit: priceUnit(line.kind),
    amount: line.cost,
  }))
}
