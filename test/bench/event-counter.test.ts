import { expect, test } from "bun:test"
import { EventCounter } from "../../bench/event-counter.ts"

const events = 'data: {"content":"hé \\n there"}\n\nevent: chunk\ndata: {}\n\ndata: [DONE]\n\n'

test.each([
  ["a whole stream", events, 3],
  ["an event that is not complete", `${events}data: {}\n`, 3],
  ["three line ends are one empty line and a begun one", "data: a\n\n\ndata: b\n\n", 2],
])("as many events end, wherever the bytes are cut: %s", (_name, text, expected) => {
  const bytes = Buffer.from(text)
  for (let cut = 0; cut <= bytes.length; cut++)
    expect(count([bytes.subarray(0, cut), bytes.subarray(cut)])).toBe(expected)
  expect(count([...bytes].map((byte) => Buffer.from([byte])))).toBe(expected)
})

function count(parts: readonly Buffer[]): number {
  const counter = new EventCounter()
  return parts.reduce((sum, part) => sum + counter.feed(part), 0)
}
