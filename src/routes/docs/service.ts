import { Type } from "@sinclair/typebox"
import { answer, operation, shown, text } from "../openapi.ts"

const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) })

const Product = Type.Object({
  name: Type.Literal("tollgate"),
  docs: Type.String({ description: "Where this reference is." }),
  openapi: Type.String({ description: "Where its OpenAPI document is." }),
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
    summary: "What this is",
    description: "Names the product and its reference.",
    errors: [],
  }),
}

export const getLiveness = {
  response: { 200: answer("It does.", Status, { Alive: { status: "alive" } }) },
  detail: operation({
    operationId: "getLiveness",
    tag: "Service",
    summary: "Whether the process answers",
    description: "Restart the process when this does not answer.",
    errors: [],
  }),
}

export const getReadiness = {
  response: {
    200: answer("Ready.", Status, { Ready: { status: "ready" } }),
    503: answer("Not ready, and why.", Status, {
      Draining: { status: "not ready", reason: "draining" },
    }),
  },
  detail: operation({
    operationId: "getReadiness",
    tag: "Service",
    summary: "Whether new calls should be sent here",
    description: "Ready means: the books can be written, and the gateway does not drain.",
    errors: [],
  }),
}

export const getReference = {
  response: { 200: answer("The page.", text("text/html")) },
  detail: operation({
    operationId: "getReference",
    tag: "Service",
    summary: "This reference",
    description: "A page for people. Everything it loads is served by the gateway.",
    errors: [],
  }),
}

const Document = {
  type: "object" as const,
  required: ["openapi"],
  additionalProperties: true,
  properties: { openapi: { type: "string" as const, enum: ["3.0.3"] } },
}

/** As the plugin would write it, which leaves out its own route. */
export const getOpenApi = {
  ...operation({
    operationId: "getOpenApi",
    tag: "Service",
    summary: "This reference as an OpenAPI document",
    description: "OpenAPI 3.0.3, for tools and generated clients.",
    errors: [],
  }),
  responses: {
    200: {
      description: "The document.",
      content: { "application/json": { schema: shown(Document, { Document: { openapi: "3.0.3" } }) } },
    },
  },
}

const File = Type.Object({ file: Type.String({ examples: ["page.css"] }) })

export const getReferenceAsset = {
  params: File,
  response: {
    200: answer("The file.", text("text/css")),
    304: answer("The file has not changed since it was fetched.", Type.Void()),
  },
  detail: operation({
    operationId: "getReferenceAsset",
    tag: "Service",
    summary: "A file of the reference's page",
    description: "Scripts, styles and the icon that the page loads.",
    errors: ["not_found"],
  }),
}

export const getConsole = {
  response: { 200: answer("The page.", text("text/html")) },
  detail: operation({
    operationId: "getConsole",
    tag: "Service",
    summary: "The operators' console",
    description:
      "A page for people, which asks `/admin` with the token that is typed into it. It is served where `/admin` is. Everything it loads is served by the gateway.",
    errors: [],
  }),
}

export const getConsoleAsset = {
  ...getReferenceAsset,
  detail: operation({
    operationId: "getConsoleAsset",
    tag: "Service",
    summary: "A file of the console's page",
    description: "Scripts, styles and the icon that the page loads.",
    errors: ["not_found"],
  }),
}

export const getMetrics = {
  response: {
    200: answer(
      "The metrics of this process; of every worker, by the label `worker`, where there are several.",
      text(
        "text/plain",
        '# HELP tollgate_calls_settled_total Calls charged, by model and what the charge rests on.\n# TYPE tollgate_calls_settled_total counter\ntollgate_calls_settled_total{model="gpt-5-mini",basis="usage"} 42\n',
      ),
    ),
  },
  detail: operation({
    operationId: "metrics",
    tag: "Service",
    summary: "Metrics",
    description:
      "Prometheus' text format. Calls, tokens and latencies have the names of OpenTelemetry's GenAI vocabulary (`gen_ai_…`), what is ours begins with `tollgate_`. No label carries a key or an account.",
    errors: [],
  }),
}
