import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ChatReading } from "../../src/meter/chat-reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { bytesOf, cutAt } from "./cuts.ts"

const LIMIT_BYTES = 100_000

/** What a stream is read as, and the bytes that come out; `knowing` what recurs, or every event in full. */
function read(chunks: readonly Uint8Array[], knowing: boolean) {
  const reading = new ChatReading()
  const framer = new Framer(LIMIT_BYTES, knowing ? reading.recurring : null)
  const forwarded: Uint8Array[] = []
  let recurred = 0
  let tails = 0
  for (const chunk of chunks) {
    for (const event of framer.feed(chunk)) {
      if (event.recurring_bytes !== null) recurred += 1
      if (event.tail) tails += 1
      reading.take(event)
      forwarded.push(...event.parts)
    }
  }
  const last = framer.end()
  if (last !== null) reading.take(last)
  const evidence = (["completed", "upstream_lost"] as const).map((ending) => reading.evidence(ending))
  return {
    evidence,
    complete: reading.answered,
    bytes: Buffer.concat(forwarded).toString("latin1"),
    tails,
    recurred,
  }
}

const said = (delta: object, more: object = {}, choice: object = {}) =>
  `data: ${JSON.stringify({ id: "x", choices: [{ index: 0, delta, ...choice }], ...more })}\n\n`
const usage = { prompt_tokens: 9, completion_tokens: 4 }
/** Nothing is learned from the first event with output, and from the first without. */
const FIRST = [": first\n\n", said({ content: "first" })]

function each(events: readonly string[]): Uint8Array[] {
  return [...FIRST, ...events].map(bytesOf)
}

const SAID_A = said({ content: "a" })
const SAID_B = said({ content: "b" })

describe("D7 events that differ from one before in nothing but their text", () => {
  const rows: [string, string[], number][] = [
    ["plain text", ["a", "bc", " d ", "~"].map((content) => said({ content })), 3],
    [
      "text after reasoning",
      [said({ reasoning: "a" }), ...["b", "c"].map((content) => said({ content }))],
      1,
    ],
    ["a usage that is null", ["a", "b"].map((content) => said({ content }, { usage: null })), 1],
    ["a usage that is invalid", ["a", "b"].map((content) => said({ content }, { usage: {} })), 0],
    ["lines that end with CRLF", ["a", "b"].map((content) => said({ content }).replaceAll("\n", "\r\n")), 1],
    ["a further field", ["a", "b"].map((content) => `event: chunk\n${said({ content })}`), 1],
    [
      "few bytes behind the text",
      ["a", "b"].map((x) => `data: {"choices":[{"delta":{"content":"${x}"}}]}\n\n`),
      1,
    ],
    ["a comment of zeros", [1, 2].map(() => `: ${"\0".repeat(22)}\n\n`), 1],
    ["a comment of few bytes", [1, 2].map(() => ": a\n\n"), 1],
  ]
  test.each(rows)("%s: read once, known afterwards", (_, events, recurred) => {
    const known = read(each(events), true)
    expect(known).toMatchObject({ ...read(each(events), false), recurred })
  })

  const unlike: [string, string[]][] = [
    [
      "another text when the first one is empty",
      [said({ reasoning_content: "a", reasoning: "bc" }), said({ reasoning_content: "", reasoning: "bc" })],
    ],
    ["a second text behind it", ["a", "b"].map((content) => said({ content, refusal: "no" }))],
    ["an escaped quote before the end", [SAID_A, SAID_B.replace('"b"', '"b\\"')]],
    ["more than a byte a character", ["a", "é", "日本", "😀"].map((content) => said({ content }))],
    ["another choice", [SAID_A, said({ content: "b" }, {}, { index: 1 })]],
    ["a usage in every event", ["a", "b"].map((content) => said({ content }, { usage }))],
    ["a usage at the end", [SAID_A, said({ content: "b" }, { usage })]],
    [
      "a second key of the same name",
      ["a", "b"].map((x) => said({ content: x }).replace('"delta"', '"delta":{},"delta"')),
    ],
    [
      "the data of an id line",
      ["a", "b"].map((x) => `id: ${JSON.stringify({ x })}\n${said({ content: "a" })}`),
    ],
    [
      "another id, where the first one is the text",
      ["qwen-max", "another"].map((id) => said({ content: "qwen-max" }).replace('"id":"x"', `"id":"${id}"`)),
    ],
    ["two lines of data", ["a", "b"].map((content) => said({ content }).replace(",", ",\ndata: "))],
    ["a blank line of CR", [...["a", "b"].map((content) => said({ content }).replaceAll("\n", "\r")), "\n"]],
  ]
  test.each(unlike)("%s: read in full", (_, events) => {
    expect({ ...read(each(events), true), recurred: 0 }).toEqual(read(each(events), false))
  })

  test("a comment that differs where a number would be -0 and not 0: read in full", () => {
    const zeros = bytesOf(`: ${"\0".repeat(22)}\n\n`)
    for (let at = 2; at < 24; at++) {
      const other = zeros.with(at, 0x80)
      const chunks = [...each([]), zeros, other]
      expect(read(chunks, true)).toEqual({ ...read(chunks, false), recurred: 0 })
    }
  })

  test("what was learned does not keep the provider's bytes", () => {
    const [first, second] = ["a", "b"].map((content) => bytesOf(said({ content })))
    const [few, more] = ["a", "b"].map((x) => bytesOf(`data: {"choices":[{"delta":{"content":"${x}"}}]}\n\n`))
    for (const [learned, next] of [
      [first, second],
      [few, more],
    ]) {
      const reading = new ChatReading()
      const framer = new Framer(LIMIT_BYTES, reading.recurring)
      const start = bytesOf(FIRST.join(""))
      for (const event of framer.feed(start)) reading.take(event)
      for (const event of framer.feed(learned ?? new Uint8Array())) reading.take(event)
      learned?.fill(0)
      expect([...framer.feed(next ?? new Uint8Array())].map((event) => event.recurring_bytes)).toEqual([1])
    }
  })

  test("a byte that is no UTF-8: read in full", () => {
    const [first, second] = ["a", "b"].map((content) => bytesOf(said({ content })))
    const broken = second?.map((byte) => (byte === 0x62 ? 0xff : byte)) ?? new Uint8Array()
    const chunks = [...each([]), first ?? new Uint8Array(), broken]
    expect(read(chunks, true)).toEqual(read(chunks, false))
  })

  test("whatever a stream says and wherever it is cut, it reads the same as event by event", () => {
    const content = fc.oneof(
      fc.constantFrom("a", "", "hello", "x", "id", "content", '"', "\\", "\n", "é", "}]}", "data: x\n\n"),
      fc.string({ maxLength: 8 }),
    )
    const event = fc.oneof(
      { weight: 8, arbitrary: content.map((content) => said({ content })) },
      { weight: 2, arbitrary: content.map((reasoning) => said({ reasoning })) },
      { weight: 1, arbitrary: content.map((content) => said({ content }, { usage })) },
      { weight: 1, arbitrary: content.map((content) => said({ content }, {}, { finish_reason: "stop" })) },
      { weight: 1, arbitrary: content.map((content) => said({ content }).replaceAll("\n", "\r\n")) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(": ping\n\n", "\n", "data: [DONE]\n\n", 'data: {"error":1}\n\n', "\r"),
      },
    )
    let recurred = 0
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 40 }),
        fc.array(fc.nat(), { maxLength: 30 }),
        (events, places) => {
          const bytes = bytesOf(events.join(""))
          const cuts = places.map((place) => place % (bytes.byteLength + 1)).sort((a, b) => a - b)
          const chunks = cutAt(bytes, cuts)
          const known = read(chunks, true)
          recurred += known.recurred
          expect({ ...known, recurred: 0 }).toEqual(read(chunks, false))
        },
      ),
      { numRuns: 1_000 },
    )
    expect(recurred).toBeGreaterThan(50)
  })

  test("an event over the limit is refused, also one that recurs", () => {
    const reading = new ChatReading()
    const framer = new Framer(200, reading.recurring)
    for (const event of framer.feed(bytesOf(FIRST.join("") + SAID_A))) reading.take(event)
    expect(() => [...framer.feed(bytesOf(said({ content: "b".repeat(300) })))]).toThrow(
      "larger than the limit",
    )
  })

  const idle: [string, string, number][] = [
    ["a comment", ": ping\n\n", 1],
    ["only a role", said({ role: "assistant", content: "" }), 1],
    ["a finish", said({}, {}, { finish_reason: "stop" }), 1],
    ["an invalid usage beside choices", said({}, { usage: { prompt_tokens: "9" } }), 0],
    ["a blank line", "\n", 1],
    ["a usage", said({}, { usage }), 0],
    ["an invalid usage alone", `data: ${JSON.stringify({ choices: [], usage: {} })}\n\n`, 0],
    ["a blank line of CR", ": ping\r\r", 0],
  ]
  test.each(idle)("rule 4 what proves nothing proves nothing again: %s", (_, event, recurred) => {
    const events = [": first\n\n", event, SAID_A, event + event + event, SAID_B]
    const known = read(each(events), true)
    // The second text is known as well.
    expect(known.recurred - 1).toBe(recurred)
    expect(known).toEqual({ ...read(each(events), false), recurred: known.recurred })
  })

  test("a byte order mark is a blank line only where a stream begins", () => {
    const chunks = ["\ufeff\n", "\ufeff\n", "\ufeff\n", SAID_A].map(bytesOf)
    expect(read(chunks, true)).toEqual(read(chunks, false))
  })

  test("a stream that never repeats itself is not looked at for ever", () => {
    const events = Array.from({ length: 50 }, (_, n) => said({ content: "a" }, { noise: "x".repeat(n) }))
    const same = ["a", "b", "c"].map((content) => said({ content }))
    expect(read(each([...events, ...same]), true).recurred).toBe(0)
    const beats = Array.from({ length: 50 }, (_, n) => `: ${n}\n\n`)
    expect(read(each([...beats, ": 49\n\n", ": 49\n\n"]), true).recurred).toBe(0)
  })
})
