import { describe, expect, test } from "bun:test"
import { parseMessages } from "../../src/wire/requests.ts"
import { refusalOf } from "../support/refusal.ts"

const request = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "hello" }] }

const thrown = (body: unknown) => refusalOf(() => parseMessages(body))

describe("D18 a messages request at fault is a 400 that names the field", () => {
  const { max_tokens, ...without_limit } = request
  const rows: [what: string, body: unknown, param: string | undefined][] = [
    ["a list", [], undefined],
    ["no model", { ...request, model: undefined }, "model"],
    ["no messages", { model: "m", max_tokens }, "messages"],
    ["a message without a role", { ...request, messages: [{}] }, "messages[0].role"],
    ["no max_tokens", without_limit, "max_tokens"],
    ["max_tokens null", { ...request, max_tokens: null }, "max_tokens"],
    ["max_tokens as text", { ...request, max_tokens: "9" }, "max_tokens"],
    ["max_tokens below zero", { ...request, max_tokens: -1 }, "max_tokens"],
    ["a fraction of a token", { ...request, max_tokens: 1.5 }, "max_tokens"],
    ["a system prompt that is a number", { ...request, system: 3 }, "system"],
    ["tools that are no list", { ...request, tools: {} }, "tools"],
    ["stream as text", { ...request, stream: "true" }, "stream"],
  ]
  test.each(rows)("%s", (_, body, param) => {
    const error = thrown(body)
    expect([error.code, error.detail.param]).toEqual(["invalid_request", param])
  })
})

describe("D18 what the gateway does not read passes as it is", () => {
  test.each([
    ["the least", request],
    ["D64 a request that only fills the cache", { ...request, max_tokens: 0 }],
    ["a system prompt in parts", { ...request, system: [{ type: "text", text: "x", cache_control: {} }] }],
    ["null for nothing", { ...request, system: null, tools: null, stream: null, fallbacks: null }],
    [
      "unknown fields, at every depth",
      {
        ...request,
        thinking: { type: "adaptive" },
        messages: [{ role: "user", content: [{ type: "new", x: 1 }] }],
      },
    ],
  ])("%s", (_, body) => expect<unknown>(parseMessages(body)).toBe(body))
})
