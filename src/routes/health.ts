import { Elysia } from "elysia"
import type { Gateway } from "../gateway.ts"
import type { Metrics } from "../metrics/metrics.ts"
import * as reference from "./docs/service.ts"
import { getMetrics } from "./docs/service.ts"

/** `GET /livez`: the process answers. `GET /readyz`: it takes calls. `GET /`: what this is (D33). */
export function health(gateway: Gateway) {
  return new Elysia({ name: "health" })
    .get("/livez", () => Response.json({ status: "alive" }), reference.getLiveness)
    .get(
      "/readyz",
      () => {
        const reason = gateway.notReady()
        return reason === null
          ? Response.json({ status: "ready" })
          : Response.json({ status: "not ready", reason }, { status: 503, headers: { "retry-after": "1" } })
      },
      reference.getReadiness,
    )
    .get(
      "/",
      () => Response.json({ name: "tollgate", docs: "/docs", openapi: "/docs/json" }),
      reference.getProduct,
    )
}

/** `GET /metrics`: what this process, or each of the workers, has counted, for Prometheus. */
export function metrics({ content_type, print }: Metrics) {
  return new Elysia({ name: "metrics" }).get(
    "/metrics",
    async () => new Response(await print(), { headers: { "content-type": content_type } }),
    getMetrics,
  )
}
