import fc from "fast-check"
import { chatCompletion, chatWords, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { anything, damaged, word } from "./noise.ts"

/** What a provider may send that is broken or hostile: mostly right, and wrong somewhere. */

/** The bytes of an answer, as Latin 1, in the pieces in which they are written, and how its connection ends. */
export interface HostileAnswer {
  readonly pieces: readonly string[]
  readonly is_reset: boolean
}

const chunked = (text: string) => {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")])
}

const status = fc.oneof(
  { weight: 8, arbitrary: fc.constant("200 OK") },
  {
    weight: 2,
    arbitrary: fc.constantFrom("400 No", "404 No", "429 No", "500 No", "503 No", "529 No", "600 No"),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "100 Continue",
      "101 Up",
      "204 None",
      "302 Found",
      "304 Same",
      "999 No",
      "0",
      "",
    ),
  },
)
const header = fc.constantFrom(
  "content-type: text/event-stream",
  "content-type: application/json",
  "content-type: application/json; charset=utf-16",
  "content-type: \u00e9",
  "content-encoding: gzip",
  "content-encoding: br, zstd",
  "content-length: 5",
  "content-length: 99999999999999999999",
  "transfer-encoding: gzip, chunked",
  "retry-after: -1e9",
  "retry-after: Thu, 01 Jan 1970 00:00:00 GMT",
  "location: http://127.0.0.1:1/",
  "set-cookie: tollgate_session=x; Path=/admin",
  "connection: upgrade, x-request-id",
  "x-request-id: provider",
  `x-long: ${"a".repeat(20_000)}`,
  "access-control-allow-origin: *",
)

/** An object with some of its fields, at any depth, replaced. */
export function spoiledValue(value: unknown): fc.Arbitrary<unknown> {
  const text = JSON.stringify(value)
  const places = [...text.matchAll(/(?<=[:[,])(?:"[^"]*"(?!:)|-?\d[\d.e+-]*|true|false|null|\{\}|\[\])/g)]
  if (places.length === 0) return fc.constant(value)
  return fc.array(fc.tuple(fc.nat(), fc.oneof(anything, word)), { maxLength: 3 }).map((changes) => {
    const found = new Map(changes.map(([at, change]) => [at % places.length, JSON.stringify(change)]))
    let at = 0
    const parts = places.map((place, number) => {
      const before = text.slice(at, place.index)
      at = place.index + place[0].length
      return before + (found.get(number) ?? place[0])
    })
    return JSON.parse(parts.join("") + text.slice(at))
  })
}

const CHAT_EVENTS: readonly object[] = [...chatWords("Hello", " there"), usageChunk(usage(10, 5))]
const MESSAGES_EVENTS: readonly object[] = [
  {
    type: "message_start",
    message: {
      id: "m",
      type: "message",
      role: "assistant",
      content: [],
      usage: { input_tokens: 10, output_tokens: 1 },
    },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 5 } },
  { type: "message_stop" },
]
const RESPONSES_EVENTS: readonly object[] = [
  { type: "response.created", response: { id: "r", status: "in_progress", output: [], usage: null } },
  { type: "response.output_text.delta", item_id: "i", output_index: 0, content_index: 0, delta: "Hello" },
  {
    type: "response.completed",
    response: {
      id: "r",
      status: "completed",
      output: [{ type: "message", content: [{ type: "output_text", text: "Hello" }] }],
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    },
  },
]

const debris = fc.constantFrom(
  "",
  ": ping\n\n",
  "\n",
  "data:\n\n",
  "data: [DONE]\n\n",
  "event: x\r\ndata: {}\r\n\r\n",
  "data: {\n\n",
  "id: \0\n",
)

/** A stream: events of one kind, of which some are spoiled, missing, twice, or have something else in between. */
const stream = fc.constantFrom(CHAT_EVENTS, CHAT_EVENTS, MESSAGES_EVENTS, RESPONSES_EVENTS).chain((events) =>
  fc
    .tuple(...events.map((event) => fc.tuple(spoiledValue(event), fc.constantFrom(1, 1, 1, 1, 0, 2), debris)))
    .map((spoiled) => {
      const text = spoiled.map(([event, times, between]) => sseEvent(event).repeat(times) + between)
      return { type: "text/event-stream", text: `${text.join("")}data: [DONE]\n\n` }
    }),
)

const whole = fc
  .constantFrom<object>(
    chatCompletion("hello", { usage: usage(10, 5) }),
    {
      type: "message",
      content: [{ type: "text", text: "Hello" }],
      usage: { input_tokens: 10, output_tokens: 5 },
    },
    { object: "response", status: "completed", output: [], usage: { input_tokens: 10, output_tokens: 5 } },
    { error: { type: "invalid_request_error", code: "x", message: "No.", param: null } },
  )
  .chain(spoiledValue)
  .map((value) => ({ type: "application/json", text: JSON.stringify(value) }))

const bytesOfAnswer = fc
  .tuple(status, fc.array(header, { maxLength: 2 }), fc.oneof(stream, whole), fc.nat({ max: 400 }))
  .map(([line, headers, { type, text }, cut]) => {
    const own = headers.some((one) => one.startsWith("content-type")) ? [] : [`content-type: ${type}`]
    const head = [`HTTP/1.1 ${line}`, ...own, ...headers, "transfer-encoding: chunked", "", ""].join("\r\n")
    const body = [chunked(text.slice(0, cut)), chunked(text.slice(cut)), Buffer.from("0\r\n\r\n")]
    return Buffer.concat([Buffer.from(head, "latin1"), ...body.filter(({ length }) => length > 5 || cut > 0)])
  })

/** Any answer, half of them damaged, in pieces that end anywhere. */
export const hostileAnswer: fc.Arbitrary<HostileAnswer> = fc
  .tuple(
    fc.oneof(bytesOfAnswer, damaged(bytesOfAnswer)),
    fc.array(fc.nat(), { maxLength: 6 }),
    fc.constantFrom(false, false, false, true),
  )
  .map(([bytes, cuts, is_reset]) => {
    const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort(
      (one, other) => one - other,
    )
    return {
      pieces: ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end).toString("latin1")),
      is_reset,
    }
  })
