import { Type } from "@sinclair/typebox"
import { operation } from "../openapi.ts"

const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) })

const Product = Type.Object({
  name: Type.Literal("tollgate"),
  docs: Type.String({ description: "Where this reference is." }),
  openapi: Type.String({ description: "Where its OpenAPI document is." }),
})

export const getProduct = operation({
  operationId: "getProduct",
  tag: "Service",
  summary: "What this is",
  description: "Names the product and its reference.",
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
  summary: "Whether the process answers",
  description: "Restart the process when this does not answer.",
  answers: {
    200: { description: "It does.", json: { schema: Status, examples: { Alive: { status: "alive" } } } },
  },
  errors: [],
})

export const getReadiness = operation({
  operationId: "getReadiness",
  tag: "Service",
  summary: "Whether new calls should be sent here",
  description: "Ready means: the books can be written, and the gateway does not drain.",
  answers: {
    200: { description: "Ready.", json: { schema: Status, examples: { Ready: { status: "ready" } } } },
    503: {
      description: "Not ready, and why.",
      json: { schema: Status, examples: { Draining: { status: "not ready", reason: "draining" } } },
    },
  },
  errors: [],
})

export const getReference = operation({
  operationId: "getReference",
  tag: "Service",
  summary: "This reference",
  description: "A page for people. Everything it loads is served by the gateway.",
  answers: { 200: { description: "The page.", text: { type: "text/html" } } },
  errors: [],
})

export const getOpenApi = operation({
  operationId: "getOpenApi",
  tag: "Service",
  summary: "This reference as an OpenAPI document",
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
  summary: "A file of the reference's page",
  description: "Scripts, styles and the icon that the page loads.",
  parameters: [{ name: "file", in: "path", required: true, schema: { type: "string" }, example: "page.css" }],
  answers: {
    200: { description: "The file.", text: { type: "text/css" } },
    304: { description: "The file has not changed since it was fetched." },
  },
  errors: ["not_found"],
})
