import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ChatReading } from "../../src/meter/chat-reading.ts"
import type { EventReading } from "../../src/meter/event-reading.ts"
import { abridge, isPlainText } from "../../src/meter/long-text.ts"
import { MessagesReading } from "../../src/meter/messages-reading.ts"
import { Framer, type SseEvent } from "../../src/meter/sse.ts"
import { bytesOf, cutAt } from "./cuts.ts"

const LIMIT_BYTES = 1 << 20
const LONG = 65_536

/** The one event of a stream that comes in pieces. */
function eventOf(text: string, cuts: readonly number[] = []): SseEvent {
  const framer = new Framer(LIMIT_BYTES)
  const bytes = bytesOf(text)
  const pieces = cutAt(
    bytes,
    cuts.map((cut) => cut % bytes.byteLength).sort((a, b) => a - b),
  )
  const [event, ...others] = pieces.flatMap((piece) => [...framer.feed(piece)])
  if (event === undefined || others.length > 0) throw new Error("not one event")
  return event
}

function bothWays(open: () => EventReading, event: SseEvent) {
  const decoded = { parts: [], data: event.data, tail: false, recurring_bytes: null }
  return Promise.all(
    [event, decoded].map(async (either) => {
      const reading = open()
      const kind = reading.take(either, await reading.prepare(either, () => null))
      return { kind, evidence: reading.evidence("upstream_lost"), answered: reading.answered }
    }),
  )
}

const chat = (choice: string) => `data: {"id":"c1","choices":[{"index":0,${choice}}],"usage":null}\n\n`
const messages = (delta: string) =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":${delta}}\n\n`

const readings: readonly [string, () => EventReading, readonly ((text: string) => string)[]][] = [
  [
    "chat",
    () => new ChatReading(),
    [
      (text) => chat(`"delta":{"content":"${text}"}`),
      (text) => chat(`"delta":{"content":"short","reasoning":"${text}","reasoning_content":"also"}`),
      (text) => chat(`"delta":{"images":[{"image_url":{"url":"${text}"}}]}`),
      (text) => chat(`"delta":{"tool_calls":[{"id":"t","function":{"arguments":"${text}"}}]}`),
      (text) => chat(`"delta":{"function_call":{"arguments":{"${text}":1,"b":"${text}"}}}`),
      (text) => chat(`"delta":{"content":"a","thing_id":"${text}"},"finish_reason":"stop"`),
      (text) => chat(`"delta":{},"finish_reason":"${text}"`),
      (text) => chat(`"delta":{"content":"a"}`).replace('"choices"', `"error":"${text}","choices"`),
      (text) => `: "${text}"\n${chat('"delta":{"content":"a"}')}`,
      (text) => `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2},"note":"${text}"}\n\n`,
      (text) => `data: ["${text}"]\n\n`,
      (text) => `data: {"a":"${text}"\n\n`,
      (text) => `\ufeff${chat(`"delta":{"content":"${text}"}`)}`,
    ],
  ],
  [
    "messages",
    () => new MessagesReading(),
    [
      (text) => messages(`{"type":"text_delta","text":"${text}"}`),
      (text) => messages(`{"type":"input_json_delta","partial_json":"${text}"}`),
      (text) => messages(`{"type":"signature_delta","signature":"${text}"}`),
      (text) => messages(`{"type":"citations_delta","citation":"${text}"}`),
    ],
  ],
]

describe.each(readings)("D7 a long text of an event of %s", (_, open, forms) => {
  test("counts the same whether it is decoded or not", async () => {
    const odd = fc.constantFrom(
      "",
      "\\n",
      '\\"',
      "\\u00e4",
      "ä",
      "😀",
      "\t",
      "\u0001",
      "\u007f",
      '"',
      '":"',
      "\\",
    )
    const text = fc
      .tuple(
        fc.oneof(fc.nat(200), fc.nat(3 * LONG)),
        odd,
        fc.nat(4 * LONG),
        fc.constantFrom("x", "word ", "~"),
      )
      .map(([more, inside, at, word]) => {
        const plain = word.repeat(LONG + more).slice(0, LONG + more)
        return plain.slice(0, at) + inside + plain.slice(at)
      })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...forms),
        text,
        fc.array(fc.nat(5 * LONG), { maxLength: 6 }),
        async (form, text, cuts) => {
          const [own, decoded] = await bothWays(open, eventOf(form(text), cuts))
          expect(own).toEqual(decoded)
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe("D7 which events need not be decoded", () => {
  const content = (text: string) => chat(`"delta":{"content":"${text}"}`)
  const rows: [string, string, boolean][] = [
    ["a long text", content("x".repeat(LONG)), true],
    ["a long text behind short ones", content(`a","b":"${"x".repeat(LONG)}`), true],
    ["a long text behind too many", content(`${'a","b":"'.repeat(100)}${"x".repeat(LONG)}`), false],
    ["an escape", content(`\\n${"x".repeat(LONG)}`), false],
    ["a character of two bytes", content(`${"x".repeat(LONG)}ä`), false],
    ["white space between two strings", content(`a"${" ".repeat(LONG)},"b":"c`), false],
    ["as much beside it", content(`a","b":[${"1,".repeat(LONG / 2)}1],"c":"${"x".repeat(LONG)}`), false],
    ["a number between two strings", content(`a","b":${"1".repeat(LONG)},"c":"d`), false],
  ]
  test.each(rows)("%s", (_, text, is_abridged) => {
    expect(abridge(eventOf(text)) !== null).toBe(is_abridged)
  })
})

test("a text is plain if each of its bytes is, wherever it begins and however short it is", () => {
  const isPlain = (byte: number) => byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c
  for (const length of [0, 1, LONG - 1, LONG, LONG + 3, LONG + 7])
    for (const offset of [0, 1, 2, 3]) {
      const bytes = new Uint8Array(offset + length + 8).fill(0x61).subarray(offset, offset + length)
      expect(isPlainText(bytes)).toBe(true)
      for (const at of [0, 1, 5, length - 1].filter((place) => place >= 0 && place < length))
        for (const byte of [0x00, 0x1f, 0x20, 0x22, 0x5c, 0x7f, 0x80, 0xff]) {
          bytes[at] = byte
          expect(isPlainText(bytes)).toBe(isPlain(byte))
          bytes[at] = 0x61
        }
    }
})
