import { Elysia } from "elysia"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import type { Metrics } from "../metrics/metrics.ts"
import { operatorsOnly } from "./admin/authorize.ts"
import * as reference from "./docs/service-routes.ts"
import { getMetrics, getOpenMetrics } from "./docs/service-routes.ts"

/**
 * `GET /livez`, or its alias `/health`: the process works. `GET /readyz`: it accepts calls. `GET /`: the product (D33).
 * `OPTIONS` too, which some load balancers use by default.
 */
export function health(gateway: Gateway) {
  const alive = () => Response.json({ status: "alive" })
  const ready = () => {
    const reason = gateway.notReady()
    return reason === null
      ? Response.json({ status: "ready" })
      : Response.json({ status: "not ready", reason }, { status: 503, headers: { "retry-after": "1" } })
  }
  const product = () => Response.json({ name: "tollgate", docs: "/docs", openapi: "/docs/json" })
  return new Elysia({ name: "health" })
    .get("/livez", alive, reference.getLiveness)
    .get("/health", alive, reference.getHealth)
    .get("/readyz", ready, reference.getReadiness)
    .get("/", product, reference.getProduct)
    .options("/livez", probe(alive), HIDDEN)
    .options("/health", probe(alive), HIDDEN)
    .options("/readyz", probe(ready), HIDDEN)
    .options("/", probe(product), HIDDEN)
}

/** Answers `OPTIONS` of a load balancer. `OPTIONS` of a browser is a preflight, answered from the 405 (D40). */
function probe(answer: () => Response) {
  return ({ request: { headers } }: { readonly request: Request }): Response => {
    if (headers.has("access-control-request-method"))
      throw new GatewayError("method_not_allowed", { headers: { allow: "GET, HEAD" } })
    return answer()
  }
}

const HIDDEN = { detail: { hide: true } }

/**
 * `GET /metrics`: the metrics of this process or of all workers, for Prometheus. They show prices and revenue, so they
 * need the admin token; null where the admin listener is configured to show them without one (D39).
 */
export function metrics({ content_type, print }: Metrics, admin_token: string | null) {
  const routes = new Elysia({ name: "metrics" })
  if (admin_token !== null) routes.onTransform(operatorsOnly(admin_token))
  return routes.get(
    "/metrics",
    async () => new Response(await print(), { headers: { "content-type": content_type } }),
    admin_token === null ? getOpenMetrics : getMetrics,
  )
}
