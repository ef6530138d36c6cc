import { describe, expect, test } from "bun:test"
import { AnswerParser } from "../../bench/answer-parser.ts"

const CRLF = "\r\n"

/** What a connection delivered, and what is read off it. */
const rows: readonly (readonly [name: string, bytes: string, read: readonly string[]])[] = [
  [
    "a body of known length",
    `HTTP/1.1 200 OK${CRLF}Content-Length: 5${CRLF}${CRLF}hello`,
    ["200", "hello", "end, reusable"],
  ],
  ["no body", `HTTP/1.1 204 No Content${CRLF}content-length: 0${CRLF}${CRLF}`, ["204", "", "end, reusable"]],
  [
    "chunks",
    `HTTP/1.1 200 OK${CRLF}Transfer-Encoding: chunked${CRLF}${CRLF}5${CRLF}hello${CRLF}D${CRLF}${CRLF} wide world${CRLF}0${CRLF}${CRLF}`,
    ["200", `hello${CRLF} wide world`, "end, reusable"],
  ],
  [
    "chunks with an extension, hexadecimal sizes and a trailer",
    `HTTP/1.1 200 OK${CRLF}transfer-encoding: chunked${CRLF}${CRLF}1a;name=face${CRLF}${"x".repeat(26)}${CRLF}0${CRLF}expires: never${CRLF}${CRLF}`,
    ["200", "x".repeat(26), "end, reusable"],
  ],
  [
    "a connection that the server will close",
    `HTTP/1.1 503 Unavailable${CRLF}Connection: close${CRLF}Content-Length: 2${CRLF}${CRLF}no`,
    ["503", "no", "end, closed"],
  ],
  [
    "two answers, one after the other",
    `HTTP/1.1 200 OK${CRLF}content-length: 3${CRLF}${CRLF}oneHTTP/1.1 404 Not Found${CRLF}content-length: 3${CRLF}${CRLF}two`,
    ["200", "one", "end, reusable", "404", "two", "end, reusable"],
  ],
]

describe("the same is read wherever the bytes are cut", () => {
  test.each(rows)("%s", (_name, text, expected) => {
    const bytes = Buffer.from(text)
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(read([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual([...expected])
    }
    expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual([...expected])
  })
})

describe("the end of a connection", () => {
  test.each([
    ["ends a body without a length", `HTTP/1.1 200 OK${CRLF}${CRLF}all of it`, false, "end, closed"],
    [
      "cuts a body of known length",
      `HTTP/1.1 200 OK${CRLF}content-length: 9${CRLF}${CRLF}some`,
      true,
      "some",
    ],
    ["cuts a head", `HTTP/1.1 200`, true, undefined],
    [
      "is nothing between answers",
      `HTTP/1.1 200 OK${CRLF}content-length: 0${CRLF}${CRLF}`,
      false,
      "end, reusable",
    ],
    ["is nothing before the first", "", false, undefined],
  ])("%s", (_name, text, cut, last) => {
    const seen: string[] = []
    const parser = new AnswerParser(sinkInto(seen))
    if (text !== "") parser.feed(Buffer.from(text))
    expect(parser.close()).toEqual({ cut })
    expect(seen.at(-1)).toBe(last)
  })
})

function read(parts: readonly Buffer[]): string[] {
  const seen: string[] = []
  const parser = new AnswerParser(sinkInto(seen))
  for (const part of parts) if (part.length > 0) parser.feed(part)
  return seen
}

/** Statuses, whole bodies and ends. */
function sinkInto(seen: string[]) {
  return {
    head: (status: number) => void seen.push(String(status), ""),
    body: (bytes: Buffer, from: number, to: number) =>
      void seen.push((seen.pop() ?? "") + bytes.toString("latin1", from, to)),
    end: (reusable: boolean) => void seen.push(reusable ? "end, reusable" : "end, closed"),
  }
}
