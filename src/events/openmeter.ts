import { bearer, below, type SinkKindOf, withoutNulls } from "./sink-kind.ts"

/** OpenMeter: batches of CloudEvents, of which it keeps one for each source and id. */
export const openmeter: SinkKindOf = {
  most_events: 100,
  is_for: () => true,
  request: (events, sink) => ({
    url: below(sink.url, "/api/v1/events"),
    headers: { "content-type": "application/cloudevents-batch+json", ...bearer(sink) },
    body: JSON.stringify(events.map((event) => ({ ...event, data: withoutNulls(event.data) }))),
  }),
  reads: false,
  meaning: ({ status }) => ([400, 413, 422].includes(status) ? "never" : "again"),
}
