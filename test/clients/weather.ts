import { chatChunk, chatCompletion, json, sse, usage } from "../support/provider.ts"

/** The one tool that every client is given, and a provider that uses it. */

export const NAME = "weather"
export const DESCRIPTION = "The weather in a city"
export const PARAMETERS = {
  type: "object" as const,
  properties: { city: { type: "string" as const } },
  required: ["city"],
  additionalProperties: false,
}
export const RESULT = "sunny in Bern"
export const LAST_WORDS = "It is sunny."

const ARGUMENTS = '{"city":"Bern"}'

/** Runs the tool; fails unless it is called as the provider called it. */
export function weatherIn(input: unknown): string {
  if (JSON.stringify(input) !== ARGUMENTS)
    throw new Error(`the tool was called with ${JSON.stringify(input)}`)
  return RESULT
}

const tool_call = { id: "call_1", type: "function", function: { name: NAME, arguments: ARGUMENTS } }

/** Two answers: the tool is called, then the last words. */
export const IN_JSON = [
  json(
    200,
    chatCompletion("", {
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: null, tool_calls: [tool_call] },
          finish_reason: "tool_calls",
        },
      ],
      usage: usage(10, 5),
    }),
  ),
  json(200, chatCompletion(LAST_WORDS, { usage: usage(20, 5) })),
]

const part = (fields: object) => chatChunk({ tool_calls: [{ index: 0, ...fields }] })

/** The tool's call in pieces. */
const CALL_CHUNKS = [
  chatChunk({ role: "assistant", content: null }),
  part({ id: tool_call.id, type: "function", function: { name: NAME, arguments: "" } }),
  part({ function: { arguments: ARGUMENTS.slice(0, 8) } }),
  part({ function: { arguments: ARGUMENTS.slice(8) } }),
  chatChunk({}, "tool_calls"),
]

export const IN_STREAMS = [
  sse(CALL_CHUNKS, { usage: usage(10, 5) }),
  sse(
    [
      chatChunk({ role: "assistant", content: "" }),
      chatChunk({ content: LAST_WORDS }),
      chatChunk({}, "stop"),
    ],
    { usage: usage(20, 5) },
  ),
]
