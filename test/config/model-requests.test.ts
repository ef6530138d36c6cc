import { describe, expect, test } from "bun:test"
import { and, load, model, refusal, upstream } from "./small.ts"

const modelIn = (fields: object) => load(model(fields)).models[0]

describe("D89 open.hold_rounds and open.max_rounds", () => {
  test.each([
    [{}, { hold_rounds: 1, max_rounds: 32 }],
    [{ hold_rounds: 4 }, { hold_rounds: 4, max_rounds: 32 }],
    [{ max_rounds: 1 }, { hold_rounds: 1, max_rounds: 1 }],
    [
      { hold_rounds: 100, max_rounds: 100 },
      { hold_rounds: 100, max_rounds: 100 },
    ],
  ])("%j is %j", (open, read) => expect(modelIn({ open })?.open).toEqual(read))

  test.each<[unknown, key: string, expected: string]>([
    [{ hold_rounds: 5, max_rounds: 4 }, ".hold_rounds", "at most max_rounds (4)"],
    [{ hold_rounds: 33 }, ".hold_rounds", "at most max_rounds (32)"],
  ])("%j stops the start", (open, key, expected) => {
    expect(refusal(model({ open }))).toBe(`models[0].open${key}: expected ${expected}`)
  })
})

describe("D61 refuse", () => {
  test("fields, and fields with one value", () => {
    const refuse = ["mcp_servers", "tools.type=custom", "Reasoning.Effort=x=y", "speed="]
    expect(modelIn({ refuse })?.refuse).toEqual([
      { path: "mcp_servers", value: null },
      { path: "tools.type", value: "custom" },
      { path: "Reasoning.Effort", value: "x=y" },
      { path: "speed", value: "" },
    ])
    expect(modelIn({})?.refuse).toEqual([])
  })

  const FIELD = "a field by its names with dots between them, such as reasoning.effort, or field=value"
  test.each<[unknown, key: string, expected: string]>([
    [["a..b"], "[0]", FIELD],
    [["fine", "=value"], "[1]", FIELD],
    [["two words"], "[0]", FIELD],
    [[".a"], "[0]", FIELD],
    [["a.b.c.d.e.f.g.h.i"], "[0]", FIELD],
    [["x".repeat(65)], "[0]", FIELD],
    [[5], "[0]", "a field, or field=value"],
  ])("%j stops the start", (refuse, key, expected) => {
    expect(refusal(model({ refuse }))).toBe(`models[0].refuse${key}: expected ${expected}`)
  })
})

describe("D61 set", () => {
  test("any field that the gateway does not read, with any value", () => {
    const set = { store: false, "reasoning.effort": "low", provider: { order: ["a"] }, x: null }
    expect(modelIn({ set })?.set).toEqual(set)
    expect(load(upstream({ set })).models[0]?.routes[0].upstream.edits?.set).toEqual(set)
    expect(modelIn({})?.set).toEqual({})
  })

  const OURS = "no such key, because the gateway reads this field itself"
  test.each([
    ...["model", "stream", "messages", "n", "max_tokens", "max_completion_tokens", "input"],
    ...["Max-Tokens", "MODEL", "stream_options.include_usage", "usage", "n.x", "max_output_tokens"],
  ])("%s stops the start", (field) => {
    expect(refusal(model({ set: { [field]: 1 } }))).toBe(`models[0].set.${field}: expected ${OURS}`)
  })

  test("what another operation reads may be set where that is not offered", () => {
    const chat = { operations: ["chat"], set: { max_output_tokens: 1 } }
    expect(modelIn(chat)?.set).toEqual(chat.set)
    const messages = and({
      upstreams: { openai: { family: "messages", base_url: "http://127.0.0.1:9" } },
      models: [
        {
          ...{ name: "m", family: "messages", upstreams: [{ use: "openai" }], max_output_tokens: 9 },
          ...{ price: { input: "1", output: "1" }, set: { n: 1 } },
        },
      ],
    })
    expect(load(messages).models[0]?.set).toEqual({ n: 1 })
  })

  test.each(["a..b", "", "two words", "a=b"])("%j is no field", (field) => {
    expect(refusal(model({ set: { [field]: 1 } }))).toBe(
      `models[0].set.${field}: expected a field by its names with dots between them, such as reasoning.effort`,
    )
  })
})
