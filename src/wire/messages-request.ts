import { type Static, Type } from "@sinclair/typebox"
import { Messages, ModelName, parserOf, StreamFlag } from "./chat-request.ts"
import { EXPECTED } from "./fault.ts"
import { checked, passed } from "./field.ts"

/** The body of a messages call: what the gateway reads of it; every other field passes upstream (D18). */
export const MessagesRequest = Type.Object(
  {
    model: ModelName,
    messages: Messages,
    max_tokens: Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "The maximum number of output tokens, thinking included.",
      examples: [1024],
      [EXPECTED]: "an integer of at least 0",
    }),
    system: Type.Optional(
      Type.Union([Type.String(), Type.Array(Type.Unknown()), Type.Null()], {
        description: "The system prompt: a text, or its parts. It is passed to the provider unchanged.",
        examples: ["Answer in one sentence."],
        [EXPECTED]: "a string, an array or null",
      }),
    ),
    tools: checked(
      Type.Array(Type.Unknown()),
      "Tools that the model may use. Tools that the provider runs are refused if they have no price.",
      "an array or null",
    ),
    stream: StreamFlag,
    service_tier: passed(
      "The provider's service tier. `auto`, `standard_only`, null and those that the model has prices for pass. All others are refused.",
      "auto",
    ),
    speed: passed("The provider's inference speed. Only `standard` and null pass."),
    inference_geo: passed("The region in which the provider computes. Only `global` and null pass."),
  },
  {
    additionalProperties: true,
    description: "A messages request. Fields that are not listed are passed to the provider unchanged.",
    examples: [
      { model: "claude-sonnet", max_tokens: 1024, messages: [{ role: "user", content: "Say hello." }] },
    ],
  },
)
export type MessagesRequest = Static<typeof MessagesRequest>

export const parseMessages = parserOf(MessagesRequest)
