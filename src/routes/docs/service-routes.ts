import { Type } from "@sinclair/typebox"
import { answer, type Operation, operation, shown, text } from "../openapi.ts"
import { NO_TOKEN } from "./examples.ts"

const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) })

const Product = Type.Object({
  name: Type.Literal("tollgate"),
  docs: Type.String({ description: "The path of this reference." }),
  openapi: Type.String({ description: "The path of its OpenAPI document." }),
})

export const getProduct = {
  response: {
    200: answer("The product.", Product, {
      Product: { name: "tollgate", docs: "/docs", openapi: "/docs/json" },
    }),
  },
  detail: operation({
    operationId: "getProduct",
    tag: "Service",
    summary: "Identify the service",
    description: "Returns the product name and where its reference is.",
    errors: [],
  }),
}

const liveness = (operationId: string, summary: string) => ({
  response: { 200: answer("The process is alive.", Status, { Alive: { status: "alive" } }) },
  detail: operation({
    operationId,
    tag: "Service",
    summary,
    description: "Responds while the process works. Restart the process if it does not respond.",
    errors: [],
  }),
})

export const getLiveness = liveness("getLiveness", "Liveness probe")

export const getHealth = liveness("getHealth", "Liveness probe (compatible path)")

export const getReadiness = {
  response: {
    200: answer("Ready.", Status, { Ready: { status: "ready" } }),
    503: answer("Not ready, with the reason.", Status, {
      Draining: { status: "not ready", reason: "draining" },
    }),
  },
  detail: operation({
    operationId: "getReadiness",
    tag: "Service",
    summary: "Readiness probe",
    description:
      "Reports whether this gateway accepts new calls: the ledger can be written, and the gateway is not shutting down.",
    errors: [],
  }),
}

const UNCHANGED = answer("The file has not changed since it was last fetched.", Type.Void())

export const getReference = {
  response: { 200: answer("The page.", text("text/html")), 304: UNCHANGED },
  detail: operation({
    operationId: "getReference",
    tag: "Service",
    summary: "This reference",
    description: "An HTML page. Everything that it loads is served by the gateway.",
    errors: [],
  }),
}

const Document = {
  type: "object" as const,
  required: ["openapi"],
  additionalProperties: true,
  properties: { openapi: { type: "string" as const, enum: ["3.0.3"] } },
}

/** Written here because the plugin leaves out its own route. */
export const getOpenApi = {
  ...operation({
    operationId: "getOpenApi",
    tag: "Service",
    summary: "OpenAPI document of this reference",
    description: "OpenAPI 3.0.3, for tools and generated clients.",
    errors: [],
  }),
  responses: {
    200: {
      description: "The document.",
      content: { "application/json": { schema: shown(Document, { Document: { openapi: "3.0.3" } }) } },
    },
    304: { description: "The document has not changed since it was last fetched." },
  },
}

const File = Type.Object({ file: Type.String({ examples: ["page.css"] }) })

export const getReferenceAsset = {
  params: File,
  response: {
    200: answer("The file.", text("text/css")),
    304: UNCHANGED,
  },
  detail: operation({
    operationId: "getReferenceAsset",
    tag: "Service",
    summary: "Asset of the reference page",
    description: "The scripts, styles and icon that the page loads.",
    errors: ["not_found"],
  }),
}

export const getConsole = {
  response: { 200: answer("The page.", text("text/html")), 304: UNCHANGED },
  detail: operation({
    operationId: "getConsole",
    tag: "Service",
    summary: "Operator console",
    description:
      "An HTML page that calls `/admin` with the admin token that the operator enters. It is served wherever `/admin` is. Everything that it loads is served by the gateway.",
    errors: [],
  }),
}

export const getConsoleAsset = {
  ...getReferenceAsset,
  detail: operation({
    operationId: "getConsoleAsset",
    tag: "Service",
    summary: "Asset of the console page",
    description: "The scripts, styles and icon that the page loads.",
    errors: ["not_found"],
  }),
}

const metrics: Operation = {
  operationId: "metrics",
  tag: "Service",
  summary: "Metrics",
  description:
    "Returns the metrics in the Prometheus text format. Calls, tokens and latencies use the names of the OpenTelemetry GenAI conventions (`gen_ai_…`); all others begin with `tollgate_`. No label contains a key or an account.",
  credentials: ["adminToken"],
  errors: [NO_TOKEN],
}

export const getMetrics = {
  response: {
    200: answer(
      "The metrics of this process. If there are several workers, those of all of them, with the label `worker`.",
      text(
        "text/plain",
        '# HELP tollgate_calls_settled_total Calls that were charged, by model, operation and basis of the charge.\n# TYPE tollgate_calls_settled_total counter\ntollgate_calls_settled_total{model="gpt-5-mini",operation="chat",basis="usage"} 42\n',
      ),
    ),
  },
  detail: operation(metrics),
}

/** Where `admin.open_metrics` says so. */
export const getOpenMetrics = {
  ...getMetrics,
  detail: operation({ ...metrics, credentials: [], errors: [] }),
}
