import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { outputBytes } from "../../src/meter/output.ts"
import { isObject } from "../../src/wire/usage.ts"

const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })

/** Each row as the `delta` of a chunk and as the `message` of a completion. */
const messages: [string, object, number][] = [
  ["content", { content: "hello" }, 5],
  ["white space counts", { content: " \n\t" }, 3],
  ["UTF-8 bytes, not characters", { content: "é漢😀" }, 9],
  ["a lone surrogate is three bytes", { content: "\ud83d" }, 3],
  [
    "text parts",
    {
      content: [
        { type: "text", text: "ab" },
        { type: "text", text: "c" },
      ],
    },
    3,
  ],
  [
    "text parts among others",
    { content: [{ type: "image_url", image_url: { url: "x".repeat(130) } }, { text: "c" }] },
    4,
  ],
  ["a part of another type", { content: [{ type: "thinking", thinking: "abc" }] }, 3],
  ["an image under a name of its own", { images: [{ image_url: { url: "x".repeat(6400) } }] }, 100],
  ["base64 under its usual names", { x: { data: "AAAA" }, y: { b64_json: "AAAA" }, signature: "AAAA" }, 3],
  ["text under any name", { thoughts: "ab", future: [{ deep: { deeper: ["cd"] } }] }, 4],
  [
    "ids, types, roles and padding at every depth are none",
    {
      a: [{ id: "x", tool_call_id: "x", type: "x", media_type: "x", format: "x", object: "x" }],
      b: { role: "x", obfuscation: "x" },
    },
    0,
  ],
  ["arguments that are an object", { tool_calls: [{ function: { arguments: { a: 1 } } }] }, 7],
  ["arguments that are a list", { function_call: { arguments: [true, "ab"] } }, 11],
  ["reasoning_details beside reasoning", { reasoning: "ab", reasoning_details: [{ text: "ab" }] }, 2],
  ["reasoning_details alone", { reasoning_details: [{ type: "reasoning.text", text: "abc" }] }, 3],
  ["reasoning", { reasoning: "think" }, 5],
  ["never both of one delta", { reasoning_content: "think", reasoning: "think" }, 5],
  ["reasoning where reasoning_content is null", { reasoning_content: null, reasoning: "abc" }, 3],
  ["reasoning where reasoning_content is empty", { reasoning_content: "", reasoning: "abc" }, 3],
  ["content beside reasoning", { content: "ab", reasoning_content: "cde" }, 5],
  ["refusal", { content: null, refusal: "no" }, 2],
  [
    "a tool call's name and arguments",
    { tool_calls: [{ index: 0, function: { name: "f", arguments: "{}" } }] },
    3,
  ],
  [
    "a custom tool's name and input",
    { tool_calls: [{ type: "custom", custom: { name: "f", input: "abc" } }] },
    4,
  ],
  ["a function call", { function_call: { name: "f", arguments: "{}" } }, 3],
  ["an audio transcript", { audio: { id: "a", data: "AAAA", transcript: "hi" } }, 3],

  ["role only", { role: "assistant" }, 0],
  ["nulls", { content: null, refusal: null, tool_calls: null, function_call: null, audio: null }, 0],
  ["a number as content", { content: 12345 }, 0],
  ["an object as content", { content: { text: "abc" } }, 3],
  ["parts of other shapes", { content: [null, 1, [{ text: "abc" }], { text: 5 }, { text: ["abc"] }] }, 6],
  ["a tool call without a function", { tool_calls: [{ index: 0, id: "call_1", type: "function" }] }, 0],
  ["an object as tool_calls", { tool_calls: { function: { name: "f" } } }, 1],
  ["nulls as tool calls", { tool_calls: [null, "f", 1] }, 1],
  [
    "arguments that are null or a number",
    { tool_calls: [{ function: { arguments: null } }, { arguments: 5 }] },
    0,
  ],
  ["audio data alone", { audio: { id: "a", data: "AAAA" } }, 1],
  ["annotations and other fields", { annotations: [{ text: "x" }], name: "x", obfuscation: "xxxx" }, 2],
  ["fields under __proto__", JSON.parse('{"__proto__":{"content":"abc"}}'), 3],
]

test.each(messages)("D7 the output of a delta, and of a message: %s", (_, message, bytes) => {
  expect(outputBytes(choice({ delta: message }))).toBe(bytes)
  expect(outputBytes(choice({ message }))).toBe(bytes)
})

describe("D7 the output of a payload", () => {
  const payloads: [string, object, number][] = [
    ["legacy text", choice({ text: "abc" }), 3],
    ["legacy text that repeats the content", choice({ text: "abc", delta: { content: "abc" } }), 3],
    [
      "any choice",
      {
        choices: [
          { index: 1, delta: { content: "a" } },
          { index: 0, delta: { content: "b" } },
        ],
      },
      2,
    ],
    [
      "a delta beside its message is counted once",
      choice({ delta: { content: "ab" }, message: { content: "abc" } }),
      2,
    ],
    ["a message beside a delta of null", choice({ delta: null, message: { content: "ab" } }), 2],

    ["no choices", { choices: [] }, 0],
    ["an object as choices", { choices: { 0: { delta: { content: "a" } } } }, 0],
    ["choices that are no objects", { choices: [null, "abc", 1, [{ delta: { content: "a" } }]] }, 0],
    ["a list as delta", choice({ delta: [{ content: "a" }] }), 1],
    ["a string as message", choice({ message: "abc" }), 3],
    ["a list as text", choice({ text: ["abc"] }), 0],
    ["log probabilities", choice({ delta: {}, logprobs: { content: [{ token: "abc" }] } }), 0],
    [
      "content beside the choices",
      { content: "abc", delta: { content: "abc" }, message: { content: "abc" } },
      0,
    ],
    ["an error", { error: { message: "abc" } }, 0],
    ["choices under __proto__", JSON.parse('{"__proto__":{"choices":[{"text":"abc"}]}}'), 0],
  ]
  test.each(payloads)("%s", (_, payload, bytes) => {
    expect(outputBytes(JSON.parse(JSON.stringify(payload)))).toBe(bytes)
    if (isObject(payload)) expect(outputBytes(payload)).toBe(bytes)
  })

  test("arguments nested without end", () => {
    const nested = JSON.parse(`${'{"a":'.repeat(100_000)}"x"${"}".repeat(100_000)}`)
    expect(outputBytes(choice({ delta: { tool_calls: [{ function: { arguments: nested } }] } }))).toBe(
      600_003,
    )
  })

  test("a million choices", () => {
    expect(outputBytes({ choices: Array(1_000_000).fill({ text: "a" }) })).toBe(1_000_000)
  })
})

test("property: any JSON object has a whole number of bytes of output, no more than its text", () => {
  const leaf = fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue({ maxDepth: 2 }))
  const message = fc.record(
    {
      content: leaf,
      refusal: leaf,
      reasoning: leaf,
      reasoning_content: leaf,
      tool_calls: fc.array(
        fc.oneof(leaf, fc.record({ function: fc.record({ name: leaf, arguments: leaf }) })),
      ),
      function_call: leaf,
      audio: leaf,
    },
    { requiredKeys: [] },
  )
  const one = fc.record(
    { index: leaf, delta: fc.oneof(message, leaf), message, text: leaf },
    { requiredKeys: [] },
  )
  const payload = fc.record({ choices: fc.oneof(fc.array(fc.oneof(one, leaf)), leaf) })
  fc.assert(
    fc.property(payload, (payload) => {
      const bytes = outputBytes({ ...payload })
      expect(Number.isInteger(bytes) && bytes >= 0).toBe(true)
      expect(bytes).toBeLessThanOrEqual(Buffer.byteLength(JSON.stringify(payload)))
    }),
  )
})
