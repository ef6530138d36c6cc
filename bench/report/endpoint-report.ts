import type { EndpointResults } from "../endpoint.ts"
import { ENDPOINT_HEAD, endpointRows, us } from "../table.ts"
import { distribution, overTime } from "./charts.ts"
import { factsOf } from "./facts.ts"
import type { Chart, Report } from "./report.ts"

/** The report of a load on an endpoint. */
export function endpointReport(results: EndpointResults): Report {
  const { url, model, load, calls, found, faults } = results
  const { distributions, calls_over_time, events_over_time } = found
  const is_stream = found.inter_chunk_latency_ms.count > 0
  const line = <Value>(values: readonly Value[]) => [{ name: model, colour: "first" as const, values }]
  const charts: Chart[] = [
    distribution("Request latency", line(distributions.request_latency)),
    ...(is_stream ? [distribution("Time to first token", line(distributions.time_to_first_token))] : []),
    ...(is_stream ? [distribution("Inter-chunk latency", line(distributions.inter_chunk_latency))] : []),
    overTime("Throughput", "calls/s", line(calls_over_time)),
    ...(is_stream ? [overTime("Chunks per second", "events/s", line(events_over_time))] : []),
  ]
  return {
    title: `Load on ${model}`,
    facts: factsOf(results, url, load, `load generator: ${us(found.cpu.load_us.median)} of CPU per call`),
    verdict: {
      good: faults.length === 0,
      text: faults.length === 0 ? `All ${calls} calls were answered.` : `Of ${calls} calls some failed.`,
      faults,
      warnings: [],
    },
    tables: [{ caption: "", head: ENDPOINT_HEAD, rows: endpointRows(results) }],
    sections: [
      {
        title: "Over time and by percentile",
        text: load,
        tables: [],
        charts: charts.filter(({ places }) => places.length > 1),
      },
    ],
  }
}
