import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { activeKey } from "../admission/admit.ts"
import { hashOf } from "../admission/key.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { requestId } from "../id.ts"
import { hasVersionHeader, modelListCredential, vendorVersion } from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import { ModelEntry, ModelList, modelEntry, modelList } from "../wire/models.ts"
import { exampleOf } from "./reference/example.ts"
import { answer, compatible, described, type ErrorExample } from "./reference/operation.ts"
import { READER_ERRORS } from "./reference/routes.ts"

/** The model list at four paths (spec 4.2, D23), and below them each model, also with a slash in its name. */
export function models(gateway: Gateway) {
  const list = async ({ request }: { request: Request }) =>
    answered(request, modelList(await usable(gateway, request)))
  const one = async ({ request, path }: { request: Request; path: string }) => {
    const name = nameIn(path)
    const found = (await usable(gateway, request)).find((model) => model.name === name)
    if (found === undefined) throw new GatewayError("model_not_found", { param: "model" })
    return answered(request, modelEntry(found))
  }
  return new Elysia({ name: "models" })
    .get("/v1/models", list, listing)
    .get("/v1/models/", list, compatible(listing, "listModelsSlash"))
    .get("/models", list, compatible(listing, "listModelsCompatible"))
    .get("/models/", list, compatible(listing, "listModelsCompatibleSlash"))
    .get("/v1/models/:model", one, reading)
    .get("/models/:model", one, compatible(reading, "getModelCompatible"))
    .get("/v1/models/:model/*", one, HIDDEN)
    .get("/models/:model/*", one, HIDDEN)
}

const HIDDEN = { detail: { hide: true } } as const

/** The models that the request's key can call: messages models with a version header, otherwise chat models (D23). */
async function usable(gateway: Gateway, request: Request): Promise<readonly Model[]> {
  const { config, catalog } = gateway
  const versioned = hasVersionHeader(request.headers, config.vendors)
  const key = modelListCredential(request.headers, versioned)
  if (versioned) vendorVersion(request.headers, config.vendors, null)
  const { models } = await activeKey(gateway, hashOf(key), request)
  const open = catalog.list(versioned ? "messages" : "chat")
  return models === null ? open : open.filter(({ name }) => models.includes(name))
}

/** The name at the end of a path, with or without escapes; null if an escape is malformed. */
function nameIn(path: string): string | null {
  try {
    return decodeURIComponent(path.slice(path.indexOf(BELOW) + BELOW.length))
  } catch {
    return null
  }
}

const BELOW = "/models/"

function answered(request: Request, body: object): Response {
  return new Response(JSON.stringify(body), { headers: jsonHeaders(requestId(request)) })
}

const headers = Type.Object({
  "anthropic-version": Type.Optional(
    Type.String({
      format: "date",
      description:
        "If a configured vendor's version header is present, the response lists the messages models, otherwise the chat models.",
    }),
  ),
})

const entry = exampleOf(ModelEntry, { operations: ["chat", "embeddings", "responses"] })

const embedding: typeof entry = {
  ...entry,
  id: "text-embedding-3-small",
  display_name: "text-embedding-3-small",
  operations: ["embeddings"],
}

const errors: readonly ErrorExample[] = [
  {
    code: "invalid_request",
    message: "The anthropic-version header must be one date, such as 2023-06-01.",
    param: "anthropic-version",
  },
  ...READER_ERRORS,
]

const description = `Lists the models that the key can call, in a shape that both SDK families can read. A key that is restricted to some models
sees only those. All four paths return the same bytes.

Send the key as a bearer token. With a version header, \`x-api-key\` works too, as for a token count.`

const listing = described({
  response: {
    200: answer("All models, in a single page.", ModelList, {
      "Chat models": {
        object: "list",
        data: [entry, embedding],
        has_more: false,
        first_id: "gpt-5-mini",
        last_id: "text-embedding-3-small",
      },
      "No model": { object: "list", data: [], has_more: false, first_id: null, last_id: null },
    }),
  },

  operationId: "listModels",
  tag: "Models",
  summary: "List models",
  description,
  credentials: ["apiKey", "xApiKey"],
  headers,
  errors,
})

const reading = described({
  params: Type.Object({
    model: Type.String({
      description: "The name of the model. A slash in it may be escaped.",
      examples: ["gpt-5-mini"],
    }),
  }),
  response: { 200: answer("The model.", ModelEntry, { "A chat model": entry }) },

  operationId: "getModel",
  tag: "Models",
  summary: "Retrieve a model",
  description:
    "Returns one model of the list that the key sees. With a version header it is a messages model, otherwise a chat model.",
  credentials: ["apiKey", "xApiKey"],
  headers,
  errors: [...errors, "model_not_found"],
})
