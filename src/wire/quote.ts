import { type Static, type TObject, Type } from "@sinclair/typebox"
import { CallBody } from "./admin.ts"
import { OwnBudget } from "./budget-bodies.ts"
import { type OperationName, operationNames } from "./call.ts"
import { EXPECTED, invalidField } from "./fault.ts"
import { nullable, oneOf } from "./field.ts"
import { ChatRequest, EmbeddingsRequest, MessagesRequest, ModelName, ResponsesRequest } from "./requests.ts"

const EXPECTED_OPERATION = `one of ${operationNames.join(", ")}`

const REQUESTS: Readonly<Record<OperationName, TObject>> = {
  chat: ChatRequest,
  messages: MessagesRequest,
  embeddings: EmbeddingsRequest,
  responses: ResponsesRequest,
}

/** The body of an operation with its name, which only chat need not have. */
function quotedBody(name: OperationName) {
  const { properties, required = [], description, anyOf } = REQUESTS[name]
  return {
    type: "object",
    description,
    properties: { ...properties, operation: Type.String({ enum: [name] }) },
    required: name === "chat" ? required : [...required, "operation"],
    ...(anyOf !== undefined && { anyOf }),
  }
}

/** The bodies of all operations stand in the reference only: the handler parses by the operation that is named. */
export const QuoteRequest = Type.Object(
  {
    model: ModelName,
    operation: Type.Optional(
      Type.String({
        enum: [...operationNames],
        default: "chat",
        description: "The operation that the body is for. Only quotes have this field.",
        [EXPECTED]: EXPECTED_OPERATION,
      }),
    ),
  },
  {
    additionalProperties: true,
    description: "The body of a call, as its operation describes it.",
    anyOf: operationNames.map(quotedBody),
  },
)

/** Parses the request of a quote. The default operation is chat. */
export function parseQuoted(body: object): { readonly operation?: OperationName } {
  if (!("operation" in body)) return body
  const { operation } = body
  const known = operationNames.find((name) => name === operation)
  if (known === undefined) throw invalidField("operation", EXPECTED_OPERATION)
  return { ...body, operation: known }
}

/** Why the ledger would refuse a hold, as the error code that a call would get. */
export const quotedRefusals = [
  "key_suspended",
  "account_suspended",
  "spending_limit_reached",
  "budget_reached",
  "rate_limited",
  "insufficient_balance",
] as const

const Money = CallBody.properties.held
const amount = (description: string) => Type.String({ ...Money, description })
const Tokens = (description: string) => Type.Integer({ minimum: 0, description })

/** The answer of `POST /v1/quote` (D47). */
export const QuoteBody = Type.Object({
  model: Type.String(),
  operation: CallBody.properties.operation,
  amount: amount("What the call would hold, in USD. No usage within the limits of the request costs more."),
  admitted: Type.Boolean({ description: "Whether the call would be admitted now." }),
  refusal: nullable(
    oneOf(quotedRefusals, "The error code that the call would get; null if it would be admitted."),
  ),
  available: amount("What the account can hold, in USD."),
  remaining: nullable(
    Money,
    "What the key can still spend in the current day or month, in USD; null without a spending limit.",
  ),
  budgets: Type.Array(OwnBudget, {
    description:
      "The budgets in which the call would count, also by its end user and tags. Of one of each end user or value, what this one has: `selected` is the id of the end user, null for one that has not called yet, or the tag.",
  }),
  prompt_tokens: Tokens(
    "The most tokens that the prompt can have: one per byte of text, plus those of its media parts, at most the context of the model.",
  ),
  max_tokens: Tokens("The output tokens that would be held for each choice."),
  n: Type.Integer({ minimum: 1, description: "The number of choices. Output is held for each of them." }),
  largest_max_tokens: nullable(
    Type.Integer({ minimum: 1 }),
    "The largest `max_tokens` that the available amount covers; null if it does not cover even 1, and for an operation without output tokens.",
  ),
  price_multiplier: Type.Optional(CallBody.properties.price_multiplier),
  prices: CallBody.properties.prices,
  tiers: Type.Array(CallBody.properties.prices, {
    description: "The prices of larger prompts, each for prompts with more tokens than its `above_tokens`.",
  }),
  service_tiers: Type.Array(CallBody.properties.prices, {
    description: "The prices of service tiers, each followed by those of its larger prompts.",
  }),
})
export type QuoteBody = Static<typeof QuoteBody>
