import { expect, test } from "bun:test"
import { EventScanner } from "../../bench/event-scanner.ts"

const role = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
const content = (text: string) => `data: {"choices":[{"delta":{"content":${JSON.stringify(text)}}}]}\n\n`
const usage = 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":42}}\n\n'
const done = "data: [DONE]\n\n"

interface Scanned {
  readonly events: number
  readonly content_seen: boolean
  readonly done: boolean
}

const rows: readonly (readonly [name: string, text: string, scanned: Scanned])[] = [
  [
    "a whole stream",
    role + content("hé ") + content("there") + usage + done,
    { events: 4, content_seen: true, done: true },
  ],
  ["only a role", role, { events: 1, content_seen: false, done: false }],
  [
    "comments are no events",
    `: ok\n\n: keepalive\n\n${content("x")}`,
    { events: 1, content_seen: true, done: false },
  ],
  [
    "CRLF, and fields beside data",
    `event: chunk\r\n${content("x").trimEnd()}\r\n\r\ndata: [DONE]\r\n\r\n`,
    { events: 1, content_seen: true, done: true },
  ],
  [
    "data without a space",
    'data:{"choices":[{"delta":{"content":"x"}}]}\n\ndata:[DONE]\n\n',
    { events: 1, content_seen: true, done: true },
  ],
  [
    "reasoning is output too",
    'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}\n\n',
    { events: 1, content_seen: true, done: false },
  ],
  [
    "an event longer than what is looked at",
    content("x".repeat(5000)) + usage + done,
    { events: 2, content_seen: true, done: true },
  ],
  ["an event that is not complete", content("x").trimEnd(), { events: 0, content_seen: false, done: false }],
]

test.each(rows)("the same is seen wherever the bytes are cut: %s", (_name, text, expected) => {
  const bytes = Buffer.from(text)
  for (let cut = 0; cut <= bytes.length; cut += bytes.length > 2000 ? 97 : 1) {
    expect(scan([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual(expected)
  }
  expect(scan([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected)
})

function scan(parts: readonly Buffer[]): Scanned {
  const scanner = new EventScanner()
  const events = parts.reduce((sum, part) => sum + scanner.feed(part), 0)
  const { content_seen, done } = scanner
  return { events, content_seen, done }
}
