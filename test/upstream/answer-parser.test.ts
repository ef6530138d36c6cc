import { describe, expect, test } from "bun:test"
import { AnswerParser, MAX_FIELDS, NotHttp } from "../../src/upstream/http/answer-parser.ts"
import { type AnswerHead, MAX_HEAD_BYTES } from "../../src/upstream/http/transport.ts"
import { usedBytes } from "../support/used-bytes.ts"

const CRLF = "\r\n"
const OK = `HTTP/1.1 200 OK${CRLF}`
const CHUNKED = `${OK}Transfer-Encoding: chunked${CRLF}${CRLF}`

interface Seen {
  readonly told: string[]
  body: string
}

/** Reads these parts as the answers to so many requests, and closes: statuses with their faults, whole bodies, and ends. */
function read(parts: readonly string[], answers: number, closes = false): string[] {
  const seen: Seen = { told: [], body: "" }
  let left = answers
  const parser = new AnswerParser({
    head: ({ status, fault }) => void seen.told.push(fault === null ? `${status}` : `${status} ${fault}`),
    body: (bytes) => {
      seen.body += Buffer.from(bytes).toString("latin1")
    },
    end: (reusable) => {
      seen.told.push(seen.body, reusable ? "end, reusable" : "end, closed")
      seen.body = ""
      left -= 1
      if (left > 0) parser.expect()
    },
  })
  parser.expect()
  for (const part of parts) if (part !== "") parser.feed(new Uint8Array(Buffer.from(part, "latin1")))
  if (closes) seen.told.push(parser.close() ? "whole" : "cut")
  return seen.told
}

describe("D59 the same is read wherever the bytes are cut", () => {
  const rows: [name: string, text: string, expected: string[], answers?: number][] = [
    [
      "a body of known length",
      `${OK}Content-Length: 5${CRLF}${CRLF}hello`,
      ["200", "hello", "end, reusable"],
    ],
    ["no body", `${OK}content-length:0${CRLF}${CRLF}`, ["200", "", "end, reusable"]],
    [
      "204 has no body, whatever it says",
      `HTTP/1.1 204 No${CRLF}content-length: 9${CRLF}${CRLF}`,
      ["204", "", "end, reusable"],
    ],
    [
      "chunks",
      `${CHUNKED}5${CRLF}hello${CRLF}D${CRLF}${CRLF} wide world${CRLF}0${CRLF}${CRLF}`,
      ["200", `hello${CRLF} wide world`, "end, reusable"],
    ],
    [
      "chunks with an extension, leading zeros and trailers",
      `${CHUNKED}001a ;name=face${CRLF}${"x".repeat(26)}${CRLF}0${CRLF}expires: never${CRLF}a: b${CRLF}${CRLF}`,
      ["200", "x".repeat(26), "end, reusable"],
    ],
    [
      "chunks beside a length: the connection is not used again",
      `${OK}content-length: 3${CRLF}transfer-encoding: chunked${CRLF}${CRLF}1${CRLF}x${CRLF}0${CRLF}${CRLF}`,
      ["200", "x", "end, closed"],
    ],
    [
      "a connection that closes",
      `${OK}Connection: Close${CRLF}Content-Length: 2${CRLF}${CRLF}no`,
      ["200", "no", "end, closed"],
    ],
    [
      "a length that is sent twice",
      `${OK}content-length: 2${CRLF}Content-Length: 2${CRLF}${CRLF}no`,
      ["200", "no", "end, reusable"],
    ],
    [
      "a transfer encoding that changes nothing",
      `${OK}transfer-encoding: identity${CRLF}content-length: 2${CRLF}${CRLF}no`,
      ["200", "no", "end, reusable"],
    ],
    [
      "a size with many leading zeros, and trailers as long as a head",
      `${CHUNKED}${"0".repeat(20)}2${CRLF}no${CRLF}0${CRLF}${`a: b${CRLF}`.repeat(900)}${CRLF}`,
      ["200", "no", "end, reusable"],
    ],
    ["HTTP/1.0", `HTTP/1.0 200 OK${CRLF}content-length: 2${CRLF}${CRLF}no`, ["200", "no", "end, closed"]],
    [
      "an informational answer before the real one",
      `HTTP/1.1 103 Early Hints${CRLF}link: x${CRLF}${CRLF}HTTP/1.1 404 ${CRLF}content-length: 1${CRLF}${CRLF}x`,
      ["404", "x", "end, reusable"],
    ],
    [
      "two answers to two requests",
      `${OK}content-length: 3${CRLF}${CRLF}oneHTTP/1.1 503 No${CRLF}content-length: 3${CRLF}${CRLF}two`,
      ["200", "one", "end, reusable", "503", "two", "end, reusable"],
      2,
    ],
  ]
  test.each(rows)("%s", (_name, text, expected, answers = 1) => {
    for (let cut = 0; cut <= text.length; cut++)
      expect(read([text.slice(0, cut), text.slice(cut)], answers)).toEqual(expected)
    expect(read([...text], answers)).toEqual(expected)
  })
})

test("D31 a body in small chunks keeps no more than a few times its bytes", () => {
  let body_bytes = 0
  let kept_bytes = 0
  const parser = new AnswerParser({
    head() {},
    body(bytes) {
      body_bytes += bytes.byteLength
      kept_bytes += bytes.buffer.byteLength
    },
    end() {},
  })
  const chunk = `1;${"x".repeat(4_000)}${CRLF}x${CRLF}`
  parser.expect()
  parser.feed(Uint8Array.from(Buffer.from(CHUNKED, "latin1")))
  for (let n = 0; n < 10; n++) parser.feed(Uint8Array.from(Buffer.from(chunk.repeat(16), "latin1")))
  expect(body_bytes).toBe(160)
  expect(kept_bytes).toBeLessThanOrEqual(4 * body_bytes)
})

test("a head keeps nothing of what comes behind it, wherever it is cut", () => {
  const HEADS = 20
  const BEHIND_BYTES = 60_000
  const head = `${OK}content-length: 100000${CRLF}${CRLF}`
  const behind = [`${"x".repeat(BEHIND_BYTES)}`, `${"x".repeat(BEHIND_BYTES)}${CRLF}${CRLF}`]
  const heads: AnswerHead[] = []
  const sink = { head: (come: AnswerHead) => void heads.push(come), body: () => {}, end: () => {} }
  const before_bytes = usedBytes()
  for (const rest of behind) {
    for (let cut = 0; cut <= head.length; cut++) {
      if (cut > 1 && cut < head.length - 5) continue
      for (let made = 0; made < HEADS; made++) {
        const parser = new AnswerParser(sink)
        parser.expect()
        for (const part of [head.slice(0, cut), head.slice(cut) + rest]) parser.feed(Buffer.from(part))
      }
    }
  }
  expect(usedBytes() - before_bytes).toBeLessThan((heads.length * BEHIND_BYTES) / 20)
  expect(heads.every(({ fields }) => fields.get("content-length") === "100000")).toBe(true)
})

describe("the end of a connection", () => {
  const rows: [name: string, text: string, expected: string[]][] = [
    ["ends a body without a length", `${OK}${CRLF}all of it`, ["200", "all of it", "end, closed", "whole"]],
    ["cuts a body of known length", `${OK}content-length: 9${CRLF}${CRLF}some`, ["200", "cut"]],
    ["cuts chunks", `${CHUNKED}5${CRLF}hello${CRLF}`, ["200", "cut"]],
    ["cuts a head", "HTTP/1.1 200", ["cut"]],
  ]
  test.each(rows)("%s", (_name, text, expected) => {
    expect(read([text], 1, true)).toEqual(expected)
  })
})

test.each([
  ["another protocol", `SSH-2.0-x${CRLF}${CRLF}`],
  ["another version", `HTTP/2.0 200 OK${CRLF}${CRLF}`],
  ["a status of four digits", `HTTP/1.1 1000 Odd${CRLF}${CRLF}`],
  ["an upgrade", `HTTP/1.1 101 Switching${CRLF}${CRLF}`],
  ["a field without a name", `${OK}: x${CRLF}${CRLF}`],
  ["a field with a space before its colon", `${OK}content-length : 5${CRLF}${CRLF}`],
  ["a folded field", `${OK}a: b${CRLF} c${CRLF}${CRLF}`],
  ["NUL in a field", `${OK}a: \0${CRLF}${CRLF}`],
  ["two lengths", `${OK}content-length: 2${CRLF}content-length: 3${CRLF}${CRLF}{}`],
  ["a negative length", `${OK}content-length: -2${CRLF}${CRLF}{}`],
  ["an unknown coding", `${OK}transfer-encoding: gzip, chunked${CRLF}${CRLF}`],
  ["a chunk has no size", `${CHUNKED}${CRLF}x`],
  ["a size that is no number", `${CHUNKED}5g${CRLF}hello`],
  ["a size without end", `${CHUNKED}${"0".repeat(5_000)}`],
  ["a size beyond all bodies", `${CHUNKED}${"1".repeat(13)}`],
  ["a head with bare line feeds", `HTTP/1.1 200 OK\ncontent-length: 0\n\n`],
  ["one bare line feed", `${OK}a: b\nc: d${CRLF}`],
  ["a chunk that is longer than it says", `${CHUNKED}2${CRLF}hello`],
  ["an endless extension", `${CHUNKED}1;${"x".repeat(5_000)}`],
  ["informational answers without end", `HTTP/1.1 100 Continue${CRLF}${CRLF}`.repeat(3_000)],
  ["an endless trailer", `${CHUNKED}0${CRLF}${`a: b${CRLF}`.repeat(12_000)}`],
  ["an answer that nobody asked for", `${OK}content-length: 0${CRLF}${CRLF}${OK}`],
])("what is not HTTP/1.1 is refused: %s", (_name, text) => {
  expect(() => read([text], 1)).toThrow(NotHttp)
  expect(() => read([...text], 1)).toThrow(NotHttp)
})

describe("D25 a head over its limits is told of, and nothing behind it is read", () => {
  const sized = (bytes: number) => {
    const around = `${OK}x: ${CRLF}content-length: 0`.length
    return `${OK}x: ${"v".repeat(bytes - around)}${CRLF}content-length: 0${CRLF}${CRLF}`
  }
  const many = (fields: number) => `${OK}content-length: 0${CRLF}${`x: y${CRLF}`.repeat(fields - 1)}${CRLF}`
  test.each([
    ["its bytes: at the limit", sized(MAX_HEAD_BYTES), ["200", "", "end, reusable"]],
    ["its bytes: one more", sized(MAX_HEAD_BYTES + 1), ["200 header section too large"]],
    ["its fields: at the limit", many(MAX_FIELDS), ["200", "", "end, reusable"]],
    ["its fields: one more", many(MAX_FIELDS + 1), ["200 too many header fields"]],
  ])("%s", (_name, text, expected) => {
    expect(read([text], 1)).toEqual(expected)
    expect(read([text.slice(0, 100), text.slice(100)], 1)).toEqual(expected)
  })
})
