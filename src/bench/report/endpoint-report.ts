import type { EndpointResults } from "../endpoint.ts"
import { endpointRows } from "../table.ts"
import { distribution, overTime } from "./charts.ts"
import { factsOf } from "./facts.ts"
import type { Chart, Report } from "./report.ts"

/** The report of a load on somebody's own endpoint. */
export function endpointReport(results: EndpointResults): Report {
  const { url, model, load, calls, found, faults } = results
  const { distributions, calls_over_time, events_over_time } = found
  const line = <Value>(values: readonly Value[]) => [{ name: model, colour: "first" as const, values }]
  const charts: Chart[] = [
    distribution("Request latency", line(distributions.request_latency)),
    distribution("Time to first token", line(distributions.time_to_first_token)),
    distribution("Inter-chunk latency", line(distributions.inter_chunk_latency)),
    overTime("Throughput", "calls/s", line(calls_over_time)),
    overTime("Chunks per second", "events/s", line(events_over_time)),
  ]
  return {
    title: `Load on ${model}`,
    facts: factsOf(results, url, load),
    verdict: {
      good: faults.length === 0,
      text: faults.length === 0 ? `All ${calls} calls were answered.` : `Of ${calls} calls some failed.`,
      faults,
    },
    tables: [{ caption: "", head: ["", "", "p50", "p90", "p99", "max"], rows: endpointRows(results) }],
    sections: [
      {
        title: "Over time and by percentile",
        text: load,
        tables: [],
        charts: charts.filter(
          ({ places, series }) =>
            places.length > 1 &&
            series.some(({ values }) => values.some((value) => value !== null && value > 0)),
        ),
      },
    ],
  }
}
