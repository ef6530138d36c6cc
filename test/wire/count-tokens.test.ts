import { describe, expect, test } from "bun:test"
import {
  checkTokenCount,
  forCounting,
  generationFields,
  parseCountTokens,
} from "../../src/wire/count-tokens.ts"
import { refusalOf } from "../support/refusal.ts"

const request = { model: "m", messages: [{ role: "user", content: "hello" }] }
const bytes = (text: string) => new TextEncoder().encode(text)

describe("spec 2: a token count at fault is a 400 that names the field", () => {
  test.each([
    ["no model", { messages: request.messages }, "model"],
    ["no messages", { model: "m" }, "messages"],
    ["a message without a role", { ...request, messages: [{}] }, "messages[0].role"],
  ])("%s", (_, body, param) => {
    expect(refusalOf(() => parseCountTokens(body))).toMatchObject({
      code: "invalid_request",
      detail: { param },
    })
  })

  test("the fields of generation are not looked at, whatever they hold", () => {
    const odd = {
      ...request,
      stream: "yes",
      temperature: [],
      top_p: {},
      top_k: -1,
      stop: 0,
      stop_sequences: null,
    }
    expect(parseCountTokens(odd)).toBe(odd)
  })
})

describe("spec 4.3 rule 3: what is forwarded", () => {
  test("the six fields are the specification's", () => {
    expect<readonly string[]>(generationFields).toEqual([
      "stream",
      "temperature",
      "top_p",
      "top_k",
      "stop",
      "stop_sequences",
    ])
  })

  test("they are removed at the top only, the model is renamed, all else stays in its order, and the original is untouched", () => {
    const body = parseCountTokens(
      JSON.parse(
        '{"stream":true,"model":"ours","system":"s","temperature":1,"messages":[{"role":"user","content":"x","stream":1,"stop":["y"]}],"top_p":0.5,"top_k":5,"tools":[{"temperature":3}],"stop":"a","stop_sequences":["b"],"thinking":{"type":"enabled"},"__proto__":{"a":1}}',
      ),
    )
    const before = JSON.stringify(body)
    expect(JSON.stringify(forCounting(body, "theirs"))).toBe(
      '{"model":"theirs","system":"s","messages":[{"role":"user","content":"x","stream":1,"stop":["y"]}],"tools":[{"temperature":3}],"thinking":{"type":"enabled"},"__proto__":{"a":1}}',
    )
    expect(JSON.stringify(body)).toBe(before)
  })
})

describe("D22 the answer must carry a count, otherwise 502", () => {
  test.each([
    ["empty", ""],
    ["blank", " \n"],
    ["HTML", "<html>"],
    ["truncated", '{"input_tokens":1'],
    ["an empty object", "{}"],
    ["null", "null"],
    ["an array", '[{"input_tokens":1}]'],
    ["a number", "7"],
    ["null tokens", '{"input_tokens":null}'],
    ["a string", '{"input_tokens":"7"}'],
    ["negative", '{"input_tokens":-1}'],
    ["a fraction", '{"input_tokens":7.5}'],
    ["infinite", '{"input_tokens":1e400}'],
    ["over 2^53", '{"input_tokens":9007199254740993}'],
    ["an error", '{"error":{"message":"secret"}}'],
  ])("%s", (_, text) => {
    const error = refusalOf(() => checkTokenCount(bytes(text)))
    expect(error).toMatchObject({ code: "upstream_error", status: 502 })
    expect(error.message).toBe("The provider's response contains no token count. Retry the request.")
  })

  test("bad UTF-8", () => {
    const body = Uint8Array.of(...bytes('{"input_tokens":1,"x":"'), 0xff, ...bytes('"}'))
    expect(refusalOf(() => checkTokenCount(body)).code).toBe("upstream_error")
  })

  test.each(['{"input_tokens":0}', '{"input_tokens":11,"cache":{"x":1}}', ' {"input_tokens": 1e3}\n'])(
    "%s is a count",
    (text) => {
      expect(() => checkTokenCount(bytes(text))).not.toThrow()
    },
  )
})
