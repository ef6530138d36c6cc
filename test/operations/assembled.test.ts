import { describe, expect, test } from "bun:test"
import { assembled } from "../../src/operations/assembled.ts"
import { chat } from "../../src/operations/chat.ts"
import { messages } from "../../src/operations/messages.ts"
import type { EventForm } from "../../src/operations/operation.ts"
import { responses } from "../../src/operations/responses.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import {
  aMessage,
  blockDelta,
  blockStart,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  messageWords,
  namedEvent,
} from "../support/messages.ts"
import { chatChunk, chatCompletion, chatWords, sseEvent, usage, usageChunk } from "../support/provider.ts"
import {
  callItem,
  reasoningItem,
  responseEvent,
  responseObject,
  responseUsage,
  textItem,
} from "../support/responses.ts"

/** D5: a JSON call that is answered with events is answered with the JSON that they make. */

const EVENT_BYTES = 100_000
const DONE = "data: [DONE]\n\n"

const forms = { chat: chat.stream, messages: messages.stream, responses: responses.stream }
type Family = keyof typeof forms

function formOf(family: Family): EventForm {
  const form = forms[family]
  if (form === null) throw new Error("there are no streams")
  return form
}

const read = (family: Family, text: string, choices = 1, event_bytes = 1_000_000) =>
  assembled(formOf(family), Buffer.from(text), choices, event_bytes, ANY_USAGE)

async function answerOf(family: Family, text: string, choices = 1) {
  const { evidence, bytes } = await read(family, text, choices, EVENT_BYTES)
  const answer: unknown = evidence.body === "object" ? JSON.parse(Buffer.from(bytes).toString()) : null
  return { answer, evidence }
}

test("D17 the error of a choice is told", async () => {
  const failing = { choices: [{ index: 0, delta: {}, error: { message: "x" } }] }
  const { evidence } = await answerOf("chat", [failing, chatChunk({}, "stop")].map(sseEvent).join("") + DONE)
  expect(evidence).toMatchObject({ body: "object", reports_error: true })
})

describe("D5 D29 the events that a JSON answer is turned into make this answer again", () => {
  const tool = (index: number) => ({
    id: `call_${index}`,
    type: "function",
    function: { name: "open", arguments: `{"door":${index}}` },
  })
  const message = {
    role: "assistant",
    content: null,
    reasoning_content: "So.",
    tool_calls: [tool(0), tool(1)],
  }
  const choice = (index: number, finish_reason: string) => ({ index, message, logprobs: null, finish_reason })
  const blocks = [
    { type: "thinking", thinking: "So.", signature: "c2ln" },
    { type: "text", text: "Hello", citations: [{ type: "page_location", cited_text: "x" }] },
    { type: "tool_use", id: "toolu_1", name: "open", input: { door: 1 } },
    { type: "tool_use", id: "toolu_2", name: "close", input: { doors: [] } },
  ]
  const items = [reasoningItem("So."), textItem("Hello"), callItem("open", '{"door":1}')]
  test.each<[string, Family, Record<string, unknown>]>([
    ["a text", "chat", chatCompletion("Hello")],
    [
      "reasoning, tools and several choices",
      "chat",
      chatCompletion("", { choices: [choice(0, "tool_calls"), choice(1, "length")], service_tier: "flex" }),
    ],
    ["no usage", "chat", chatCompletion("Hello", { usage: undefined })],
    ["a message", "messages", aMessage("Hello")],
    ["thinking, citations and tools", "messages", aMessage("", { content: blocks, stop_reason: "tool_use" })],
    ["a response", "responses", responseObject([textItem("Hello")])],
    ["reasoning and a call", "responses", responseObject(items, { service_tier: "default" })],
    ["one that its limit cut", "responses", responseObject([textItem("Hel")], { status: "incomplete" })],
  ])("%s: %s", async (_, family, answer) => {
    const { answer: made, evidence } = await answerOf(family, formOf(family).eventsOf(answer), 2)
    expect(made).toEqual(JSON.parse(JSON.stringify(answer)))
    const { json } = { chat, messages, responses }[family]
    expect(evidence.usage).toEqual(json.usageOf(answer, ANY_USAGE))
    expect(evidence.output_bytes).toBe(json.outputBytes(answer))
  })
})

describe("D5 chunks of a chat completion", () => {
  const call = (call: object) => chatChunk({ tool_calls: [call] })
  const rows: [name: string, events: readonly object[], message: object][] = [
    [
      "arguments in pieces, of calls in turns",
      [
        call({ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } }),
        call({ index: 1, id: "b", type: "function", function: { name: "g", arguments: "[" } }),
        call({ index: 0, function: { arguments: '{"x":' } }),
        call({ index: 0, id: "a", type: "function", function: { name: "f", arguments: "1}" } }),
        call({ index: 1, id: null, function: { name: null, arguments: "]" } }),
      ],
      {
        tool_calls: [
          { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } },
          { id: "b", type: "function", function: { name: "g", arguments: "[]" } },
        ],
      },
    ],
    [
      "calls with other ids under one index",
      [
        call({ index: 0, id: "a", function: { arguments: "1" } }),
        call({ index: 0, id: "b", function: { arguments: "2" } }),
      ],
      {
        tool_calls: [
          { id: "a", function: { arguments: "1" } },
          { id: "b", function: { arguments: "2" } },
        ],
      },
    ],
    [
      "reasoning in parts",
      [
        chatChunk({
          role: "assistant",
          content: "",
          reasoning_details: [{ index: 0, type: "reasoning.text", text: "So" }],
        }),
        chatChunk({
          role: "assistant",
          content: null,
          reasoning_details: [{ index: 0, type: "reasoning.text", text: "." }],
        }),
        chatChunk({ content: "Hi" }),
      ],
      {
        role: "assistant",
        content: "Hi",
        reasoning_details: [{ index: 0, type: "reasoning.text", text: "So." }],
      },
    ],
    [
      "a list of parts, then text",
      [chatChunk({ content: [{ type: "thinking", thinking: "So." }] }), chatChunk({ content: "Hi" })],
      {
        content: [
          { type: "thinking", thinking: "So." },
          { type: "text", text: "Hi" },
        ],
      },
    ],
    [
      "a whole message after its deltas",
      [
        ...chatWords("Hel", "lo"),
        { choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }] },
      ],
      { role: "assistant", content: "Hello" },
    ],
    [
      "names of JavaScript's objects",
      [
        chatChunk({ content: "Hi", constructor: "a", ["__proto__"]: { polluted: true } }),
        chatChunk({ constructor: "b" }),
      ],
      { content: "Hi", constructor: "ab" },
    ],
  ]
  test.each(rows)("%s", async (_, events, message) => {
    const text = [...events, chatChunk({}, "stop"), usageChunk(usage(9, 12))].map(sseEvent).join("") + DONE
    const { answer } = await answerOf("chat", text)
    expect(answer).toEqual({
      ...chatCompletion(""),
      choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    })
    expect("polluted" in {}).toBe(false)
  })

  const whole = [chatChunk({ content: "Hi" }), chatChunk({}, "stop")]
  const beside = { ...chatChunk({}, "stop"), choices: [{ index: 0, delta: {}, usage: usage(9, 12) }] }
  const two = [usageChunk(usage(1000, 0)), usageChunk(usage(0, 50))]
  test.each<[string, readonly object[], number, number]>([
    ["beside a choice (Moonshot)", [...whole, beside], 9, 12],
    ["of x_groq", [...whole, { ...chatChunk({}), x_groq: { usage: usage(9, 12) } }], 9, 12],
    ["in two parts", [...whole, ...two], 1000, 50],
    [
      "cumulative",
      [{ ...chatChunk({ content: "" }), usage: usage(9, 3) }, ...whole, usageChunk(usage(9, 12))],
      9,
      12,
    ],
  ])("usage %s", async (_, events, prompt_tokens, completion_tokens) => {
    const { answer, evidence } = await answerOf("chat", events.map(sseEvent).join("") + DONE)
    expect(answer).toMatchObject({ usage: { prompt_tokens, completion_tokens } })
    expect(evidence.usage).toMatchObject({ usage: { prompt_tokens, completion_tokens } })
  })

  test("lines end with CRLF, and a comment is no event", async () => {
    const text = [": hello\n\n", ...whole.map(sseEvent), DONE].join("").replaceAll("\n", "\r\n")
    const { answer } = await answerOf("chat", text)
    expect(answer).toMatchObject({ choices: [{ message: { content: "Hi" }, finish_reason: "stop" }] })
  })
})

describe("D5 events of a message", () => {
  test("usage is that of both events, and what an event adds is there", async () => {
    const events = [
      messageStart(messageUsage(10, 1, { cache_read_input_tokens: 7 })),
      blockStart(0, { type: "tool_use", id: "t", name: "f", input: {} }),
      blockDelta(0, { type: "input_json_delta", partial_json: '{"a":' }),
      {
        ...messageDelta({ output_tokens: 5, cache_read_input_tokens: null }, "max_tokens"),
        context_management: { n: 1 },
      },
      MESSAGE_STOP,
    ]
    const { answer, evidence } = await answerOf("messages", events.map(namedEvent).join(""))
    expect(answer).toMatchObject({
      // The limit cut its JSON.
      content: [{ type: "tool_use", id: "t", name: "f", input: '{"a":' }],
      stop_reason: "max_tokens",
      context_management: { n: 1 },
      usage: { input_tokens: 10, cache_read_input_tokens: 7, output_tokens: 5, service_tier: "standard" },
    })
    expect(evidence.usage).toMatchObject({ usage: { prompt_tokens: 17, completion_tokens: 5 } })
  })
})

describe("D5 events of a response", () => {
  test("a last event without items has those of the events before it", async () => {
    const items = [textItem("Hello"), callItem("open", "{}")]
    const text =
      items
        .map((item, output_index) => responseEvent("response.output_item.done", { output_index, item }))
        .join("") + responseEvent("response.completed", { response: responseObject([]) })
    const { answer } = await answerOf("responses", text)
    expect(answer).toEqual(responseObject(items))
  })
})

test("D41 a large answer is printed and encoded in different turns of the event loop", async () => {
  let turns = 0
  const turn = () => {
    turns += 1
    return null
  }
  const text = `:${"x".repeat(300_000)}\n\n${chatWords("Hello").map(sseEvent).join("")}${DONE}`
  await assembled(formOf("chat"), Buffer.from(text), 1, 1_000_000, ANY_USAGE, turn)
  expect(turns).toBe(3)
})

describe("D5 D10 what is no answer", () => {
  const words = chatWords("Hello").slice(0, -1).map(sseEvent).join("")
  const error = { error: { message: "x", type: "server_error" } }
  const message = messageWords("Hello").map(namedEvent)
  const failed = (fields: object) =>
    responseEvent("response.failed", {
      response: responseObject([], { status: "failed", error: { code: "x" }, ...fields }),
    })
  test.each<[string, Family, string, "object" | "malformed" | "error"]>([
    ["a page", "chat", "<html>", "malformed"],
    ["no event of JSON", "chat", "data: x\n\ndata: [DONE]\n\n", "malformed"],
    ["cut before its finish_reason", "chat", words, "malformed"],
    ["an event that is too large", "chat", sseEvent({ x: "x".repeat(EVENT_BYTES) }) + DONE, "malformed"],
    ["an error", "chat", words + sseEvent(error), "error"],
    ["an error with usage", "chat", words + sseEvent({ ...error, usage: usage(9, 1) }), "object"],
    ["cut after its finish_reason", "chat", chatWords("Hello").map(sseEvent).join(""), "object"],
    ["only a [DONE] to end it", "chat", words + DONE, "object"],
    ["cut", "messages", message.slice(0, -2).join(""), "malformed"],
    ["without message_stop", "messages", message.slice(0, -1).join(""), "object"],
    [
      "an error",
      "messages",
      message.slice(0, -2).join("") + namedEvent({ type: "error", ...error }),
      "error",
    ],
    ["cut", "responses", responseEvent("response.created", { response: responseObject([]) }), "malformed"],
    [
      "cut by [DONE]",
      "responses",
      responseEvent("response.created", { response: responseObject([]) }) + DONE,
      "malformed",
    ],
    ["failed", "responses", failed({ usage: null }), "error"],
    ["failed with usage", "responses", failed({}), "object"],
  ])("%s (%s)", async (_, family, text, body) => {
    expect((await answerOf(family, text)).evidence.body).toBe(body)
  })

  test("D29 D41 nested so deep that it takes seconds to print: charged, and not shown", async () => {
    const deep = `${"[".repeat(30_000)}${"]".repeat(30_000)}`
    const event = `data: {"choices":[{"index":0,"delta":{"content":${deep}}}]}\n\n`
    const { evidence } = await read("chat", event + event + DONE)
    expect(evidence).toMatchObject({ body: "object", too_large: true })
  })

  test("D29 D41 with more logprobs than are printed: charged by its usage, and not shown", async () => {
    const logprobs = Array.from({ length: 150_000 }, () => 1)
    const chunk = { choices: [{ index: 0, delta: { content: "a" }, logprobs, finish_reason: "stop" }] }
    const items = [{ ...textItem("Hello"), logprobs }]
    const texts: readonly [Family, string][] = [
      ["chat", sseEvent(chunk) + sseEvent(usageChunk(usage(9, 1))) + DONE],
      [
        "responses",
        responseEvent("response.created", { response: responseObject([]) }) +
          responseEvent("response.completed", {
            response: responseObject(items, { usage: responseUsage(9, 1) }),
          }),
      ],
    ]
    for (const [family, text] of texts)
      expect((await read(family, text)).evidence).toMatchObject({
        body: "object",
        too_large: true,
        usage: { state: "valid", usage: { prompt_tokens: 9, completion_tokens: 1 } },
      })
  })
})
