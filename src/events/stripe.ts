import { parseUsd } from "../money.ts"
import type { EventBody } from "../wire/events.ts"
import { STRIPE_KNOWS_MS } from "../wire/sink-kinds.ts"
import { bearer, below, externalId, isCharge, type SinkKindOf } from "./sink-kind.ts"

/** Stripe's meter events (v1, which refuses immediately). Values are whole nano-USD, so nothing is rounded. */
export const stripe: SinkKindOf = {
  most_events: 1,
  // Stripe takes one call at a time for each customer and meter.
  in_turn: true,
  is_for: (event) => isCounted(event) && CUSTOMER.test(event.subject),
  faultOf: (event) =>
    isCounted(event) && !CUSTOMER.test(event.subject)
      ? `the external_id ${event.subject} is no customer of Stripe (cus_…)`
      : null,
  request([event], sink) {
    const body = new URLSearchParams({
      event_name: sink.meter ?? "",
      identifier: event.id,
      timestamp: String(Math.floor(Date.parse(event.time) / 1_000)),
      "payload[stripe_customer_id]": event.subject,
      "payload[value]": String(chargeOf(event)),
    })
    return {
      url: below(sink.url, "/v1/billing/meter_events"),
      headers: { "content-type": "application/x-www-form-urlencoded", ...bearer(sink) },
      body: body.toString(),
    }
  },
  reads: true,
  meaning: ({ status, text }) =>
    status !== 400 ? "again" : /already exists with identifier/i.test(text) ? "taken" : "never",
  give_up_ms: STRIPE_KNOWS_MS,
}

const CUSTOMER = /^cus_\w+$/

const isCounted = (event: EventBody) =>
  isCharge(event) && externalId(event) !== null && chargeOf(event) !== 0n

/** The change of the account's charges, in nano-USD. */
function chargeOf({ data }: EventBody): bigint {
  const usd = "difference" in data ? data.difference : "charge" in data ? data.charge : null
  return (usd === null ? null : parseUsd(usd)) ?? 0n
}
