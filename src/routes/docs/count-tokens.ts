import { CountTokensRequest, generationFields, TokenCount } from "../../wire/count-tokens.ts"
import { type Fault, operation, type Parameter } from "../openapi.ts"

const vendor: Parameter = {
  name: "vendor",
  in: "path",
  required: true,
  description: "The name of a configured vendor of a messages API.",
  schema: { type: "string" },
  example: "anthropic",
}

const headers: Parameter[] = [
  {
    name: "anthropic-version",
    in: "header",
    required: true,
    description:
      "The version of the messages API, a calendar date. The header is named after the vendor, `<vendor>-version`. On the path without a vendor, send the header of exactly one configured vendor.",
    schema: { type: "string", format: "date" },
    example: "2023-06-01",
  },
  {
    name: "anthropic-beta",
    in: "header",
    required: false,
    description: "Passed on unchanged. Named after the vendor, like the version header.",
    schema: { type: "string", maxLength: 2048 },
  },
]

const errors: readonly Fault[] = [
  {
    code: "invalid_request",
    message: "`messages`: expected an array of 1 to 4096 messages.",
    param: "messages",
  },
  "invalid_api_key",
  {
    code: "insufficient_balance",
    message:
      "The account has no available balance. Counting tokens is free, but the balance must be above zero. Add credit.",
  },
  "account_suspended",
  "key_suspended",
  "model_not_allowed",
  "model_not_found",
  {
    code: "not_found",
    message:
      "The provider did not find what this request names. Ask the operator to check the model's configuration.",
  },
  "request_timeout",
  "request_too_large",
  "unsupported_media_type",
  "rate_limited",
  "upstream_error",
  "upstream_unavailable",
  "ledger_unavailable",
  "upstream_timeout",
]

const description = `Asks a provider of the model how many tokens the input has. Nothing is held or charged, but the gateway checks the key, the
balance (it must be above zero), the model and the provider as for a call.

Send the key as \`x-api-key\`, or as a bearer token if that header is absent. The gateway removes fields that only generation uses
before it passes the request on: ${generationFields.map((field) => `\`${field}\``).join(", ")}.`

const counting = (operationId: string, summary: string, path: Parameter[]) =>
  operation({
    operationId,
    tag: "Token count",
    summary,
    description,
    credentials: ["xApiKey", "apiKey"],
    parameters: [...path, ...headers],
    body: {
      schema: CountTokensRequest,
      examples: {
        Question: { model: "claude-sonnet", messages: [{ role: "user", content: "Say hello." }] },
        "With instructions": {
          model: "claude-sonnet",
          system: "Answer in one word.",
          messages: [{ role: "user", content: "Say hello." }],
        },
      },
    },
    answers: {
      200: {
        description: "The token count of the provider.",
        json: { schema: TokenCount, examples: { Count: { input_tokens: 11 } } },
      },
    },
    errors,
  })

export const countTokens = counting("countTokens", "Count input tokens", [])

export const countTokensOfVendor = counting("countTokensOfVendor", "Count input tokens (vendor path)", [
  vendor,
])
