import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { EXPECTED, invalidBody } from "./fault.ts"
import { checked, open, passed } from "./field.ts"

/** The most messages of a request (D18). */
export const MAX_MESSAGES = 4096

/** The name of a model. It must equal a name in the model list byte for byte (D19). */
export const ModelName = Type.String({
  minLength: 1,
  maxLength: 256,
  description: "The name of a model, from the model list.",
  [EXPECTED]: "a string of 1 to 256 characters",
})

export const nonEmpty = (description: string, example: string) =>
  Type.String({ minLength: 1, description, examples: [example], [EXPECTED]: "a non-empty string" })

/** One message. Its content and every other field pass upstream unchanged (D18). */
export const Message = Type.Object(
  {
    role: nonEmpty("The author of the message, such as `system`, `user` or `assistant`.", "user"),
    content: passed("The text of the message, or its parts.", "Say hello."),
  },
  {
    additionalProperties: true,
    description: "One message of the conversation.",
    [EXPECTED]: "a message object",
  },
)
export type Message = Static<typeof Message>

export const Messages = Type.Array(Message, {
  minItems: 1,
  maxItems: MAX_MESSAGES,
  description: "The conversation so far.",
  [EXPECTED]: `an array of 1 to ${MAX_MESSAGES} messages`,
})

const flag = (description: string) => checked(Type.Boolean(), description, "true, false or null")

export const StreamFlag = flag("Whether to stream the response as server-sent events.")

/** The request for the cost of a call (D49). */
export const UsageOption = checked(
  open({ include: flag("Whether the usage in the response has a `cost`: what the call was charged.") }),
  "Options for the usage in the response. With `include`, a stream ends with a usage chunk. `include` is an option of the gateway and is not sent to the provider.",
  "an object whose include is true, false or null",
  { include: true },
)

/** The body of a chat completion (spec 2): what the gateway reads of it; every other field passes upstream (D18). */
export const ChatRequest = Type.Object(
  {
    model: ModelName,
    messages: Messages,
    stream: StreamFlag,
    stream_options: checked(
      open({ include_usage: flag("Whether the stream ends with a usage chunk.") }),
      "Options for streaming.",
      "an object whose include_usage is true, false or null",
    ),
    usage: UsageOption,
    n: checked(
      Type.Integer({ minimum: 1, maximum: 128 }),
      "The number of choices to generate. Output is held for each of them.",
      "an integer from 1 to 128, or null",
      1,
    ),
    service_tier: passed(
      "The provider's service tier. `auto`, `default`, null and those that the model has prices for pass. All others are refused.",
      "default",
    ),
    max_tokens: tokenLimit("The maximum number of output tokens per choice (older name)."),
    max_completion_tokens: tokenLimit("The maximum number of output tokens per choice."),
  },
  {
    additionalProperties: true,
    description:
      "A chat completion request. Fields that are not listed are passed to the provider unchanged.",
    examples: [{ model: "gpt-5-mini", messages: [{ role: "user", content: "Say hello." }], stream: false }],
  },
)
export type ChatRequest = Static<typeof ChatRequest>

export const parseChat = parserOf(ChatRequest)

/** True if the client asked for the usage chunk at the end of its stream, or for the cost, which is in that chunk. */
export function wantsUsage(request: ChatRequest): boolean {
  return request.stream_options?.include_usage === true || wantsCost(request)
}

interface Costed {
  readonly usage?: { readonly include?: boolean | null } | null
}

/** True if the client asked for the cost of the call (D49). */
export function wantsCost(request: Costed): boolean {
  return request.usage?.include === true
}

/** The request without `usage.include`, and without `usage` if it has nothing else (D49). */
export function withoutOurs(request: Costed): object {
  if (!request.usage || !Object.hasOwn(request.usage, "include")) return request
  const { usage, ...others } = request
  const { include, ...theirs } = usage
  return Object.keys(theirs).length === 0 ? others : { ...others, usage: theirs }
}

export function tokenLimit(description: string) {
  const limit = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
  return checked(limit, description, "an integer of at least 1, or null", 1024)
}

/** A function that checks a parsed body; throws `invalid_request` with the path at fault (D15, D18). */
export function parserOf<Schema extends TSchema>(schema: Schema): (body: unknown) => Static<Schema> {
  const compiled = TypeCompiler.Compile(schema)
  return (body) => {
    if (compiled.Check(body)) return body
    throw invalidBody(schema, body)
  }
}
