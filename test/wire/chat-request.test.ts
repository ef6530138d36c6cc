import { describe, expect, test } from "bun:test"
import { MAX_MESSAGES, parseChat, wantsUsage } from "../../src/wire/requests.ts"
import { refusalOf } from "../support/refusal.ts"

const message = { role: "user", content: "hello" }
const chat = { model: "m", messages: [message] }
const messages = (count: number) => Array.from({ length: count }, () => message)

const fault = (body: unknown) => refusalOf(() => parseChat(body))

describe("spec 2, D12, D15, D18: a request at fault is a 400 that names the field", () => {
  const refused: [string, unknown, string][] = [
    ["no model", { messages: [message] }, "model"],
    ["model null", { ...chat, model: null }, "model"],
    ["model a number", { ...chat, model: 4 }, "model"],
    ["model empty", { ...chat, model: "" }, "model"],
    ["model of 257 characters", { ...chat, model: "m".repeat(257) }, "model"],
    ["model an array", { ...chat, model: ["m"] }, "model"],
    ["no messages", { model: "m" }, "messages"],
    ["messages null", { ...chat, messages: null }, "messages"],
    ["messages a string", { ...chat, messages: "hello" }, "messages"],
    ["messages an object", { ...chat, messages: { 0: message } }, "messages"],
    ["D15 messages empty", { ...chat, messages: [] }, "messages"],
    ["D18 4,097 messages", { ...chat, messages: messages(MAX_MESSAGES + 1) }, "messages"],
    ["a message that is a string", { ...chat, messages: ["hello"] }, "messages[0]"],
    ["a message that is null", { ...chat, messages: [message, null] }, "messages[1]"],
    ["a message that is an array", { ...chat, messages: [[message]] }, "messages[0]"],
    ["a message without a role", { ...chat, messages: [{ content: "hello" }] }, "messages[0].role"],
    ["a role that is a number", { ...chat, messages: [message, { role: 1 }] }, "messages[1].role"],
    ["a role that is null", { ...chat, messages: [{ role: null }] }, "messages[0].role"],
    ["an empty role", { ...chat, messages: [{ role: "" }] }, "messages[0].role"],
    ["stream a string", { ...chat, stream: "true" }, "stream"],
    ["stream a number", { ...chat, stream: 1 }, "stream"],
    ["stream an object", { ...chat, stream: {} }, "stream"],
    ["stream_options a boolean", { ...chat, stream_options: true }, "stream_options"],
    ["stream_options an array", { ...chat, stream_options: [] }, "stream_options"],
    ["include_usage a string", { ...chat, stream_options: { include_usage: "true" } }, "stream_options"],
    ["D12 n zero", { ...chat, n: 0 }, "n"],
    ["D12 n 129", { ...chat, n: 129 }, "n"],
    ["D12 n negative", { ...chat, n: -1 }, "n"],
    ["D12 n a fraction", { ...chat, n: 1.5 }, "n"],
    ["D12 n a string", { ...chat, n: "1" }, "n"],
    ["D12 n true", { ...chat, n: true }, "n"],
    ...["max_tokens", "max_completion_tokens"].flatMap((field): [string, unknown, string][] => [
      [`D12 ${field} zero`, { ...chat, [field]: 0 }, field],
      [`D12 ${field} negative`, { ...chat, [field]: -5 }, field],
      [`D12 ${field} a fraction`, { ...chat, [field]: 0.5 }, field],
      [`D12 ${field} a string`, { ...chat, [field]: "100" }, field],
      [`D12 ${field} an array`, { ...chat, [field]: [1] }, field],
      [`D12 ${field} over 2^53`, { ...chat, [field]: 2 ** 53 }, field],
      [`D12 ${field} infinite`, { ...chat, [field]: JSON.parse("1e400") }, field],
    ]),
    ["two faults: the first in the order of the schema", { messages: [], n: 0 }, "model"],
  ]
  test.each(refused)("%s", (_, body, param) => {
    const error = fault(body)
    expect(error).toMatchObject({ code: "invalid_request", status: 400, detail: { param } })
    expect(error.message).toStartWith(`\`${param}\`: expected `)
  })

  test("a body that is no object has no field to name", () => {
    expect(fault([]).message).toBe("The request body: expected object.")
    expect(fault([]).detail.param).toBeUndefined()
  })

  test.each([
    ["messages[0].role", { ...chat, messages: [{ role: ["SECRET"] }] }, "a non-empty string"],
    ["messages[0]", { ...chat, messages: ["SECRET"] }, "a message object"],
    ["messages", { ...chat, messages: "SECRET" }, "an array of 1 to 4096 messages"],
    ["stream", { ...chat, stream: "SECRET" }, "true, false or null"],
    ["n", { ...chat, n: "SECRET" }, "an integer from 1 to 128, or null"],
    ["max_tokens", { ...chat, max_tokens: "SECRET" }, "an integer of at least 1, or null"],
  ])(
    "D16 the message says what was expected at %s, and shows nothing of the input",
    (param, body, expected) => {
      expect(fault(body).message).toBe(`\`${param}\`: expected ${expected}.`)
    },
  )
})

describe("D18 what the gateway does not read passes", () => {
  const accepted: [string, unknown][] = [
    ["the smallest request", chat],
    [
      "nulls",
      { ...chat, stream: null, stream_options: null, n: null, max_tokens: null, max_completion_tokens: null },
    ],
    ["the bounds", { ...chat, n: 128, max_tokens: 1, max_completion_tokens: Number.MAX_SAFE_INTEGER }],
    ["a model of 256 characters", { ...chat, model: "m".repeat(256) }],
    ["4,096 messages", { ...chat, messages: messages(MAX_MESSAGES) }],
    [
      "content null beside tool calls",
      { ...chat, messages: [{ role: "assistant", content: null, tool_calls: [{}] }] },
    ],
    [
      "content in parts",
      { ...chat, messages: [{ role: "user", content: [{ type: "text", text: "x", y: { z: [] } }] }] },
    ],
    ["a role nobody knows", { ...chat, messages: [{ role: "oracle" }] }],
    [
      "unknown fields at every depth",
      { ...chat, tools: [{ x: { y: [{}] } }], stream_options: { z: 1 }, seed: "odd" },
    ],
    [
      "a key named __proto__",
      JSON.parse('{"model":"m","messages":[{"role":"user","__proto__":1}],"__proto__":{"stream":"x"}}'),
    ],
  ]
  test.each(accepted)("%s", (_, body) => {
    const before = JSON.stringify(body)
    expect(JSON.stringify(parseChat(body))).toBe(before)
  })
})

test.each([
  ["with include_usage true", { ...chat, stream_options: { include_usage: true } }, true],
  ["not with false", { ...chat, stream_options: { include_usage: false } }, false],
  ["not with null", { ...chat, stream_options: { include_usage: null } }, false],
  ["not with no include_usage", { ...chat, stream_options: {} }, false],
  ["not with no options", { ...chat, stream_options: null }, false],
  ["not without the field", chat, false],
  ["not by a field beside it", { ...chat, include_usage: true }, false],
])("whether the client asked for usage: %s", (_, body, wanted) => {
  expect(wantsUsage(parseChat(body))).toBe(wanted)
})
