import { describe, expect, test } from "bun:test"
import { readJsonBody } from "../../src/wire/json.ts"
import {
  countedTokens,
  type EmbeddingsRequest,
  MAX_ITEMS,
  MAX_MESSAGES,
  parseChat,
  parseEmbeddings,
  parseMessages,
  parseResponses,
  wantsUsage,
} from "../../src/wire/requests.ts"
import { refusalOf } from "../support/refusal.ts"

const message = { role: "user", content: "hello" }
const messages = [message]
const tool = { type: "function", name: "f" }
const many = (count: number) => Array.from({ length: count }, () => message)

/** The least request of each operation, and what reads it. */
const OPERATIONS = {
  chat: { read: (body: unknown): unknown => parseChat(body), least: { model: "m", messages } },
  messages: {
    read: (body: unknown): unknown => parseMessages(body),
    least: { model: "m", max_tokens: 9, messages },
  },
  responses: {
    read: (body: unknown): unknown => parseResponses(body),
    least: { model: "m", input: "hello" },
  },
  embeddings: {
    read: (body: unknown): unknown => parseEmbeddings(body),
    least: { model: "m", input: "hello" },
  },
} as const
type Operation = keyof typeof OPERATIONS

const bodyOf = (operation: Operation, fields: object) => ({ ...OPERATIONS[operation].least, ...fields })
const fault = (operation: Operation, body: unknown) => refusalOf(() => OPERATIONS[operation].read(body))

describe("spec 2, D12, D15, D18, D66, D67 a request at fault is a 400 that names the field", () => {
  type Row = [operation: Operation, what: string, fields: object, param: string]
  /** No count of tokens. */
  const uncounted = (operation: Operation, field: string) =>
    [0.5, "100", 2 ** 53, JSON.parse("1e400")].map(
      (limit): Row => [operation, `${field} ${limit}`, { [field]: limit }, field],
    )
  const rows: Row[] = [
    ["chat", "no model", { model: undefined }, "model"],
    ["chat", "a model that is a number", { model: 4 }, "model"],
    ["chat", "a model of 257 characters", { model: "m".repeat(257) }, "model"],
    ["chat", "no messages", { messages: undefined }, "messages"],
    ["chat", "messages that are an object", { messages: { 0: message } }, "messages"],
    ["chat", "no message", { messages: [] }, "messages"],
    ["chat", "4,097 messages", { messages: many(MAX_MESSAGES + 1) }, "messages"],
    ["chat", "a message that is a string", { messages: ["hello"] }, "messages[0]"],
    ["chat", "a message that is null", { messages: [message, null] }, "messages[1]"],
    ["chat", "a message without a role", { messages: [{ content: "hello" }] }, "messages[0].role"],
    ["chat", "a role that is a number", { messages: [message, { role: 1 }] }, "messages[1].role"],
    ["chat", "stream as text", { stream: "true" }, "stream"],
    ["chat", "stream_options that are a boolean", { stream_options: true }, "stream_options"],
    ["chat", "include_usage as text", { stream_options: { include_usage: "true" } }, "stream_options"],
    ["chat", "n 0", { n: 0 }, "n"],
    ["chat", "n 129", { n: 129 }, "n"],
    ["chat", "a fraction of a choice", { n: 1.5 }, "n"],
    ["chat", "max_tokens 0", { max_tokens: 0 }, "max_tokens"],
    ...uncounted("chat", "max_tokens"),
    ...uncounted("chat", "max_completion_tokens"),
    ["chat", "two faults: the first in the schema", { model: undefined, messages: [], n: 0 }, "model"],
    ["messages", "no model", { model: undefined }, "model"],
    ["messages", "no messages", { messages: undefined }, "messages"],
    ["messages", "a message without a role", { messages: [{}] }, "messages[0].role"],
    ["messages", "no max_tokens", { max_tokens: undefined }, "max_tokens"],
    ["messages", "max_tokens below zero", { max_tokens: -1 }, "max_tokens"],
    ...uncounted("messages", "max_tokens"),
    ["messages", "a system prompt that is a number", { system: 3 }, "system"],
    ["messages", "tools that are no list", { tools: {} }, "tools"],
    ["messages", "stream as text", { stream: "true" }, "stream"],
    ["responses", "no model", { model: undefined }, "model"],
    ["responses", "no input", { input: undefined }, "input"],
    ["responses", "input that is an object", { input: message }, "input"],
    ["responses", "no input, and a null template", { input: undefined, prompt: null }, "input"],
    ["responses", "4,097 items", { input: many(MAX_ITEMS + 1) }, "input"],
    ["responses", "an item that is a string", { input: ["hello"] }, "input[0]"],
    ["responses", "a type that is a number", { input: [message, { type: 1 }] }, "input[1].type"],
    ["responses", "an empty role", { input: [{ role: "" }] }, "input[0].role"],
    ["responses", "instructions that are a list", { instructions: ["x"] }, "instructions"],
    ["responses", "tools that are no list", { tools: tool }, "tools"],
    ["responses", "a tool without a type", { tools: [tool, { name: "f" }] }, "tools[1].type"],
    ["responses", "stream as text", { stream: "true" }, "stream"],
    ["responses", "background", { background: true }, "background"],
    ["responses", "an id that is an object", { previous_response_id: {} }, "previous_response_id"],
    ["responses", "a conversation that is a number", { conversation: 1 }, "conversation"],
    ["responses", "a template that is a text", { prompt: "p" }, "prompt"],
    ["responses", "max_output_tokens 0", { max_output_tokens: 0 }, "max_output_tokens"],
    ...uncounted("responses", "max_output_tokens"),
    ["embeddings", "no input", { input: undefined }, "input"],
    ["embeddings", "an empty list of tokens", { input: [[1], []] }, "input"],
    ["embeddings", "input that is an object", { input: { text: "hello" } }, "input"],
    ["embeddings", "parts", { input: [{ type: "text", text: "hello" }] }, "input"],
    ["embeddings", "texts and tokens", { input: ["a", 1] }, "input"],
    ["embeddings", "a token that is no token", { input: [-1] }, "input"],
    ["embeddings", "a stream", { stream: true }, "stream"],
  ]
  test.each(rows)("%s: %s", (operation, _what, fields, param) => {
    const error = fault(operation, bodyOf(operation, fields))
    expect(error).toMatchObject({ code: "invalid_request", status: 400, detail: { param } })
    expect(error.message).toStartWith(`\`${param}\`: expected `)
  })

  test("a body that is no object has no field to name", () => {
    for (const operation of ["chat", "messages"] as const) {
      const { message, detail } = fault(operation, [])
      expect([message, detail.param]).toEqual(["The request body: expected object.", undefined])
    }
  })

  test("a token that a double cannot hold is none", () => {
    const body = readJsonBody(Buffer.from('{"model":"m","input":[12345678901234567890]}'))
    expect(fault("embeddings", body).detail.param).toBe("input")
  })

  const INPUT = "a string, a list of strings, a list of token numbers, or a list of such lists, not empty"
  test.each<[Operation, string, object, string]>([
    ["chat", "messages[0].role", { messages: [{ role: ["SECRET"] }] }, "a non-empty string"],
    ["chat", "messages[0]", { messages: ["SECRET"] }, "a message object"],
    ["chat", "messages", { messages: "SECRET" }, "an array of 1 to 4096 messages"],
    ["chat", "stream", { stream: "SECRET" }, "true, false or null"],
    ["chat", "n", { n: "SECRET" }, "an integer from 1 to 128, or null"],
    ["chat", "max_tokens", { max_tokens: "SECRET" }, "an integer of at least 1, or null"],
    [
      "responses",
      "background",
      { background: true },
      "false or null, because the usage of a background response is not in its answer",
    ],
    ["embeddings", "input", { input: { SECRET: 1 } }, INPUT],
    ["embeddings", "stream", { stream: true }, "false or null, because embeddings are not streamed"],
  ])(
    "D16 %s: the message says what was expected at %s, and nothing of the input",
    (of, param, fields, expected) =>
      expect(fault(of, bodyOf(of, fields)).message).toBe(`\`${param}\`: expected ${expected}.`),
  )
})

describe("D18 what the gateway does not read passes", () => {
  const odd = { unknown: { a: [1] }, metadata: { b: {} }, Unknown: 1 }
  const nothing = { tools: null, stream: null }
  const rows: [operation: Operation, what: string, fields: object][] = [
    ["chat", "the least", {}],
    [
      "chat",
      "nulls",
      { ...nothing, stream_options: null, n: null, max_tokens: null, max_completion_tokens: null },
    ],
    ["chat", "the bounds", { n: 128, max_tokens: 1, max_completion_tokens: Number.MAX_SAFE_INTEGER }],
    ["chat", "a model of 256 characters", { model: "m".repeat(256) }],
    ["chat", "4,096 messages", { messages: many(MAX_MESSAGES) }],
    ["chat", "no content", { messages: [{ role: "assistant", content: null, tool_calls: [{}] }] }],
    ["chat", "unknown fields", { ...odd, tools: [{ x: { y: [{}] } }], stream_options: { z: 1 } }],
    [
      "chat",
      "a key named __proto__",
      JSON.parse('{"messages":[{"role":"user","__proto__":1}],"__proto__":{"stream":"x"}}'),
    ],
    ["messages", "D64 a request that only fills the cache", { max_tokens: 0 }],
    ["messages", "a system prompt in parts", { system: [{ type: "text", text: "x", cache_control: {} }] }],
    ["messages", "nulls", { ...nothing, system: null, fallbacks: null }],
    [
      "messages",
      "unknown fields",
      { ...odd, messages: [{ role: "user", content: [{ type: "new", x: 1 }] }] },
    ],
    ["responses", "items", { input: [message, { type: "function_call_output", call_id: "c", output: "x" }] }],
    ["responses", "4,096 items", { input: many(MAX_ITEMS) }],
    ["responses", "no items", { input: [] }],
    ["responses", "nulls", { ...nothing, instructions: null, background: null, max_output_tokens: null }],
    ["responses", "unknown fields", { ...odd, input: [{ ...message, unknown: 1, Name: "x" }] }],
    ["responses", "an earlier response", { input: undefined, previous_response_id: "resp_1" }],
    ["responses", "a conversation", { input: undefined, conversation: { id: "conv_1" } }],
    ["responses", "a template", { input: undefined, prompt: { id: "pmpt_1" } }],
    ["embeddings", "an empty text, which the provider judges", { input: "" }],
    ["embeddings", "texts", { input: ["a", "b"] }],
    ["embeddings", "lists of tokens", { input: [[1], [2, 3]] }],
    ["embeddings", "fields of the provider", { ...odd, dimensions: 5, encoding_format: "base64" }],
  ]
  test.each(rows)("%s: %s", (operation, _what, fields) => {
    const body = bodyOf(operation, fields)
    const before = structuredClone(body)
    expect(OPERATIONS[operation].read(body)).toBe(body)
    expect(body).toEqual(before)
  })
})

test.each([
  ["with include_usage true", { stream_options: { include_usage: true } }, true],
  ["not with false", { stream_options: { include_usage: false } }, false],
  ["not with no include_usage", { stream_options: {} }, false],
  ["not without the field", {}, false],
  ["not by a field beside it", { include_usage: true }, false],
])("whether the client asked for usage: %s", (_, fields, wanted) => {
  expect(wantsUsage(parseChat(bodyOf("chat", fields)))).toBe(wanted)
})

test.each<[EmbeddingsRequest["input"], number | null]>([
  ["hello", null],
  [["a", "b"], null],
  [[1, 2, 3], 3],
  [[[1], [2, 3]], 3],
])("D67 tokens in %j: %p", (input, tokens) => {
  expect(countedTokens(input)).toBe(tokens)
})
