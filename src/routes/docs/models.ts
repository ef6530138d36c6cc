import { Type } from "@sinclair/typebox"
import { ModelEntry, ModelList } from "../../wire/models.ts"
import { answer, type Fault, operation } from "../openapi.ts"

const headers = Type.Object({
  "anthropic-version": Type.Optional(
    Type.String({
      format: "date",
      description:
        "If a configured vendor's version header is present, the response lists the messages models, otherwise the chat models.",
    }),
  ),
})

const entry = {
  id: "gpt-5-mini",
  object: "model",
  created: 0,
  owned_by: "tollgate",
  type: "model",
  display_name: "gpt-5-mini",
  created_at: "1970-01-01T00:00:00Z",
  operations: ["chat", "embeddings", "responses"],
}

const embedding = {
  ...entry,
  id: "text-embedding-3-small",
  display_name: "text-embedding-3-small",
  operations: ["embeddings"],
}

const errors: readonly Fault[] = [
  {
    code: "invalid_request",
    message: "The anthropic-version header must be one date, such as 2023-06-01.",
    param: "anthropic-version",
  },
  "invalid_api_key",
  {
    code: "rate_limited",
    message: "This key has reached its rate limit. Wait for the time in the retry-after header, then retry.",
  },
  "ledger_unavailable",
]

const description = `Lists the models that the key can call, in a shape that both SDK families can read. A key that is restricted to some models
sees only those. All four paths return the same bytes.

Send the key as a bearer token. With a version header, \`x-api-key\` works too, as for a token count.`

const modelList = (operationId: string, summary: string) => ({
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
  detail: operation({
    operationId,
    tag: "Models",
    summary,
    description,
    credentials: ["apiKey", "xApiKey"],
    headers,
    errors,
  }),
})

export const listModels = modelList("listModels", "List models")

export const listModelsSlash = modelList("listModelsSlash", "List models (compatible path)")

export const listModelsCompatible = modelList("listModelsCompatible", "List models (compatible path)")

export const listModelsCompatibleSlash = modelList(
  "listModelsCompatibleSlash",
  "List models (compatible path)",
)

const model = (operationId: string, summary: string) => ({
  params: Type.Object({
    model: Type.String({
      description: "The name of the model. A slash in it may be escaped.",
      examples: ["gpt-5-mini"],
    }),
  }),
  response: { 200: answer("The model.", ModelEntry, { "A chat model": entry }) },
  detail: operation({
    operationId,
    tag: "Models",
    summary,
    description:
      "Returns one model of the list that the key sees. With a version header it is a messages model, otherwise a chat model.",
    credentials: ["apiKey", "xApiKey"],
    headers,
    errors: [...errors, "model_not_found"],
  }),
})

export const getModel = model("getModel", "Retrieve a model")

export const getModelCompatible = model("getModelCompatible", "Retrieve a model (compatible path)")
