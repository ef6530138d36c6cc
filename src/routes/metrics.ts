import { Elysia } from "elysia"
import type { Metrics } from "../metrics/metrics.ts"
import { getMetrics } from "./docs/service.ts"

/** `GET /metrics`: what this process, or each of the workers, has counted, for Prometheus. */
export function metrics({ content_type, print }: Metrics) {
  return new Elysia({ name: "metrics" }).get(
    "/metrics",
    async () => new Response(await print(), { headers: { "content-type": content_type } }),
    getMetrics,
  )
}
