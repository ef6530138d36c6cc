import { type Static, Type } from "@sinclair/typebox"
import { feeBuckets, kinds, recordOf, tokenBuckets, unitOf } from "../kinds.ts"
import { choice, optional, text } from "./field.ts"

/** The prices of a call, and its charge line by line (D60). */

const Price = Type.String({ pattern: "^\\d+(?:\\.\\d{1,10})?$", description: "USD per 1M tokens." })
const Fee = (description: string) => Type.String({ pattern: "^\\d+(?:\\.\\d{1,16})?$", description })

/** The prices of a model. A kind that is not named has no price of its own. */
export const Prices = Type.Object({
  input: Price,
  cached_input: Price,
  output: Price,
  per_call: Fee("USD per call that is charged."),
  ...optional({
    ...recordOf(tokenBuckets, () => Price),
    ...recordOf(feeBuckets, (bucket) => Fee(`USD per ${unitOf(bucket)}.`)),
    tool_run: Type.Record(Type.String(), Fee("USD per run."), {
      description: "Of the provider's tools, by the provider's names.",
    }),
    service_tier: text("The prices are those of this service tier of the provider."),
    above_tokens: Type.Integer({
      minimum: 1,
      description: "The prices are those of prompts with more tokens than this, cached tokens included.",
    }),
  }),
})
export type Prices = Static<typeof Prices>

export const Line = Type.Object({
  kind: choice(kinds, "What was charged. Each token is in one line only."),
  tool: Type.Optional(text("Of `tool_run`: the provider's name of its tool.")),
  count: Type.Integer({
    minimum: 1,
    description: "Tokens; or searches, pages and runs of the kinds that are priced so; 1 of `per_call`.",
  }),
  price: Fee("USD per 1M tokens, or for one search, page, run or call."),
  cost: Fee("The product in USD, exact: not rounded."),
})
