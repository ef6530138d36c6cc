import { Type } from "@sinclair/typebox"
import { ModelList } from "../../wire/models.ts"
import { answer, type Fault, operation } from "../openapi.ts"

const headers = Type.Object({
  "anthropic-version": Type.Optional(
    Type.String({
      format: "date",
      description:
        "With a configured vendor's version header the messages-style models are listed, without one the chat models.",
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
}

const errors: readonly Fault[] = [
  {
    code: "invalid_request",
    message: "The header anthropic-version must be one date, such as 2023-06-01.",
    param: "anthropic-version",
  },
  "invalid_api_key",
  {
    code: "rate_limited",
    message: "This key has made as many requests of late as it may; try again shortly.",
  },
  "ledger_unavailable",
]

const description = `The models a key may call, in an envelope and with entries that both SDK families read. A key that is limited to some models
sees those. All four paths answer the same bytes.

The key is a bearer token; with a version header it may be sent as \`x-api-key\`, as for a token count.`

const modelList = (operationId: string, summary: string) => ({
  response: {
    200: answer("All of them: there is always one page.", ModelList, {
      "Chat models": {
        object: "list",
        data: [entry],
        has_more: false,
        first_id: "gpt-5-mini",
        last_id: "gpt-5-mini",
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

export const listModels = modelList("listModels", "List the models")

export const listModelsSlash = modelList("listModelsSlash", "List the models (compatible path)")

export const listModelsCompatible = modelList("listModelsCompatible", "List the models (compatible path)")

export const listModelsCompatibleSlash = modelList(
  "listModelsCompatibleSlash",
  "List the models (compatible path)",
)
