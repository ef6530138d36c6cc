import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import type { GatewayError } from "../errors.ts"
import { EXPECTED, invalidBody, invalidField } from "./fault.ts"
import { checked, open, passed } from "./field.ts"
import { isObject } from "./usage.ts"

/** The most messages of a request (D18). */
export const MAX_MESSAGES = 4096

/** The name of a model. It must equal a name in the model list byte for byte (D19). */
export const ModelName = Type.String({
  minLength: 1,
  maxLength: 256,
  description: "The name of a model, from the model list.",
  [EXPECTED]: "a string of 1 to 256 characters",
})

const nonEmpty = (description: string, example: string) =>
  Type.String({ minLength: 1, description, examples: [example], [EXPECTED]: "a non-empty string" })

/** One message. Its content and every other field pass upstream unchanged (D18). */
export const Message = open(
  {
    role: nonEmpty("The author of the message, such as `system`, `user` or `assistant`.", "user"),
    content: passed("The text of the message, or its parts.", "Say hello."),
  },
  "One message of the conversation.",
  { [EXPECTED]: "a message object" },
)
export type Message = Static<typeof Message>

export const Messages = Type.Array(Message, {
  minItems: 1,
  maxItems: MAX_MESSAGES,
  description: "The conversation so far.",
  [EXPECTED]: `an array of 1 to ${MAX_MESSAGES} messages`,
})

const flag = (description: string) => checked(Type.Boolean(), description, "true, false or null")

const StreamFlag = flag("Whether to stream the response as server-sent events.")

/** The request for the cost of a call (D49). */
const UsageOption = checked(
  open({ include: flag("Whether the usage in the response has a `cost`: what the call was charged.") }),
  "Options for the usage in the response. With `include`, a stream ends with a usage chunk. `include` is an option of the gateway and is not sent to the provider.",
  "an object whose include is true, false or null",
  { include: true },
)

/** The body of a chat completion (spec 2): what the gateway reads of it; every other field passes upstream (D18). */
export const ChatRequest = open(
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
  "A chat completion request. Fields that are not listed are passed to the provider unchanged.",
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

function tokenLimit(description: string) {
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

/** The body of a messages call: what the gateway reads of it; every other field passes upstream (D18). */
export const MessagesRequest = open(
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
  "A messages request. Fields that are not listed are passed to the provider unchanged.",
)
export type MessagesRequest = Static<typeof MessagesRequest>

export const parseMessages = parserOf(MessagesRequest)

const Token = Type.Integer({ minimum: 0 })
const Tokens = Type.Array(Token, { minItems: 1 })

const Input = Type.Union(
  [Type.String(), Type.Array(Type.String(), { minItems: 1 }), Tokens, Type.Array(Tokens, { minItems: 1 })],
  {
    description: "The text to embed, a list of texts, a list of tokens, or a list of such lists.",
    examples: ["The food was delicious."],
    [EXPECTED]: "a string, a list of strings, a list of token numbers, or a list of such lists, not empty",
  },
)

/** The body of an embeddings call: what the gateway reads of it; every other field passes upstream (D18, D67). */
export const EmbeddingsRequest = open(
  {
    model: ModelName,
    input: Input,
    encoding_format: passed("The form of the vectors: `float` or `base64`.", "float"),
    dimensions: passed("The length of the vectors, if the model can choose it.", 256),
    usage: UsageOption,
    stream: checked(
      Type.Literal(false),
      "Embeddings are not streamed.",
      "false or null, because embeddings are not streamed",
    ),
  },
  "An embeddings request. Fields that are not listed are passed to the provider unchanged.",
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>

export const parseEmbeddings = parserOf(EmbeddingsRequest)

export function countedTokens(input: unknown): number | null {
  if (!Array.isArray(input)) return null
  let tokens = 0
  for (const one of input) {
    if (typeof one === "number") tokens += 1
    else if (Array.isArray(one)) tokens += one.length
    else return null
  }
  return tokens
}

/** The most items in the input of a request (D18). */
export const MAX_ITEMS = 4096

/**
 * One item of the input: a message, a tool call, its output, a reference and the like. Its other fields pass upstream
 * unchanged (D18).
 */
const InputItem = open(
  {
    type: checked(
      Type.String(),
      "The type of the item. Without it, an item is a message, or a reference if it has only an id.",
      "a string or null",
      "message",
    ),
    role: Type.Optional(
      nonEmpty("The author of a message, such as `user`, `developer` or `assistant`.", "user"),
    ),
    content: passed("The text of a message, or its parts.", "Say hello."),
    output: passed("What a tool returned: text, or parts."),
    id: passed("The id of an item of an earlier response."),
    encrypted_content: passed("Reasoning that the provider encrypted for a later request."),
  },
  "One item of the input.",
  { [EXPECTED]: "an item object" },
)
/** A tool that the model may use. Whether the model has a price for it is checked later (D61). */
const Tool = open(
  {
    type: nonEmpty("The type of the tool: `function`, `custom`, `web_search` and others.", "function"),
  },
  "A tool that the model may use.",
  { [EXPECTED]: "a tool object" },
)

const InputItems = Type.Array(InputItem, {
  maxItems: MAX_ITEMS,
  [EXPECTED]: `a string, or an array of at most ${MAX_ITEMS} items`,
})
const Tools = Type.Array(Tool)

/** Fields that name an input which the provider already has, where they are not null. */
const stored = {
  previous_response_id: Type.String(),
  conversation: Type.Union([Type.String(), open({})]),
  prompt: open({}),
}
const STORED_INPUTS = ["previous_response_id", "conversation", "prompt"] as const

/** The body of a response request (D66): what the gateway reads of it; every other field passes upstream (D18). */
export const ResponsesRequest = open(
  {
    model: ModelName,
    input: Type.Optional(
      Type.Union([Type.String(), InputItems], {
        description: "The text of the user, or a list of items. Required if no stored prompt is used.",
        examples: ["Say hello."],
        [EXPECTED]: `a string, or an array of at most ${MAX_ITEMS} items`,
      }),
    ),
    instructions: checked(
      Type.String(),
      "A system or developer message before the input.",
      "a string or null",
    ),
    tools: checked(Tools, "The tools that the model may use.", "an array of tools, or null"),
    max_output_tokens: tokenLimit("The maximum number of output tokens, reasoning included."),
    stream: StreamFlag,
    background: checked(
      Type.Literal(false),
      "Not supported: the usage of a background response is not in its answer.",
      "false or null, because the usage of a background response is not in its answer",
    ),
    previous_response_id: checked(
      stored.previous_response_id,
      "An earlier response that is part of the prompt. It is held at the model's `context_tokens`.",
      "a string or null",
    ),
    conversation: checked(
      stored.conversation,
      "A stored conversation that is part of the prompt. It is held at the model's `context_tokens`.",
      "a string, an object or null",
    ),
    prompt: checked(
      stored.prompt,
      "A stored prompt template. It is held at the model's `context_tokens`.",
      "an object or null",
    ),
    reasoning: passed("Options for reasoning models.", { effort: "low" }),
    text: passed("The format of the text.", { format: { type: "text" } }),
    include: passed("Further data to include in the response.", ["reasoning.encrypted_content"]),
    metadata: passed("Key-value pairs to store with the response.", {}),
    store: passed("Whether the provider stores the response.", false),
    service_tier: passed(
      "The provider's service tier. `auto`, `default`, null and those that the model has prices for pass. All others are refused.",
      "default",
    ),
  },
  "A response request. Fields that are not listed are passed to the provider unchanged.",
  {
    anyOf: [
      { required: ["input"] },
      ...STORED_INPUTS.map((name) => ({ required: [name], properties: { [name]: stored[name] } })),
    ],
  },
)
export type ResponsesRequest = Static<typeof ResponsesRequest>

/** A parsed body as a response request; throws `invalid_request` with the path at fault (D15, D18, D66). */
export function parseResponses(body: unknown): ResponsesRequest {
  if (!compiled.Check(body)) throw bodyFault(body)
  if (body.input === undefined && !STORED_INPUTS.some((name) => (body[name] ?? null) !== null))
    throw invalidField("input", `a string, or an array of at most ${MAX_ITEMS} items`)
  return body
}

/** The first fault, also within a list. For a field with alternatives the whole schema would name only the field. */
function bodyFault(body: unknown): GatewayError {
  const first = invalidBody(ResponsesRequest, body)
  const { param } = first.detail
  if (!isObject(body) || param === undefined || !Array.isArray(body[param])) return first
  const list = { input: InputItems, tools: Tools }[param]
  return list === undefined ? first : invalidBody(Type.Object({ [param]: list }), body)
}

const compiled = TypeCompiler.Compile(ResponsesRequest)
