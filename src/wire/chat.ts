import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { EXPECTED, invalidBody } from "./fault.ts"

/** Messages a request may have (D18). */
export const MAX_MESSAGES = 4096

/** A model's name as a client says it; it must be one of the model list, byte for byte (D19). */
export const ModelName = Type.String({
  minLength: 1,
  maxLength: 256,
  description: "The name of a model from the model list.",
  [EXPECTED]: "a string of 1 to 256 characters",
})

/** One turn; its content and every other field pass upstream unchanged (D18). */
export const Message = Type.Object(
  {
    role: Type.String({
      minLength: 1,
      description: "Whose turn it is, such as `system`, `user` or `assistant`.",
      examples: ["user"],
      [EXPECTED]: "a string that is not empty",
    }),
    content: Type.Optional(
      Type.Unknown({
        description: "The text of the turn, or its parts.",
        examples: ["Say hello."],
      }),
    ),
  },
  {
    additionalProperties: true,
    description: "One turn of the conversation.",
    [EXPECTED]: "a message object",
  },
)

export const Messages = Type.Array(Message, {
  minItems: 1,
  maxItems: MAX_MESSAGES,
  description: "The conversation so far.",
  [EXPECTED]: `an array of 1 to ${MAX_MESSAGES} messages`,
})

/** The body of a chat completion (spec 2): what the gateway reads of it; every other field passes upstream (D18). */
export const ChatRequest = Type.Object(
  {
    model: ModelName,
    messages: Messages,
    stream: Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], {
        description: "Whether the answer is streamed as server-sent events.",
        [EXPECTED]: "true, false or null",
      }),
    ),
    stream_options: Type.Optional(
      Type.Union(
        [
          Type.Object(
            {
              include_usage: Type.Optional(
                Type.Union([Type.Boolean(), Type.Null()], {
                  description: "Whether the stream ends with a chunk that carries the usage.",
                  [EXPECTED]: "true, false or null",
                }),
              ),
            },
            { additionalProperties: true },
          ),
          Type.Null(),
        ],
        {
          description: "Options of a stream.",
          [EXPECTED]: "an object whose include_usage is true, false or null",
        },
      ),
    ),
    usage: Type.Optional(
      Type.Union(
        [
          Type.Object(
            {
              include: Type.Optional(
                Type.Union([Type.Boolean(), Type.Null()], {
                  description: "Whether the answer's usage tells what the call was charged, as its `cost`.",
                  [EXPECTED]: "true, false or null",
                }),
              ),
            },
            { additionalProperties: true },
          ),
          Type.Null(),
        ],
        {
          description:
            "What the answer tells of the usage. A stream then ends with a chunk that carries the usage. `include` is the gateway's own and is not sent upstream.",
          examples: [{ include: true }],
          [EXPECTED]: "an object whose include is true, false or null",
        },
      ),
    ),
    n: Type.Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 128 }), Type.Null()], {
        description: "How many choices to make; output is held for each of them (D12).",
        examples: [1],
        [EXPECTED]: "an integer from 1 to 128, or null",
      }),
    ),
    max_tokens: Type.Optional(tokenLimit("The most output tokens of a choice; the older name.")),
    max_completion_tokens: Type.Optional(tokenLimit("The most output tokens of a choice.")),
  },
  {
    additionalProperties: true,
    description: "A chat completion to make. Fields that are not listed here reach the provider unchanged.",
    examples: [{ model: "gpt-5-mini", messages: [{ role: "user", content: "Say hello." }], stream: false }],
  },
)
export type ChatRequest = Static<typeof ChatRequest>

/** A parsed body as a chat request; throws `invalid_request` with the path at fault (D12, D15, D18). */
export function parseChat(body: unknown): ChatRequest {
  if (!chat.Check(body)) throw invalidBody(ChatRequest, body)
  return body
}

/** Whether the client itself asked for the usage chunk at the end of its stream, which is where the cost is told too. */
export function wantsUsage(request: ChatRequest): boolean {
  return request.stream_options?.include_usage === true || wantsCost(request)
}

/** Whether the client asked what the call costs (D49). */
export function wantsCost(request: ChatRequest): boolean {
  return request.usage?.include === true
}

/** The request without what is ours, which is neither held for nor sent: `usage.include`, and `usage` when nothing else is in it (D49). */
export function withoutOurs(request: ChatRequest): object {
  if (!request.usage || !Object.hasOwn(request.usage, "include")) return request
  const { usage, ...others } = request
  const { include, ...theirs } = usage
  return Object.keys(theirs).length === 0 ? others : { ...others, usage: theirs }
}

const chat = TypeCompiler.Compile(ChatRequest)

function tokenLimit(description: string) {
  return Type.Union([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
    description,
    examples: [1024],
    [EXPECTED]: "an integer of at least 1, or null",
  })
}
