import { describe, expect, test } from "bun:test"
import type { LargeAnswer } from "../../src/meter/large-answer.ts"
import { messageBytes } from "../../src/meter/messages-output.ts"
import { MessagesReading } from "../../src/meter/messages-reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { messages } from "../../src/operations/messages.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import {
  blockDelta,
  blockStart,
  blockStop,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  namedEvent,
  textBlock,
} from "../support/messages.ts"
import { bytesOf, cutAt, everyCut } from "./cuts.ts"

/** Reads as the relay does, up to the end of the chunks. */
function follow(chunks: readonly Uint8Array[]) {
  const reading = new MessagesReading()
  const framer = new Framer(1_000_000, reading.recurring)
  for (const chunk of chunks) for (const event of framer.feed(chunk)) reading.take(event)
  return { ...reading.evidence("completed"), done: reading.done, answered: reading.answered }
}

const SEVERAL = ["one", " two", " three", ' fo"ur', " fünf", " six"]
const EVENTS = [
  messageStart(messageUsage(10, 1, { cache_read_input_tokens: 4, cache_creation_input_tokens: 3 })),
  { type: "ping" },
  blockStart(0, { type: "thinking", thinking: "", signature: "" }),
  blockDelta(0, { type: "thinking_delta", thinking: "Hm." }),
  blockDelta(0, { type: "signature_delta", signature: "c2ln" }),
  blockStop(0),
  ...textBlock(1, ...SEVERAL),
  blockStart(2, { type: "tool_use", id: "toolu_1", name: "weather", input: {} }),
  blockDelta(2, { type: "input_json_delta", partial_json: '{"city":"Bern"}' }),
  blockStop(2),
  messageDelta({ output_tokens: 30 }, "tool_use"),
  MESSAGE_STOP,
]
const STREAM = EVENTS.map(namedEvent).join("")
/** "Hm.", one byte of the signature, the texts, the name and the arguments. */
const OUTPUT_BYTES = 3 + 1 + Buffer.byteLength(SEVERAL.join("")) + 7 + 15
const INPUT = { prompt_tokens: 17, cached_tokens: 4 }

test.each([
  ["LF", "\n"],
  ["CRLF", "\r\n"],
  ["CR", "\r"],
])("D64 the cuts between chunks mean nothing: %s", (_, end) => {
  for (const chunks of everyCut(bytesOf(STREAM.replaceAll("\n", end)))) {
    expect(follow(chunks)).toEqual({
      shape: "stream",
      ending: "completed",
      usage: {
        state: "valid",
        usage: { ...INPUT, completion_tokens: 30, buckets: { cache_write: 3, web_search: 0 } },
        notes: [],
      },
      usage_final: true,
      output_bytes: OUTPUT_BYTES,
      output_bytes_after_usage: 0,
      error: false,
      service_tier: "default",
      done: true,
      answered: true,
    })
  }
})

describe("D64 a stream that ends at any byte", () => {
  const bytes = bytesOf(STREAM)
  const startEnds = namedEvent(EVENTS[0] ?? MESSAGE_STOP).length
  const usageEnds = bytes.byteLength - namedEvent(MESSAGE_STOP).length

  test("has its input from the start on, its output once it was counted, and never less than before", () => {
    let before = 0
    for (let end = 0; end <= bytes.byteLength; end++) {
      const read = follow([bytes.subarray(0, end)])
      const { usage, usage_final, output_bytes, output_bytes_after_usage } = read
      // A loss before that is never shown as the end of the message (D8).
      expect(read.answered).toBe(end >= usageEnds)
      expect(output_bytes).toBeGreaterThanOrEqual(before)
      before = output_bytes
      if (end < startEnds) expect([usage.state, output_bytes]).toEqual(["missing", 0])
      else if (end < usageEnds) {
        expect(usage).toMatchObject({ state: "valid", usage: { ...INPUT, completion_tokens: 0 } })
        expect([usage_final, output_bytes_after_usage]).toEqual([false, output_bytes])
      } else expect([usage_final, output_bytes_after_usage]).toEqual([true, 0])
    }
    expect(before).toBe(OUTPUT_BYTES)
  })
})

describe("D64 many events that differ in nothing but their text", () => {
  test("are counted like each one by itself", () => {
    const words = Array.from({ length: 500 }, (_, at) => `word ${at}`)
    const events = [messageStart(), ...textBlock(0, ...words)].map(namedEvent)
    const bytes = bytesOf(events.join(""))
    const expected = Buffer.byteLength(words.join(""))
    expect(follow([bytes]).output_bytes).toBe(expected)
    expect(follow(cutAt(bytes, [1_000, 20_000])).output_bytes).toBe(expected)
    expect(follow(events.map(bytesOf)).output_bytes).toBe(expected)
  })
})

describe("D4 usage before the start of its message", () => {
  test("is read again after it, although its event is equal", () => {
    const end = messageDelta({ output_tokens: 30 }, "end_turn")
    const early = [
      { type: "ping" },
      end,
      messageStart(),
      blockDelta(0, { type: "text_delta", text: "one" }),
      end,
    ]
    const { usage } = follow([bytesOf(early.map(namedEvent).join(""))])
    expect(usage).toMatchObject({ state: "valid", usage: { completion_tokens: 30 } })
  })
})

describe("D5 a message that is too large to keep", () => {
  const message = {
    content: [
      { type: "thinking", thinking: "Hm.", signature: "c2ln" },
      { type: "text", text: "One two." },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
    ],
    usage: { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 2, service_tier: "priority" },
  }
  test("is read for its usage, its tier (D70) and its output, however it is cut", () => {
    for (const chunks of everyCut(bytesOf(JSON.stringify(message)))) {
      const large: LargeAnswer = messages.json.openLarge()
      for (const chunk of chunks) large.take(chunk)
      expect(messages.json.usageOf(large.members, ANY_USAGE)).toMatchObject({
        state: "valid",
        usage: { prompt_tokens: 12, cached_tokens: 2, completion_tokens: 5 },
      })
      expect(large.service_tier).toBe("priority")
      const streamed = new MessagesReading()
      streamed.takeLarge(large)
      expect(streamed.evidence("upstream_lost").service_tier).toBe("priority")
      // Arguments count by their strings here, and by their JSON text where they are kept.
      expect(large.output_bytes).toBe(messageBytes(message) - '{"city":""}'.length)
    }
  })
})
