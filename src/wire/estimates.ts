import { type Static, Type } from "@sinclair/typebox"
import { Count } from "./admin.ts"
import { operationNames } from "./call.ts"
import { choice, count, nullable, resource, titled, UNIT } from "./field.ts"
import { model, query, wholeNumber } from "./parameter.ts"

/** `GET /admin/estimates`: what estimates should be (D92). */

export const MAX_DAYS = 30
export const DEFAULT_DAYS = 7
export const ENOUGH_CALLS = 20

export const EstimatesQuery = query({
  days: wholeNumber(MAX_DAYS, DEFAULT_DAYS, "How many UTC days to include. The last one is today."),
  model: model("Only calls to this model, by the name that clients use."),
})

const bytesPerToken = (description: string) => nullable(Type.Number({ minimum: 0 }), description)
const percentage = (description: string) =>
  Type.Union([Type.Number({ [UNIT]: "percent" }), Type.Null()], { description })

export const EstimateBody = resource({
  model: Type.String(),
  operation: choice(operationNames),
  calls: titled(
    "Calls",
    Type.Integer({ minimum: 1 }),
    "Calls that succeeded and were charged by the provider's final usage.",
  ),
  prompt_bytes: count("Bytes of the prompts, as an estimate counts them."),
  prompt_tokens: Count,
  output_bytes: count("Bytes of the output, as an estimate counts them."),
  output_tokens: count("Reported completion tokens, with reasoning, without audio and images."),
  reasoning_tokens: count("Reported reasoning tokens."),
  reasoning_calls: count("Calls with reasoning tokens."),
  seen: Type.Object(
    {
      bytes_per_token: titled(
        "Bytes/token",
        bytesPerToken("Of the output that clients are shown. Null if there was none."),
      ),
      prompt_bytes_per_token: titled(
        "In prompts",
        bytesPerToken("Of the prompts. Null if no prompt tokens were reported."),
      ),
      hidden_output: titled("Hidden/call", Count, "Reasoning tokens per call that clients are not shown."),
    },
    { description: "What the calls had." },
  ),
  configured: Type.Object(
    {
      bytes_per_token: titled("Bytes set", Type.Number()),
      hidden_output: titled("Hidden set", Count, "0 if it is not set."),
    },
    { description: "The settings of the model at the last of these calls." },
  ),
  error_percent: Type.Object(
    {
      output: titled("Output off", percentage("Null without output tokens.")),
      prompt: titled("Prompt off", percentage("Null without prompt tokens.")),
    },
    {
      description:
        "By how much estimates with these settings would be too high, or too low if negative, in percent of the reported tokens.",
    },
  ),
  suggestion: nullable(
    Type.String(),
    "What to change in the configuration of the model. Null with fewer than 20 calls, or if no setting is off by more than 10 %.",
  ),
})
export type EstimateBody = Static<typeof EstimateBody>

export const EstimatesBody = Type.Object({
  days: Type.Integer({ minimum: 1, maximum: MAX_DAYS }),
  data: Type.Array(EstimateBody, {
    description: "One entry for each model and operation. The most calls first.",
  }),
})
export type EstimatesBody = Static<typeof EstimatesBody>
