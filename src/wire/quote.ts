import { type Static, Type } from "@sinclair/typebox"
import { CallBody } from "./admin.ts"

/** Why the books would refuse a hold, as the error code that a call would get. */
export const quotedRefusals = [
  "key_suspended",
  "account_suspended",
  "spending_limit_reached",
  "insufficient_balance",
] as const

const Money = CallBody.properties.reserved
const Tokens = (description: string) => Type.Integer({ minimum: 0, description })

/** What `POST /v1/quote` answers (D47). */
export const QuoteBody = Type.Object({
  model: Type.String(),
  amount: Type.String({
    ...Money,
    description: "USD that the call would hold; no usage within the bounds costs more.",
  }),
  admitted: Type.Boolean({ description: "Whether the books would hold it now." }),
  refusal: Type.Union([...quotedRefusals.map((code) => Type.Literal(code)), Type.Null()], {
    description: "The error code that a call would get instead; null when it would be held.",
  }),
  available: Type.String({ ...Money, description: "USD that the account can hold." }),
  remaining: Type.Union([Money, Type.Null()], {
    description: "USD that the key may still spend in its day or month; null without a spending limit.",
  }),
  prompt_tokens: Tokens(
    "The most tokens the prompt can have: its bytes, those of its media parts, and no more than the model's context.",
  ),
  max_tokens: Tokens("The most output tokens of a choice that would be held."),
  n: Type.Integer({ minimum: 1, description: "Choices; the output is held for each of them." }),
  largest_max_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description:
      "The largest `max_tokens` that would be held with what there is; null when not even 1 would be.",
  }),
  prices: CallBody.properties.prices,
})
export type QuoteBody = Static<typeof QuoteBody>
