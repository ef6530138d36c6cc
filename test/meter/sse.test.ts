import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { EventTooLarge, Framer } from "../../src/meter/sse.ts"
import { bytesOf, cutAt, everyCut } from "./cuts.ts"
import { frame } from "./framing.ts"

const BOM = "\ufeff"
/** The lines of an event (D31). */
const MAX_LINES = 100_000

/** The data of every event with its blank line. */
const framings: [string, string, (string | null)[]][] = [
  ["LF", "data: a\n\ndata: b\n\n", ["a", "b"]],
  ["CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
  ["CR", "data: a\r\rdata: b\r\r", ["a", "b"]],
  ["CR then LF is one line end, not a blank line", "data: a\r\ndata: b\r\n\r\n", ["a\nb"]],
  ["LF then CR is two", "data: a\n\rdata: b\n\r", ["a", "b"]],
  ["a BOM in the payload is a character", `data: ${BOM}a\n\n`, [`${BOM}a`]],
  ["a BOM of a later event spoils the field's name", `data: a\n\n${BOM}data: b\n\n`, ["a", null]],
  ["a tab is the payload's", "data:\ta\n\n", ["\ta"]],
  ["another field's name: upper case", "DATA: a\n\nData: a\n\n", [null, null]],
  ["another field's name: a space before the colon", "data : a\n\n", [null]],
  ["NEL, LS and PS end no line", "data: a\u0085b\u2028c\u2029d\n\n", ["a\u0085b\u2028c\u2029d"]],
  ["VT, FF and NUL end no line", "data: a\u000bb\u000cc\u0000d\n\n", ["a\u000bb\u000cc\u0000d"]],
]

/** The data of every event with its blank line, and of the one without. */
const unterminated: [string, string, (string | null)[], string | null][] = [
  ["no line end", "data: a\n\ndata: b", ["a"], "b"],
  ["no blank line, LF", "data: a\n\ndata: b\n", ["a"], "b"],
  ["no blank line, CRLF", "data: a\r\n\r\ndata: b\r\n", ["a"], "b"],
  ["no blank line, CR", "data: a\r\rdata: b\r", ["a"], "b"],
  ["two lines", "data: a\ndata: b", [], "a\nb"],
  ["a comment", "data: a\n\n: c", ["a"], null],
  ["half a field's name", "data: a\n\ndat", ["a"], null],
  ["a field's name", "data: a\n\ndata", ["a"], ""],
  ["only a BOM", BOM, [], null],
  ["after a BOM", `${BOM}data: a`, [], "a"],
]

function expectAtEveryCut(text: string, data: (string | null)[], last: string | null | undefined): void {
  const bytes = bytesOf(text)
  for (const chunks of everyCut(bytes)) {
    const framed = frame(chunks)
    expect(framed.data).toEqual(data)
    expect(framed.last?.data).toBe(last)
    expect(framed.bytes.byteLength + framed.pending_bytes).toBe(bytes.byteLength)
    expect(Buffer.compare(framed.bytes, bytes.subarray(0, framed.bytes.byteLength))).toBe(0)
  }
}

describe("framing is the same at every cut", () => {
  test.each(framings)("%s", (_, text, data) => expectAtEveryCut(text, data, undefined))
})

describe("D36 an unterminated last event is the same at every cut", () => {
  test.each(unterminated)("%s", (_, text, data, last) => expectAtEveryCut(text, data, last))
})

describe("an event is out as soon as its blank line is known", () => {
  const rows: [string, string[], (string | null)[][]][] = [
    ["at the LF", ["data: a\n", "\n", "data: b\n\n"], [[], ["a"], ["b"]]],
    ["at the CR, though an LF may follow", ["data: a\r\n\r", "\n"], [["a"], ["tail"]]],
    ["at a bare CR", ["data: a\r", "\r", "data: b\r\r"], [[], ["a"], ["b"]]],
    ["an empty chunk forgets no CR", ["data: a\r\r", "", "\n"], [["a"], [], ["tail"]]],
    ["an LF after a CR inside an event is no tail", ["data: a\r", "\ndata: b\n\n"], [[], ["a\nb"]]],
    ["a blank line of CRLF, cut", ["\r", "\n", "\n"], [[null], ["tail"], [null]]],
    ["the LF of CRLF in the same chunk is no tail", ["data: a\r\r\n"], [["a"]]],
    ["a CR, then another event", ["data: a\r\r", "data: b\r\r"], [["a"], ["b"]]],
  ]
  test.each(rows)("%s", (_, chunks, expected) => {
    const framer = new Framer(100)
    const seen = chunks.map((chunk) =>
      [...framer.feed(bytesOf(chunk))].map((event) => (event.tail ? "tail" : event.data)),
    )
    expect(seen).toEqual(expected)
  })
})

describe("D36 the completed last event reads as one event to a client", () => {
  const rows: [string, string, string][] = [
    ["no line end", "data: b", "data: b\n\n"],
    ["LF", "data: b\n", "data: b\n\n"],
    ["CRLF", "data: b\r\n", "data: b\r\n\n"],
    ["CR: the first LF only completes it", "data: b\r", "data: b\r\n\n"],
    ["half a character", "data: \ud83d", "data: \ufffd\n\n"],
  ]
  test.each(rows)("%s", (_, text, whole) => {
    const { last, pending_bytes } = frame([bytesOf(text)])
    expect(pending_bytes).toBe(bytesOf(text).byteLength)
    expect(Buffer.concat([...(last?.parts ?? [])]).toString()).toBe(whole)
    expect(frame([bytesOf(whole)]).data).toEqual([last?.data ?? null])
  })

  test("nothing is pending after a blank line, or after the end", () => {
    const framer = new Framer(100)
    expect([...framer.feed(bytesOf("data: a\r\r"))].length).toBe(1)
    expect(framer.end()).toBeNull()
    expect([...framer.feed(bytesOf("data: a"))]).toEqual([])
    expect(framer.end()?.data).toBe("a")
    expect(framer.pending_bytes).toBe(0)
    expect(framer.end()).toBeNull()
  })

  test("broken UTF-8 reads as U+FFFD, and its bytes pass", () => {
    const bytes = new Uint8Array([...bytesOf("data: a"), 0xff, 0xc0, ...bytesOf("b\n\n")])
    for (const chunks of everyCut(bytes)) {
      const framed = frame(chunks)
      expect(framed.data).toEqual(["a\ufffd\ufffdb"])
      expect(Buffer.compare(framed.bytes, bytes)).toBe(0)
    }
  })
})

describe("D31 the limit of one event", () => {
  const event = "data: 0123456789\n\n"
  const rows: [string, string, number, number | null][] = [
    ["an event of just the limit", event, 18, null],
    ["an event one byte over", event, 17, 0],
    ["many events, each within", event.repeat(50), 18, null],
    ["one over after whole ones", `${event}${event}data: 01234567890\n\n${event}`, 18, 2],
    ["an unfinished event over", "data: 0123456789012", 18, 0],
    ["an unfinished event of just the limit", "data: 012345678901", 18, null],
    ["a line that never ends, after a whole event", `${event}${"x".repeat(30)}`, 18, 1],
    ["the LF of a CRLF blank line is not counted", "data: 01234567\r\n\r\n", 17, null],
    ["its CR is", "data: 012345678\r\n\r\n", 17, 0],
    ["comments count too", `: ${"x".repeat(20)}\n\n`, 18, 0],
  ]
  test.each(rows)("%s", (_, text, limit_bytes, whole_before) => {
    for (const chunks of everyCut(bytesOf(text))) {
      const framer = new Framer(limit_bytes)
      let whole = 0
      let over = false
      try {
        for (const chunk of chunks) for (const { tail } of framer.feed(chunk)) if (!tail) whole += 1
      } catch (error) {
        if (!(error instanceof EventTooLarge)) throw error
        over = true
      }
      expect({ over, whole }).toEqual({ over: whole_before !== null, whole: whole_before ?? whole })
    }
  })
})

describe("D36 bytes pass as views", () => {
  test("an event within a chunk is a view of it, and the chunk itself when it is all of it", () => {
    const chunk = bytesOf("data: a\n\ndata: b\n\n")
    const parts = [...new Framer(100).feed(chunk)].flatMap((event) => event.parts)
    expect(parts.map(({ buffer, byteOffset }) => [buffer === chunk.buffer, byteOffset])).toEqual([
      [true, 0],
      [true, 9],
    ])
    const one = bytesOf("data: a\n\n")
    expect([...new Framer(100).feed(one)][0]?.parts[0]).toBe(one)
  })

  test("an event over a few chunks is views of each", () => {
    const [head, tail] = [bytesOf("data: a"), bytesOf("b\n\n")]
    const framer = new Framer(100)
    const events = [head, tail, head, tail].flatMap((chunk) => [...framer.feed(chunk)])
    expect(events.map(({ parts }) => parts)).toEqual([
      [head, tail],
      [head, tail],
    ])
    for (const { parts } of events) expect(parts[0]).toBe(head)
  })

  test("small pieces are gathered, large ones are not, and the bytes stay in order", () => {
    const small = cutAt(Buffer.alloc(5_000, "s"), [...Array(5_000).keys()])
    const large = [Buffer.alloc(4_096, "L"), Buffer.alloc(512, "M")]
    const chunks = [...small, ...large, ...small, ...large, bytesOf("\n\n")]
    const framer = new Framer(1_000_000)
    const [event] = chunks.flatMap((chunk) => [...framer.feed(chunk)])
    expect(event?.parts.length).toBeLessThan(30)
    expect(event?.parts).toContain(large[0] ?? new Uint8Array())
    expect(Buffer.concat([...(event?.parts ?? [])]).equals(Buffer.concat(chunks))).toBe(true)
  })
})

/** The event stream of the HTML standard, read from the whole text at once, each blank line ending an event. */
function reference(text: string): (string | null)[] {
  const events: (string | null)[] = []
  let data: string[] = []
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/)
  for (const line of lines.slice(0, -1)) {
    if (line === "") {
      events.push(data.length === 0 ? null : data.join("\n"))
      data = []
    } else {
      const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
      if (name === "data") data.push(value)
    }
  }
  return events
}

describe("properties", () => {
  const token = fc.constantFrom(
    "\r",
    "\n",
    "\r\n",
    "\n\n",
    "data",
    ":",
    " ",
    "data: x",
    "id: 1",
    BOM,
    "é",
    "😀",
    "{}",
  )
  const text = fc.array(token, { maxLength: 30 }).map((tokens) => tokens.join(""))
  const chunked = (bytes: Uint8Array) =>
    fc.array(fc.nat(bytes.byteLength), { maxLength: 12 }).map((places) =>
      cutAt(
        bytes,
        places.sort((a, b) => a - b),
      ),
    )

  test("the framer reads what the standard says, at any cut", () => {
    const cases = text.chain((text) => chunked(bytesOf(text)).map((chunks) => ({ text, chunks })))
    fc.assert(
      fc.property(cases, ({ text, chunks }) => {
        expect(frame(chunks).data).toEqual(reference(text))
      }),
      { numRuns: 500 },
    )
  })

  test("arbitrary bytes pass unchanged, at any cut", () => {
    const cases = fc
      .uint8Array({ maxLength: 200 })
      .chain((bytes) => chunked(bytes).map((chunks) => ({ bytes, chunks })))
    fc.assert(
      fc.property(cases, ({ bytes, chunks }) => {
        const framed = frame(chunks)
        const all = Buffer.concat([framed.bytes, ...(framed.last?.parts ?? [])])
        expect(framed.bytes.byteLength + framed.pending_bytes).toBe(bytes.byteLength)
        expect(all.subarray(0, bytes.byteLength).equals(bytes)).toBe(true)
        expect(framed.data).toEqual(frame([bytes]).data)
      }),
    )
  })
})

describe("the work grows with the bytes, not with their square", () => {
  const MIB = 1024 * 1024
  const huge = bytesOf(`data: ${"x".repeat(6 * MIB)}\n\n`)
  const pieces = (bytes: Uint8Array, size: number) =>
    cutAt(
      bytes,
      [...Array(Math.ceil(bytes.byteLength / size)).keys()].map((n) => n * size),
    )
  const rows: [string, Uint8Array[], number][] = [
    ["100,000 events in one chunk", [bytesOf('data: {"a":12345}\n\n'.repeat(100_000))], 100_000],
    ["100,000 events, a chunk each", pieces(bytesOf("data: {}\n\n".repeat(100_000)), 10), 100_000],
    ["one event of 6 MiB in one chunk", [huge], 1],
    ["one event of 6 MiB in chunks of 16 KiB", pieces(huge, 16_384), 1],
    ["one event of 6 MiB in chunks of 100 bytes", pieces(huge, 100), 1],
    ["1 MiB, a byte at a time", pieces(huge.subarray(0, MIB), 1), 0],
    ["one event of many data lines", [bytesOf(`${"data:\n".repeat(MAX_LINES - 1)}\n`)], 1],
    ["one event of many data lines that end with CR", [bytesOf(`${"data:\r".repeat(MAX_LINES - 1)}\r`)], 1],
    ["a million blank lines", [bytesOf("\n".repeat(MIB))], MIB],
  ]
  // Each takes 10 to 250 ms of a slow core; a rescan of what waits would take minutes.
  test.each(rows)(
    "%s",
    (_, chunks, events) => {
      const before = process.cpuUsage()
      const framed = frame(chunks, 8 * MIB)
      expect(framed.data.length).toBe(events)
      expect(process.cpuUsage(before).user).toBeLessThan(30_000_000)
    },
    120_000,
  )

  test("D31 an event with more lines is too large, wherever it is cut", () => {
    const lines = bytesOf(":\n".repeat(MAX_LINES + 1))
    for (const chunks of [[lines], pieces(lines, 1_000)])
      expect(() => frame(chunks, 8 * MIB)).toThrow(EventTooLarge)
    expect(() => frame([lines.subarray(2)], 8 * MIB)).not.toThrow()
  })

  test("an event that drips byte by byte waits in little more than its size", () => {
    const chunks = pieces(huge.subarray(0, MIB), 1)
    const framer = new Framer(8 * MIB)
    for (const chunk of chunks) for (const _ of framer.feed(chunk)) throw new Error("the event has no end")
    const parts = framer.end()?.parts ?? []
    expect(parts.length).toBeLessThan(20)
    const held = parts.filter(({ buffer }) => buffer !== huge.buffer).map(({ buffer }) => buffer.byteLength)
    expect(held.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(2.1 * MIB)
  })
})
