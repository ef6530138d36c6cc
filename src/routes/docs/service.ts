import { Type } from "@sinclair/typebox"
import { operation } from "../openapi.ts"

const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) })

const Product = Type.Object({
  name: Type.Literal("tollgate"),
  docs: Type.String({ description: "The path of this reference." }),
  openapi: Type.String({ description: "The path of its OpenAPI document." }),
})

export const getProduct = operation({
  operationId: "getProduct",
  tag: "Service",
  summary: "Identify the service",
  description: "Returns the product name and where its reference is.",
  answers: {
    200: {
      description: "The product.",
      json: {
        schema: Product,
        examples: { Product: { name: "tollgate", docs: "/docs", openapi: "/docs/json" } },
      },
    },
  },
  errors: [],
})

export const getLiveness = operation({
  operationId: "getLiveness",
  tag: "Service",
  summary: "Liveness probe",
  description: "Responds while the process works. Restart the process if it does not respond.",
  answers: {
    200: {
      description: "The process is alive.",
      json: { schema: Status, examples: { Alive: { status: "alive" } } },
    },
  },
  errors: [],
})

export const getReadiness = operation({
  operationId: "getReadiness",
  tag: "Service",
  summary: "Readiness probe",
  description:
    "Reports whether this gateway accepts new calls: the ledger can be written, and the gateway is not shutting down.",
  answers: {
    200: { description: "Ready.", json: { schema: Status, examples: { Ready: { status: "ready" } } } },
    503: {
      description: "Not ready, with the reason.",
      json: { schema: Status, examples: { Draining: { status: "not ready", reason: "draining" } } },
    },
  },
  errors: [],
})

export const getReference = operation({
  operationId: "getReference",
  tag: "Service",
  summary: "This reference",
  description: "An HTML page. Everything that it loads is served by the gateway.",
  answers: { 200: { description: "The page.", text: { type: "text/html" } } },
  errors: [],
})

export const getOpenApi = operation({
  operationId: "getOpenApi",
  tag: "Service",
  summary: "OpenAPI document of this reference",
  description: "OpenAPI 3.0.3, for tools and generated clients.",
  answers: {
    200: {
      description: "The document.",
      json: {
        schema: Type.Object({ openapi: Type.Literal("3.0.3") }, { additionalProperties: true }),
        examples: { Document: { openapi: "3.0.3" } },
      },
    },
  },
  errors: [],
})

export const getReferenceAsset = operation({
  operationId: "getReferenceAsset",
  tag: "Service",
  summary: "Asset of the reference page",
  description: "The scripts, styles and icon that the page loads.",
  parameters: [{ name: "file", in: "path", required: true, schema: { type: "string" }, example: "page.css" }],
  answers: {
    200: { description: "The file.", text: { type: "text/css" } },
    304: { description: "The file has not changed since it was last fetched." },
  },
  errors: ["not_found"],
})
