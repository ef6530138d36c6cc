import { describe, expect, test } from "bun:test"
import { MAX_ITEMS, parseResponses } from "../../src/wire/requests.ts"
import { refusalOf } from "../support/refusal.ts"

const message = { role: "user", content: "hello" }
const request = { model: "m", input: "hello" }
const tool = { type: "function", name: "f" }
const items = (count: number) => Array.from({ length: count }, () => message)

const fault = (body: unknown) => refusalOf(() => parseResponses(body))

describe("D18, D66: a request at fault is a 400 that names the field", () => {
  const refused: [string, unknown, string][] = [
    ["no model", { input: "hello" }, "model"],
    ["no input", { model: "m" }, "input"],
    ["input null", { ...request, input: null }, "input"],
    ["input a number", { ...request, input: 1 }, "input"],
    ["input an object", { ...request, input: message }, "input"],
    ["no input, and a null template", { model: "m", prompt: null }, "input"],
    ["4,097 items", { ...request, input: items(MAX_ITEMS + 1) }, "input"],
    ["an item that is a string", { ...request, input: ["hello"] }, "input[0]"],
    ["an item with a type that is a number", { ...request, input: [message, { type: 1 }] }, "input[1].type"],
    ["an empty role", { ...request, input: [{ role: "" }] }, "input[0].role"],
    ["instructions a list", { ...request, instructions: ["x"] }, "instructions"],
    ["tools an object", { ...request, tools: tool }, "tools"],
    ["a tool without a type", { ...request, tools: [tool, { name: "f" }] }, "tools[1].type"],
    ["stream a string", { ...request, stream: "true" }, "stream"],
    ["background true", { ...request, background: true }, "background"],
    ["background a string", { ...request, background: "false" }, "background"],
    ["previous_response_id an object", { ...request, previous_response_id: {} }, "previous_response_id"],
    ["conversation a number", { ...request, conversation: 1 }, "conversation"],
    ["prompt a string", { ...request, prompt: "p" }, "prompt"],
    ...[0, -5, 0.5, "100", [1], 2 ** 53, JSON.parse("1e400")].map((limit): [string, unknown, string] => [
      `D12 max_output_tokens ${limit}`,
      { ...request, max_output_tokens: limit },
      "max_output_tokens",
    ]),
  ]
  test.each(refused)("%s", (_name, body, param) => {
    const { code, detail } = fault(body)
    expect({ code, param: detail.param }).toEqual({ code: "invalid_request", param })
  })
  test("the reason of a refused background response", () => {
    expect(fault({ ...request, background: true }).message).toBe(
      "`background`: expected false or null, because the usage of a background response is not in its answer.",
    )
  })
})

describe("D18, D66: every other request is the same object", () => {
  const accepted: [string, object][] = [
    ["a text", {}],
    ["an empty text", { input: "" }],
    ["items", { input: [message, { type: "function_call_output", call_id: "c", output: "x" }] }],
    ["4,096 items", { input: items(MAX_ITEMS) }],
    ["no items", { input: [] }],
    ["nulls", { instructions: null, tools: null, stream: null, background: null, max_output_tokens: null }],
    ["a limit", { max_output_tokens: 1 }],
    ["background false", { background: false }],
    ["tools", { tools: [tool, { type: "custom", name: "c" }] }],
    [
      "fields of the provider",
      { store: false, include: ["x"], reasoning: { effort: "low" }, text: {}, metadata: {} },
    ],
    ["unknown fields, at every depth", { unknown: { a: [1] }, input: [{ ...message, unknown: 1 }] }],
    ["names with capitals that mean nothing here", { Unknown: 1, input: [{ ...message, Name: "x" }] }],
  ]
  test.each(accepted)("%s", (_name, fields) => {
    const body = { ...request, ...fields }
    const before = structuredClone(body)
    expect(parseResponses(body)).toBe(body)
    expect(body).toEqual(before)
  })
  test.each([
    ["an earlier response", { previous_response_id: "resp_1" }],
    ["a conversation", { conversation: { id: "conv_1" } }],
    ["a template", { prompt: { id: "pmpt_1" } }],
  ])("no input, but %s", (_name, fields) => {
    const body = { model: "m", ...fields }
    expect<unknown>(parseResponses(body)).toBe(body)
  })
})
