import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { outputBytes } from "../../src/meter/output.ts"
import { parsePayload } from "../../src/meter/payload.ts"
import { chat } from "../../src/operations/chat.ts"
import { ANY_USAGE, readUsage } from "../../src/usage/reading.ts"
import { readServiceTier } from "../../src/wire/usage.ts"
import { bytesOf, everyCut } from "./cuts.ts"

function read(chunks: readonly Uint8Array[]) {
  const answer = chat.json.openLarge()
  for (const chunk of chunks) answer.take(chunk)
  answer.stop()
  const { whole, object, output_bytes, service_tier } = answer
  return { whole, object, output_bytes, service_tier, usage: chat.json.usageOf(answer.members, ANY_USAGE) }
}

const usage = '"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}'
const nineAndTwo = { prompt_tokens: 9, cached_tokens: 4, completion_tokens: 2 }
const said = (message: object) => JSON.stringify({ choices: [{ index: 0, message }] })

describe("D5 a JSON answer that is not kept says the same as one that is", () => {
  const rows: [string, string][] = [
    ["usage behind the choices", `{"choices":[{"message":{"content":"Hello"}}],${usage}}`],
    ["usage before the choices", `{${usage},"choices":[{"message":{"content":"Hello"}}]}`],
    ["usage twice: the last", `{"usage":{"prompt_tokens":1},${usage}}`],
    ["usage that is invalid", '{"usage":{"prompt_tokens":-1,"completion_tokens":2}}'],
    ["usage of a choice is none", `{"choices":[{${usage}}]}`],
    ["a service tier", '{"service_tier":"flex","choices":[{"service_tier":"x"}]}'],
    ["a service tier of the usage", '{"service_tier":null,"usage":{"service_tier":"priority"}}'],
    ["reasoning, said twice", said({ reasoning_content: "abc", reasoning: "abc", content: "d" })],
    ["a service tier beside that of the usage", '{"usage":{"service_tier":"x"},"service_tier":"flex"}'],
    ["a service tier that is none", '{"service_tier":{"a":"flex"}}'],
    ["an escaped key", '{"us\\u0061ge":1}'],
    ["escapes", said({ content: 'a"b\\c\n\té' })],
    ["escapes of four digits", '{"choices":[{"message":{"content":"\\u00e9x\\ud83d\\ude00"}}]}'],
    ["several choices", '{"choices":[{"message":{"content":"ab"}},{"text":"c"},{"delta":{"content":"d"}}]}'],
    ["tool calls", said({ tool_calls: [{ id: "call_1", function: { name: "f", arguments: '{"a":1}' } }] })],
    [
      "ids, types and roles",
      said({ id: "x", role: "assistant", parts: [{ type: "x", media_type: "y", say: "z" }] }),
    ],
    ["data", said({ images: [{ image_url: { url: "x".repeat(130) } }] })],
    ["log probabilities are no output", '{"choices":[{"logprobs":{"content":[{"token":"abc"}]}}]}'],
    [
      "white space and a BOM",
      `\ufeff \r\n{"choices" : [ { "message" : { "content" : "ab" } } ] , ${usage} } \n`,
    ],
  ]
  test.each(rows)("%s, at every cut", (_, text) => {
    const payload = parsePayload(text.replace("\ufeff", "")) ?? {}
    const expected = {
      whole: true,
      object: true,
      output_bytes: outputBytes(payload),
      usage: _ === "an escaped key" ? { state: "missing" as const } : readUsage(payload.usage),
      service_tier: readServiceTier(payload),
    }
    for (const chunks of everyCut(bytesOf(text))) expect(read(chunks)).toEqual(expected)
  })

  test("usage as it is read", () => {
    expect(read([bytesOf(`{${usage}}`)]).usage).toEqual({ state: "valid", usage: nineAndTwo, notes: [] })
  })

  const other: [string, string][] = [
    ["HTML", "<html>{}</html>"],
    ["a list", "[{}]"],
    ["two objects", "{}{}"],
    ["one bracket too many", "{}}"],
  ]
  test.each(other)("%s is no object", (_, text) => {
    for (const chunks of everyCut(bytesOf(text)))
      expect(read(chunks)).toMatchObject({ whole: false, object: false })
  })

  test("an object that has not ended is one as far as it came", () => {
    const part = '{"choices":[{"message":{"content":"Hello, '
    expect(read([bytesOf(part)])).toEqual({
      whole: false,
      object: true,
      output_bytes: 7,
      usage: { state: "missing" },
      service_tier: undefined,
    })
    expect(read([bytesOf(`${part}world"}}],${usage},"x":"`)])).toMatchObject({
      output_bytes: 12,
      usage: { state: "valid" },
    })
  })

  test("a usage without end is none, and brackets without end take no memory", () => {
    const long = `{"usage":{"x":"${"x".repeat(100_000)}","prompt_tokens":9,"completion_tokens":2}}`
    expect(read([bytesOf(long)]).usage).toEqual({ state: "invalid" })
    const answer = chat.json.openLarge()
    for (let n = 0; n < 100; n++) answer.take(bytesOf(n === 0 ? '{"a":' : "[".repeat(100_000)))
    expect(answer.whole).toBe(false)
  })

  test("property: any answer in plain characters", () => {
    const value = fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 4 }))
    const message = fc.record(
      {
        content: value,
        reasoning: value,
        future: value,
        tool_calls: fc.array(fc.record({ id: fc.string(), x: value })),
      },
      { requiredKeys: [] },
    )
    const payload = fc.record({
      choices: fc.array(fc.record({ message, index: fc.nat() })),
      usage: fc.oneof(value, fc.record({ prompt_tokens: fc.nat(9), completion_tokens: fc.nat(9) })),
    })
    fc.assert(
      fc.property(payload, (payload) => {
        const text = JSON.stringify(payload)
        // What an escape stands for is counted by its length alone, and a key with one is another key.
        fc.pre(!/\\|arguments/.test(text))
        const parsed = parsePayload(text) ?? {}
        expect(read([bytesOf(text)])).toMatchObject({
          whole: true,
          output_bytes: outputBytes(parsed),
          usage: readUsage(parsed.usage),
        })
      }),
    )
  })
})

test("D41 a long text with few escapes is not searched for its end at each of them", () => {
  const content = `${"x".repeat(98)}\n`.repeat(40_000)
  const bytes = bytesOf(said({ content }))
  const before = process.cpuUsage()
  expect(read([bytes])).toMatchObject({ whole: true, output_bytes: content.length })
  // It takes 10 ms of the processor, and 2.4 s if it is.
  expect(process.cpuUsage(before).user).toBeLessThan(400_000)
})
