import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import type { GatewayError } from "../errors.ts"
import { ModelName, nonEmpty, StreamFlag, tokenLimit } from "./chat-request.ts"
import { EXPECTED, invalidBody, invalidField } from "./fault.ts"
import { checked, open, passed } from "./field.ts"
import { isObject } from "./usage.ts"

/** The most items in the input of a request (D18). */
export const MAX_ITEMS = 4096

/**
 * One item of the input: a message, a tool call, its output, a reference and the like. Its other fields pass upstream
 * unchanged (D18).
 */
const InputItem = Type.Object(
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
  { additionalProperties: true, description: "One item of the input.", [EXPECTED]: "an item object" },
)
/** A tool that the model may use. Whether the model has a price for it is checked later (D61). */
const Tool = Type.Object(
  {
    type: nonEmpty("The type of the tool: `function`, `custom`, `web_search` and others.", "function"),
  },
  { additionalProperties: true, description: "A tool that the model may use.", [EXPECTED]: "a tool object" },
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
export const ResponsesRequest = Type.Object(
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
  {
    additionalProperties: true,
    description: "A response request. Fields that are not listed are passed to the provider unchanged.",
    examples: [{ model: "gpt-5-mini", input: "Say hello.", stream: false }],
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
