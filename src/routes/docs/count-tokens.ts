import { Type } from "@sinclair/typebox"
import { CountTokensRequest, generationFields, TokenCount } from "../../wire/count-tokens.ts"
import { answer, type Fault, operation, shown } from "../openapi.ts"

const headers = Type.Object({
  "anthropic-version": Type.String({
    format: "date",
    description:
      "The version of the messages-style API: a calendar date. The header is named after the vendor, `<vendor>-version`; on the plain path exactly one configured vendor's must be there.",
    examples: ["2023-06-01"],
  }),
  "anthropic-beta": Type.Optional(
    Type.String({
      maxLength: 2048,
      description: "Passed on as it is; named after the vendor like the version.",
    }),
  ),
})

const errors: readonly Fault[] = [
  {
    code: "invalid_request",
    message: "`messages`: expected an array of 1 to 4096 messages.",
    param: "messages",
  },
  "invalid_api_key",
  { code: "insufficient_balance", message: "The balance is used up; counting needs some left." },
  "account_suspended",
  "key_suspended",
  "model_not_allowed",
  "model_not_found",
  { code: "not_found", message: "The provider does not know what this request names." },
  "request_timeout",
  "request_too_large",
  "unsupported_media_type",
  "rate_limited",
  "upstream_error",
  "upstream_unavailable",
  "ledger_unavailable",
  "upstream_timeout",
]

const description = `Asks a provider of the model how many tokens the input has. Nothing is held and nothing is charged, but the key, the balance
(more than zero), the model and the provider are checked as for a call.

The key is sent as \`x-api-key\`, or as a bearer token when that header is absent. Fields that only generation uses are removed
before the request is passed on: ${generationFields.map((field) => `\`${field}\``).join(", ")}.`

const counting = (operationId: string, summary: string) => ({
  parse: "none" as const,
  body: shown(CountTokensRequest, {
    Question: { model: "claude-sonnet", messages: [{ role: "user", content: "Say hello." }] },
    "With instructions": {
      model: "claude-sonnet",
      system: "Answer in one word.",
      messages: [{ role: "user", content: "Say hello." }],
    },
  }),
  response: { 200: answer("The provider's count.", TokenCount, { Count: { input_tokens: 11 } }) },
  detail: operation({
    operationId,
    tag: "Token count",
    summary,
    description,
    credentials: ["xApiKey", "apiKey"],
    headers,
    errors,
  }),
})

export const countTokens = counting("countTokens", "Count the tokens of an input")

export const countTokensOfVendor = {
  ...counting("countTokensOfVendor", "Count the tokens of an input (a vendor's path)"),
  params: Type.Object({
    vendor: Type.String({
      description: "A configured vendor: the name of a messages-style API family.",
      examples: ["anthropic"],
    }),
  }),
}
