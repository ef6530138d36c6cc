import type { EventBody } from "../wire/events.ts"
import { isObject, parseJson } from "../wire/usage.ts"
import { bearer, below, externalId, isCharge, type SinkKindOf } from "./sink-kind.ts"

/** Lago: events of a billable metric, of which it keeps one for each transaction of a subscription. */
export const lago: SinkKindOf = {
  most_events: 100,
  is_for: (event) => isCharge(event) && externalId(event) !== null,
  request: (events, sink) => ({
    url: below(sink.url, "/api/v1/events/batch"),
    headers: { "content-type": "application/json", ...bearer(sink) },
    body: JSON.stringify({
      events: events.map((event) => ({
        transaction_id: event.id,
        external_subscription_id: event.subject,
        code: sink.meter,
        timestamp: String(Date.parse(event.time) / 1_000),
        properties: propertiesOf(event),
      })),
    }),
  }),
  reads: true,
  meaning: ({ status, text }, sent) => {
    if (![400, 413, 422].includes(status)) return "again"
    return sent.length === 1 && isKnown(text) ? "taken" : "never"
  },
}

/** Flat, as texts. A correction counts the difference of its call, and no tokens. */
function propertiesOf({ type, data }: EventBody): Record<string, string> {
  if (!("charge" in data)) return {}
  const { model, operation, upstream, tags, usage } = data
  const charge = "difference" in data ? data.difference : (data.charge ?? "0")
  const tokens = type === "tollgate.call.ended" && usage !== null ? Object.entries(usage) : []
  const counts = tokens.map(([name, count]): [string, string] => [name, String(count)])
  return { ...tags, ...Object.fromEntries(counts), type, model, operation, upstream, charge }
}

/** True if all that is wrong with the only event is that Lago has it. */
function isKnown(text: string): boolean {
  const answer = parseJson(text)
  const details = isObject(answer) && isObject(answer.error_details) ? answer.error_details : {}
  const of_event = isObject(details["0"]) ? details["0"] : details
  const faults = Object.values(of_event).flat()
  return faults.length > 0 && faults.every((fault) => fault === "value_already_exist")
}
