import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { GatewayError } from "../errors.ts"
import type { Metrics } from "../metrics/metrics.ts"
import type { Gateway } from "../service/gateway.ts"
import type { operatorsOnly } from "./admin/authorize.ts"
import { piecesInParts } from "./in-parts.ts"
import {
  answer,
  compatible,
  described,
  type RouteDescription,
  type Schemas,
  text,
} from "./reference/operation.ts"
import { NO_TOKEN } from "./reference/routes.ts"

/**
 * `/livez` or `/health`: the process works. `/readyz`: it accepts calls (D33). Both also answer `OPTIONS`, for load
 * balancers.
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
    .get("/livez", alive, getLiveness)
    .get("/health", alive, compatible(getLiveness, "getHealth"))
    .get("/readyz", ready, getReadiness)
    .get("/", product, getProduct)
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

/** `GET /metrics` of all workers, with the admin token, unless the admin listener shows them without (D39). */
export function metrics({ content_type, parts }: Metrics, guard: ReturnType<typeof operatorsOnly> | null) {
  const routes = new Elysia({ name: "metrics" })
  if (guard !== null) routes.onTransform(guard)
  return routes.get(
    "/metrics",
    ({ request: { signal } }) =>
      new Response(
        piecesInParts(encoded(parts()), signal, () => {}),
        { headers: { "content-type": content_type } },
      ),
    described(guard === null ? reading : { ...reading, credentials: ["adminToken"], errors: [NO_TOKEN] }),
  )
}

async function* encoded(texts: AsyncIterable<string>) {
  const encoder = new TextEncoder()
  for await (const text of texts) yield encoder.encode(text)
}

const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) })

const Product = Type.Object({
  name: Type.Literal("tollgate"),
  docs: Type.String({ description: "The path of this reference." }),
  openapi: Type.String({ description: "The path of its OpenAPI document." }),
})

const getProduct = described({
  response: {
    200: answer("The product.", Product, {
      Product: { name: "tollgate", docs: "/docs", openapi: "/docs/json" },
    }),
  },

  operationId: "getProduct",
  tag: "Service",
  summary: "Identify the service",
  description: "Returns the product name and where its reference is.",
})

const getLiveness = described({
  response: { 200: answer("The process is alive.", Status, { Alive: { status: "alive" } }) },

  operationId: "getLiveness",
  tag: "Service",
  summary: "Liveness probe",
  description: "Responds while the process works. Restart the process if it does not respond.",
})

const getReadiness = described({
  response: {
    200: answer("Ready.", Status, { Ready: { status: "ready" } }),
    503: answer("Not ready, with the reason.", Status, {
      Draining: { status: "not ready", reason: "draining" },
    }),
  },

  operationId: "getReadiness",
  tag: "Service",
  summary: "Readiness probe",
  description:
    "Reports whether this gateway accepts new calls: the ledger can be written, and the gateway is not shutting down.",
})

const reading = {
  operationId: "metrics",
  tag: "Service",
  summary: "Metrics",
  description:
    "Returns the metrics in the Prometheus text format. Calls, tokens and latencies use the names of the OpenTelemetry GenAI conventions (`gen_ai_…`); all others begin with `tollgate_`. No label contains a key or an account.",
  response: {
    200: answer(
      "The metrics of this process. If there are several workers, those of all of them, with the label `worker`.",
      text(
        "text/plain",
        '# HELP tollgate_calls_settled_total Calls that were charged, by model, operation and basis of the charge.\n# TYPE tollgate_calls_settled_total counter\ntollgate_calls_settled_total{model="gpt-5-mini",operation="chat",basis="usage"} 42\n',
      ),
    ),
  },
} satisfies RouteDescription & Schemas
