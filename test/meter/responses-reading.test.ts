import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ResponsesOutput } from "../../src/meter/responses-output.ts"
import { ResponsesReading } from "../../src/meter/responses-reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { responses } from "../../src/operations/responses.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import type { JsonObject } from "../../src/wire/usage.ts"
import {
  callEvents,
  callItem,
  created,
  last,
  reasoningEvents,
  reasoningItem,
  responseEvent,
  responseObject,
  responseUsage,
  textEvents,
  textItem,
  textStream,
} from "../support/responses.ts"
import { bytesOf, everyCut } from "./cuts.ts"

/** Follows a stream as its relay does. */
function read(chunks: readonly Uint8Array[]) {
  const reading = new ResponsesReading()
  const framer = new Framer(8_000_000, reading.recurring)
  const kinds: string[] = []
  for (const chunk of chunks) for (const event of framer.feed(chunk)) kinds.push(reading.take(event).kind)
  const end = framer.end()
  if (end !== null) kinds.push(reading.take(end).kind)
  return { reading, kinds, evidence: reading.evidence("completed") }
}
const follow = (...events: readonly string[]) => read([bytesOf(events.join(""))])
const bytesIn = (...events: readonly string[]) => follow(...events).evidence.output_bytes

const delta = (fields: object, type = "response.output_text.delta") => responseEvent(type, fields)
/** The first part of the first item. */
const FIRST = { item_id: "msg_1", output_index: 0, content_index: 0 }
const hello = delta({ ...FIRST, delta: "Hello" })
const textDone = (text: string) => responseEvent("response.output_text.done", { ...FIRST, text })
const itemDone = (item: object) => responseEvent("response.output_item.done", { output_index: 0, item })

describe("D66 output is counted once", () => {
  const rows: [name: string, bytes: number, events: readonly string[]][] = [
    ["a message in deltas", 5, textEvents(["Hel", "lo"])],
    ["what the request said is repeated in the first event", 0, [created]],
    ["a call: its name and its arguments", 4 + 7, callEvents("open", ['{"a"', ":1}"])],
    ["reasoning: its summary, and a byte for 64 of what is encrypted", 5 + 1, reasoningEvents(["Hmm", ", "])],
    [
      "reasoning, a message and a call",
      6 + 5 + 11,
      [...reasoningEvents(["Hmm, "]), ...textEvents(["Hello"], 1), ...callEvents("open", ['{"a":1}'], 2)],
    ],
    ["an item without deltas", 5, [itemDone(textItem("Hello"))]],
    [
      "items without a place or a name",
      8,
      ["Hello", "you"].map((text) =>
        responseEvent("response.output_item.done", {
          item: { type: "message", role: "assistant", content: [{ type: "output_text", text }] },
        }),
      ),
    ],
    ["an item that brings more than its deltas", 11, [hello, itemDone(textItem("Hello there"))]],
    ["a response without deltas or items before it", 5, [last([textItem("Hello")])]],
    ["a text as a whole, without deltas", 5, [textDone("Hello")]],
    [
      "events that name the item only by its id",
      5,
      [
        delta({ item_id: "msg_1", delta: "Hello" }),
        responseEvent("response.output_item.done", { item: textItem("Hello") }),
      ],
    ],
    [
      "a place in some events, an id in others",
      5,
      [
        responseEvent("response.output_item.added", {
          output_index: 0,
          item: { ...textItem(""), content: [] },
        }),
        delta({ output_index: 0, content_index: 0, delta: "Hello" }),
        responseEvent("response.output_item.done", { item: textItem("Hello") }),
      ],
    ],
    [
      "two contents of one message",
      10,
      [
        hello,
        delta({ item_id: "msg_1", output_index: 0, content_index: 1, delta: "Hello" }),
        itemDone({
          ...textItem("Hello"),
          content: [...textItem("Hello").content, ...textItem("Hello").content],
        }),
      ],
    ],
    ["a refusal", 2, [delta({ ...FIRST, delta: "No" }, "response.refusal.delta")]],
    [
      "the input of a tool of the client",
      3,
      [delta({ item_id: "c", output_index: 0, delta: "abc" }, "response.custom_tool_call_input.delta")],
    ],
    ["sound counts a byte for 64", 2, [delta({ delta: "A".repeat(100) }, "response.audio.delta")]],
    [
      "a picture counts a byte for 64",
      2,
      [
        responseEvent("response.image_generation_call.partial_image", {
          item_id: "i",
          partial_image_b64: "A".repeat(128),
        }),
      ],
    ],
    [
      "a search: what was looked for",
      5,
      [
        itemDone({
          id: "ws_1",
          type: "web_search_call",
          status: "completed",
          action: { type: "search", query: "rates", sources: [{ type: "url", url: "https://example.org/" }] },
        }),
      ],
    ],
    [
      "an event that nobody knows",
      3,
      [responseEvent("response.poem.stanza", { output_index: 0, line: "abc", status: "x" })],
    ],
    ["a field that nobody knows", 8, [delta({ ...FIRST, delta: "Hello", aside: "abc" })]],
    [
      "no padding, log probabilities, ids and states",
      2,
      [
        delta({
          item_id: "m".repeat(50),
          output_index: 0,
          content_index: 0,
          sequence_number: 1,
          delta: "Hi",
          obfuscation: "xxxxxx",
          logprobs: [{ token: "Hi", top_logprobs: [{ token: "Ho" }] }],
        }),
      ],
    ],
    [
      "what tools of the provider returned is not the model's",
      4,
      [itemDone({ type: "mcp_call", id: "m", name: "list", output: "a long list", error: null })],
    ],
    [
      "an annotation",
      4 + 1,
      [
        responseEvent("response.output_text.annotation.added", {
          ...FIRST,
          annotation: { type: "url_citation", title: "Note", url: "https://example.org/" },
        }),
      ],
    ],
    [
      "arguments that are an object",
      '{"a":"b"}'.length,
      [itemDone({ type: "function_call", arguments: { a: "b" } })],
    ],
    [
      "the output of a shell is not the model's",
      0,
      [responseEvent("response.shell_call_output_content.delta", { delta: { stdout: "files" } })],
    ],
    [
      "states of a search",
      0,
      [responseEvent("response.web_search_call.searching", { output_index: 0, item_id: "ws_1" })],
    ],
    [
      "a list of tools is not the model's",
      0,
      [itemDone({ type: "mcp_list_tools", id: "m", server_label: "s", tools: [{ name: "f" }] })],
    ],
    [
      "comments, keepalives and data that is none",
      0,
      [": x\n\n", responseEvent("keepalive", { sequence_number: 3 }), "data: what\n\n", "data:\n\n"],
    ],
    ["nothing after the last event", 5, [...textStream(["Hello"]), delta({ delta: "more" })]],
  ]
  test.each(rows)("%s: %p bytes", (_name, bytes, events) => {
    expect(bytesIn(...events)).toBe(bytes)
  })

  test("characters count in UTF-8, escapes as what they stand for", () => {
    expect(bytesIn(...textEvents(["hé", '"\n', "😀"]))).toBe(3 + 2 + 4)
  })

  test("events that recur are counted as parts of their item", () => {
    const pieces = Array.from({ length: 200 }, (_, at) => `piece ${at} `)
    const whole = textEvents(pieces)
    const bytes = pieces.join("").length
    expect(bytesIn(...whole)).toBe(bytes)
    expect(bytesIn(...whole, ...textEvents(pieces, 1, "msg_2"))).toBe(2 * bytes)
    expect(
      bytesIn(
        ...textEvents(pieces, 0),
        ...textEvents(["a", "é", "b", "c"], 1, "msg_2"),
        ...textEvents(pieces, 2, "m3"),
      ),
    ).toBe(2 * bytes + 5)
  })

  test("however many items there are, their deltas count, and memory is bounded", () => {
    const output = new ResponsesOutput()
    for (let at = 0; at < 5_000; at++)
      output.take({ type: "response.output_text.delta", output_index: at, item_id: `m${at}`, delta: "ab" })
    expect(output.bytes).toBe(10_000)
    output.take({ type: "response.output_item.done", output_index: 4_999, item: textItem("ab") })
    expect(output.bytes).toBe(10_000)
  })

  test("an item that is nested without end is read without recursion", () => {
    const item: JsonObject = { type: "message" }
    let inner = item
    for (let depth = 0; depth < 100_000; depth++) {
      const next: JsonObject = {}
      inner.more = next
      inner = next
    }
    inner.text = "abc"
    expect(new ResponsesOutput().take({ type: "response.output_item.done", item })).toBe(3)
  })
})

describe("D66 usage is that of the last event", () => {
  const usage = responseUsage(9, 2, 4)
  const valid = {
    state: "valid",
    usage: { prompt_tokens: 9, cached_tokens: 4, completion_tokens: 2, buckets: { web_search: 0 } },
    notes: [],
  }
  test.each(["response.completed", "response.incomplete", "response.failed"])("%s", (type) => {
    const { reading, kinds, evidence } = follow(
      ...textEvents(["Hello"]),
      last([textItem("Hello")], { usage }, type),
    )
    expect(kinds.at(-1)).toBe("done")
    expect(evidence).toMatchObject({ usage: valid, usage_final: true, output_bytes_after_usage: 0 })
    expect({ done: reading.done, answered: reading.answered }).toEqual({
      done: true,
      answered: type !== "response.failed",
    })
    expect(evidence.error).toBe(type === "response.failed")
  })

  const others: [name: string, state: string, events: readonly string[]][] = [
    ["none in a stream that is cut", "missing", textEvents(["Hello"])],
    [
      "none before the last event",
      "missing",
      [responseEvent("response.in_progress", { response: { usage } })],
    ],
    ["a text", "invalid", [last([], { usage: { ...usage, output_tokens: "2" } })]],
    ["no response", "missing", [responseEvent("response.completed", { usage })]],
  ]
  test.each(others)("%s", (_name, state, events) => {
    expect(follow(...events).evidence).toMatchObject({ usage: { state }, usage_final: false })
  })

  test("D1 more than the request can have caused", () => {
    const reading = new ResponsesReading({
      ...ANY_USAGE,
      limits: { prompt_tokens: 8, completion_tokens: 100 },
    })
    for (const event of new Framer(10_000).feed(bytesOf(textStream(["Hello"], usage).join(""))))
      reading.take(event)
    expect(reading.evidence("completed")).toMatchObject({
      usage: { state: "valid", usage: { prompt_tokens: 8 }, notes: ["usage_implausible"] },
    })
  })

  test("D2 0/0 beside output is a placeholder", () => {
    const zero = responseUsage(0, 0)
    expect(follow(...textStream(["Hello"], zero)).evidence.usage_final).toBeFalse()
    expect(follow(last([], { usage: zero })).evidence.usage_final).toBeTrue()
  })

  test("D60 its buckets, and searches that it counts or that were seen", () => {
    const detailed = {
      ...usage,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 3 },
      output_tokens_details: { reasoning_tokens: 1 },
    }
    const search = (id: string, fields: object = {}) => ({
      id,
      type: "web_search_call",
      status: "completed",
      action: { type: "search", query: "q" },
      ...fields,
    })
    const searches = [
      search("1"),
      search("2"),
      search("3", { status: "failed" }),
      search("4", { action: { type: "open_page", url: "u" } }),
    ]
    const counted = (output: readonly object[], more: object = {}) => {
      const { usage: read } = follow(last(output, { usage: detailed, ...more })).evidence
      return read.state === "valid" ? { ...read.usage.buckets, notes: read.notes } : read
    }
    const tokens = { cache_write: 3, reasoning: 1, notes: [] }
    expect(counted([])).toEqual({ ...tokens, web_search: 0 })
    expect(counted(searches)).toEqual({ ...tokens, web_search: 2 })
    expect(counted(searches, { tool_usage: { web_search: { num_requests: 5 } } })).toEqual({
      ...tokens,
      web_search: 5,
    })
    expect(counted([], { tool_usage: { image_gen: { total_tokens: 9 } } })).toEqual({
      ...tokens,
      web_search: 0,
      notes: ["unpriced"],
    })
    const seen = searches.map((item, output_index) =>
      responseEvent("response.output_item.done", { output_index, item }),
    )
    const { evidence } = follow(...seen, ...seen, last([], { usage, output: undefined }))
    expect(evidence.usage).toMatchObject({ usage: { buckets: { web_search: 2 } } })
  })

  test("D6 D41 a last event that is not read because of its shape is one that is too large", () => {
    const ending = (elements: number, name = "include") =>
      last([], { usage, [name]: Array(elements).fill(0) })
    const large = follow(...textEvents(["Hello"]), ending(100_001)).evidence
    expect(large).toMatchObject({ usage: { state: "missing" }, output_bytes: 5, too_large: true })
    expect(follow(...textEvents(["Hello"]), ending(90_000)).evidence).not.toHaveProperty("too_large")
    expect(follow(...textEvents(["Hello"]), ending(900_000, "logprobs")).evidence).toMatchObject({
      usage: { state: "valid" },
    })
    const unread = `data: ${JSON.stringify(Array(100_001).fill(0))}\n\n`
    expect(follow(unread, ...textStream(["Hello"], usage)).evidence).not.toHaveProperty("too_large")
  })

  test("D5 D60 the runs of tools in an answer that is not kept are those of one that is, at every cut", () => {
    const action = { query: "type", type: "search" }
    const items = [
      { id: "1", type: "file_search_call", results: [{ type: "web_search_call", text: "x".repeat(200) }] },
      { status: "failed", action, type: "web_search_call" },
      { action, status: "completed", type: "web_search_call" },
      { type: "web_search_call", action: { type: "open_page" } },
      textItem("web_search_call", "2"),
      { type: "code_interpreter_call", outputs: [{ type: "logs", logs: "[]{}" }] },
    ]
    const counting = { tool_usage: { web_search: { num_requests: 3 }, image_gen: { total_tokens: 9 } } }
    for (const more of [{}, counting]) {
      const response = responseObject(items, { usage, ...more })
      const kept = responses.json.usageOf(response, ANY_USAGE)
      expect(kept).toMatchObject({ usage: { tool_runs: { file_search: 1, code_interpreter: 1 } } })
      for (const chunks of everyCut(bytesOf(JSON.stringify(response)))) {
        const large = responses.json.openLarge()
        for (const chunk of chunks) large.take(chunk)
        expect(responses.json.usageOf(large.members, ANY_USAGE)).toEqual(kept)
        const reading = new ResponsesReading()
        reading.takeLarge(large)
        expect(reading.evidence("completed").usage).toEqual(kept)
      }
    }
  })

  test("D5 D60 the many runs of one tool in an answer that is not kept hide those of no other", () => {
    const large = responses.json.openLarge()
    const items = Array.from({ length: 3_000 }, (_, at) => ({
      type: at < 2_000 ? "file_search_call" : "code_interpreter_call",
    }))
    large.take(bytesOf(JSON.stringify(responseObject(items, { usage }))))
    const read = responses.json.usageOf(large.members, ANY_USAGE)
    const { file_search = 0, code_interpreter } = read.state === "valid" ? (read.usage.tool_runs ?? {}) : {}
    expect(file_search).toBeGreaterThan(1_000)
    expect(code_interpreter).toBe(1_000)
  })
})

describe("D66 what ends a stream", () => {
  test("an error event, and an error in any event", () => {
    for (const event of [
      responseEvent("error", { code: "server_error", message: "theirs" }),
      'data: {"error":{"message":"theirs"}}\n\n',
    ]) {
      const { kinds, evidence, reading } = follow(...textEvents(["Hello"]), event, ...textStream(["more"]))
      expect(kinds).toContain("error")
      expect(evidence).toMatchObject({ output_bytes: 5, error: true, usage: { state: "missing" } })
      expect(reading.answered).toBeFalse()
    }
  })
  test("a null error is none", () => {
    expect(follow('data: {"type":"x","error":null}\n\n').kinds).toEqual(["chunk"])
  })
  test("[DONE] before the last event is an end without it; after it, nothing is read", () => {
    const cut = follow(...textEvents(["Hello"]), "data: [DONE]\n\n", ...textStream(["more"]))
    expect(cut.kinds).toContain("error")
    expect(cut.reading).toMatchObject({ answered: false, done: false })
    expect(cut.evidence).toMatchObject({ output_bytes: 5, error: false })
    const whole = follow(...textStream(["Hello"]), "data: [DONE]\n\n")
    expect(whole.kinds.at(-1)).toBe("nothing")
    expect(whole.reading.answered).toBeTrue()
  })
  test("D9 the answer is there once its items are done, and the last one may be the last", () => {
    const paused = (...events: readonly string[]) => follow(...events).reading.paused
    expect(paused(created)).toBeFalse()
    expect(paused(...textEvents(["Hello"]).slice(0, -1))).toBeFalse()
    expect(paused(...textEvents(["Hello"]))).toBeTrue()
    expect(paused(...reasoningEvents(["Hmm"]))).toBeFalse()
    expect(paused(...reasoningEvents(["Hmm"]), ...callEvents("f", ["{}"], 1))).toBeTrue()
    expect(paused(...textEvents(["Hello"]), ...callEvents("f", ["{}"], 1).slice(0, 2))).toBeFalse()
  })
})

describe("however the bytes are cut, a stream means the same", () => {
  const streams = {
    whole: textStream(["Hel", "lo", "!", " “é”"]),
    mixed: [
      created,
      ...reasoningEvents(["Hmm"]),
      ...textEvents(["Hello", "x", "y"], 1),
      ...callEvents("f", ["{}"], 2),
      last([reasoningItem("Hmm"), textItem("Helloxy"), callItem("f", "{}")]),
    ],
    "cut, with CRLF": [created, ...textEvents(["a", "b", "c"])].map((event) =>
      event.replaceAll("\n", "\r\n"),
    ),
    "an error": [...textEvents(["Hello"]), responseEvent("error", { message: "theirs" })],
  }
  test.each(Object.entries(streams))("%s", (_name, events) => {
    const bytes = bytesOf(events.join(""))
    const whole = read([bytes]).evidence
    for (const chunks of everyCut(bytes)) expect(read(chunks).evidence).toEqual(whole)
  })

  test("and output never shrinks while it comes", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(streams.mixed.slice(0, -1), { minLength: 1 }), (events) => {
        let most = 0
        events.forEach((_, at) => {
          const bytes = bytesIn(...events.slice(0, at + 1))
          expect(bytes).toBeGreaterThanOrEqual(most)
          most = bytes
        })
      }),
      { numRuns: 50 },
    )
  })
})
