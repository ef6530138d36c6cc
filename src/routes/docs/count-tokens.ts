import { Type } from "@sinclair/typebox"
import { CountTokensRequest, generationFields, TokenCount } from "../../wire/count-tokens.ts"
import { answer, type Fault, operation, shown } from "../openapi.ts"
import { vendorHeaders, vendorParams } from "./vendor.ts"

const headers = Type.Object(vendorHeaders)

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

Send the key as \`x-api-key\` or as a bearer token. The gateway removes fields that only generation uses
before it passes the request on: ${generationFields.map((field) => `\`${field}\``).join(", ")}.`

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
  response: { 200: answer("The token count of the provider.", TokenCount, { Count: { input_tokens: 11 } }) },
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

export const countTokens = counting("countTokens", "Count input tokens")

export const countTokensOfVendor = {
  ...counting("countTokensOfVendor", "Count input tokens (vendor path)"),
  params: vendorParams,
}
