import { Elysia } from "elysia"
import type { Metrics } from "../metrics/metrics.ts"
import { operation } from "./openapi.ts"

/** `GET /metrics`: what this process, or each of the workers, has counted, for Prometheus. */
export function metrics({ content_type, print }: Metrics) {
  return new Elysia({ name: "metrics" }).get(
    "/metrics",
    async () => new Response(await print(), { headers: { "content-type": content_type } }),
    { detail: scraping },
  )
}

const scraping = operation({
  operationId: "metrics",
  tag: "Service",
  summary: "Metrics",
  description:
    "Returns the metrics in the Prometheus text format. Calls, tokens and latencies use the names of the OpenTelemetry GenAI conventions (`gen_ai_…`); all others begin with `tollgate_`. No label contains a key or an account.",
  answers: {
    200: {
      description:
        "The metrics of this process. If there are several workers, those of all of them, with the label `worker`.",
      text: {
        type: "text/plain",
        example:
          '# HELP tollgate_calls_settled_total Calls that were charged, by model and basis of the charge.\n# TYPE tollgate_calls_settled_total counter\ntollgate_calls_settled_total{model="gpt-5-mini",basis="usage"} 42\n',
      },
    },
  },
  errors: [],
})
