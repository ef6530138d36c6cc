import { type Static, Type } from "@sinclair/typebox"
import { operationNames } from "./call.ts"
import { model, query, wholeNumber } from "./parameter.ts"

/** `GET /admin/estimates`: what estimates should be (D92). */

export const MAX_DAYS = 30
export const DEFAULT_DAYS = 7
/** The fewest calls for a suggestion. */
export const ENOUGH_CALLS = 20

export const EstimatesQuery = query({
  days: Type.Optional(
    wholeNumber(MAX_DAYS, DEFAULT_DAYS, "How many UTC days to include. The last one is today."),
  ),
  model: Type.Optional(model("Only calls to this model, by the name that clients use.")),
})

const Count = Type.Integer({ minimum: 0 })
const orNull = (description: string, minimum?: number) =>
  Type.Union([Type.Number(minimum === undefined ? {} : { minimum }), Type.Null()], { description })

export const EstimateBody = Type.Object({
  model: Type.String(),
  operation: Type.String({ enum: [...operationNames] }),
  calls: Type.Integer({
    minimum: 1,
    description: "Calls that succeeded and were charged by the provider's final usage.",
  }),
  prompt_bytes: Type.Integer({
    minimum: 0,
    description: "Bytes of the prompts, as an estimate counts them.",
  }),
  prompt_tokens: Count,
  output_bytes: Type.Integer({ minimum: 0, description: "Bytes of the output, as an estimate counts them." }),
  output_tokens: Type.Integer({
    minimum: 0,
    description: "Reported completion tokens, with reasoning, without audio and images.",
  }),
  reasoning_tokens: Type.Integer({ minimum: 0, description: "Reported reasoning tokens." }),
  reasoning_calls: Type.Integer({ minimum: 0, description: "Calls with reasoning tokens." }),
  seen: Type.Object(
    {
      bytes_per_token: orNull("Of the output that clients are shown. Null if there was none.", 0),
      prompt_bytes_per_token: orNull("Of the prompts. Null if no prompt tokens were reported.", 0),
      hidden_output: Type.Integer({
        minimum: 0,
        description: "Reasoning tokens per call that clients are not shown.",
      }),
    },
    { description: "What the calls had." },
  ),
  configured: Type.Object(
    {
      bytes_per_token: Type.Number(),
      hidden_output: Type.Integer({ minimum: 0, description: "0 if it is not set." }),
    },
    { description: "The settings of the model at the last of these calls." },
  ),
  error_percent: Type.Object(
    {
      output: orNull("Null without output tokens."),
      prompt: orNull("Null without prompt tokens."),
    },
    {
      description:
        "By how much estimates with these settings would be too high, or too low if negative, in percent of the reported tokens.",
    },
  ),
  suggestion: Type.Union([Type.String(), Type.Null()], {
    description:
      "What to change in the configuration of the model. Null with fewer than 20 calls, or if no setting is off by more than 10 %.",
  }),
})
export type EstimateBody = Static<typeof EstimateBody>

export const EstimatesBody = Type.Object({
  days: Type.Integer({ minimum: 1, maximum: MAX_DAYS }),
  data: Type.Array(EstimateBody, {
    description: "One entry for each model and operation. The most calls first.",
  }),
})
export type EstimatesBody = Static<typeof EstimatesBody>
