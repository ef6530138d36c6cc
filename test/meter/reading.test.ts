import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ChatReading } from "../../src/meter/chat-reading.ts"
import { readAnswer, readJson } from "../../src/meter/json-reading.ts"
import { DONE, EMPTY, ERROR, type EventKind, type JsonEvidence, NOTHING } from "../../src/meter/reading.ts"
import { chat } from "../../src/operations/chat.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import { bytesOf } from "./cuts.ts"

function chunk(
  output: boolean,
  trusted_usage: boolean,
  usage_only = false,
  final_usage = trusted_usage && usage_only,
  with_usage = trusted_usage || usage_only,
): EventKind {
  return { ...EMPTY, output, trusted_usage, with_usage, usage_only, final_usage }
}

const usage = '"usage":{"prompt_tokens":9,"completion_tokens":2}'
const text = (content: string, index = 0) =>
  `{"choices":[{"index":${index},"delta":{"content":"${content}"}}]}`
const finish = (index = 0) => `{"choices":[{"index":${index},"delta":{},"finish_reason":"stop"}]}`
const textUsing = (content: string, prompt: number, completion: number) =>
  `{"choices":[{"index":0,"delta":{"content":"${content}"}}],"usage":{"prompt_tokens":${prompt},"completion_tokens":${completion}}}`
const usageOnly = (prompt: number, completion: number) =>
  `{"choices":[],"usage":{"prompt_tokens":${prompt},"completion_tokens":${completion}}}`

function readAll(payloads: readonly (string | null)[], n = 1): ChatReading {
  const reading = new ChatReading(n)
  for (const payload of payloads) reading.read(payload)
  return reading
}

describe("what one event is", () => {
  const rows: [string, string | null, EventKind][] = [
    ["D4 [DONE]", "[DONE]", DONE],
    ["D4 [DONE] in white space", " [DONE] ", DONE],
    ["D7 output", text("hi"), chunk(true, false)],
    ["D1 usage beside output", `{"choices":[{"delta":{"content":"hi"}}],${usage}}`, chunk(true, true)],
    [
      "D1 usage beside a finish",
      `{"choices":[{"delta":{},"finish_reason":"stop"}],${usage}}`,
      chunk(false, true, false, true),
    ],
    ["D24 usage only", `{"choices":[],${usage}}`, chunk(false, true, true)],
    ["D24 usage only, no choices at all", `{${usage}}`, chunk(false, true, true)],
    ["D24 usage only, invalid", '{"choices":[],"usage":{"prompt_tokens":-1}}', chunk(false, false, true)],
    [
      "D24 usage beside a choice that says nothing",
      `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],${usage}}`,
      chunk(false, true, true, false),
    ],
    [
      "D24 usage beside the role, which SDKs need",
      `{"choices":[{"index":0,"delta":{"role":"assistant"}}],${usage}}`,
      chunk(false, true, false, false),
    ],
    ["D24 usage of a choice", `{"choices":[{"delta":{},${usage}}]}`, chunk(false, true, true, false)],
    [
      "D24 invalid usage beside output",
      '{"choices":[{"delta":{"content":"hi"}}],"usage":{"cost":1}}',
      chunk(true, false, false, false, true),
    ],
    ["D24 a null usage is no usage to strip", '{"choices":[],"usage":null}', chunk(false, false)],
    ["D24 a usage that is no object is none to strip", '{"choices":[],"usage":[]}', chunk(false, false)],
    ["D24 other things beside no choices", '{"choices":[],"prompt_filter_results":[]}', chunk(false, false)],
    ["D2 0/0 is valid where it stands", usageOnly(0, 0), chunk(false, true, true)],

    ["a comment", null, NOTHING],
    ["D7 truncated JSON", text("hi").slice(0, -1), NOTHING],
    ["D7 an object after a BOM that is not the stream's", `\ufeff${text("hi")}`, NOTHING],
    ["D7 a string", '"[DONE]"', NOTHING],
    ["D4 not quite [DONE]", "[done]", NOTHING],
    ["D4 not quite [DONE]: more behind", "[DONE] {}", NOTHING],
    ["brackets without end", "[".repeat(100_000), NOTHING],
    ["D7 role only", '{"choices":[{"delta":{"role":"assistant","content":""}}]}', chunk(false, false)],
    ["D7 finish only", finish(), chunk(false, false)],
    ["objects nested deep", `{"choices":${"[".repeat(30_000)}${"]".repeat(30_000)}}`, chunk(false, false)],
    [
      "D41 objects nested deep in a large event",
      `{"choices":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
      NOTHING,
    ],
    ["D1 usage under __proto__", `{"__proto__":{${usage}},"choices":[]}`, chunk(false, false)],
    ["D87 usage under a choice", `{"choices":[{"index":0,${usage}}]}`, chunk(false, true, true, false)],

    ["D10 an error object", '{"error":{"message":"no"}}', ERROR],
    ["D10 an error string", '{"error":"no"}', ERROR],
    ["D10 an error beside choices", '{"error":{},"choices":[{"delta":{"content":"hi"}}]}', ERROR],
    ["D10 an error beside usage", `{"error":{},"choices":[],${usage}}`, { ...ERROR, trusted_usage: true }],
    ["D10 error: null is none", '{"error":null,"choices":[{"delta":{"content":"hi"}}]}', chunk(true, false)],
    ["D10 nor is an empty one", '{"error":"","choices":[{"delta":{"content":"hi"}}]}', chunk(true, false)],
    [
      "D10 an error of a choice is none, but told",
      '{"choices":[{"error":{"code":1}}]}',
      { ...chunk(false, false), reports_error: true },
    ],
    ["D10 an error under __proto__ is none", '{"__proto__":{"error":{}}}', chunk(false, false)],
  ]
  test.each(rows)("%s", (_, data, kind) => expect(new ChatReading().read(data)).toEqual(kind))
})

describe("D4, D8 what makes usage final and a stream complete", () => {
  const rows: [string, string[], final: boolean, complete: boolean, n?: number][] = [
    ["usage with empty choices", [text("a"), usageOnly(9, 2)], true, false],
    ["usage after final usage", [text("a"), usageOnly(9, 2), textUsing("", 9, 3)], true, false],
    ["output after final usage", [finish(), usageOnly(9, 2), text("a")], false, true],
    ["usage after output after final usage", [usageOnly(9, 2), text("a"), textUsing("", 9, 3)], false, false],
    ["usage that comes with the last output", [finish(), textUsing("a", 9, 2)], true, true],
    ["usage with the finish", [`{"choices":[{"delta":{},"finish_reason":"stop"}],${usage}}`], true, true],
    ["usage after the finish", [finish(), textUsing("", 9, 2)], true, true],
    ["every choice finished, no usage", [text("a"), finish()], false, true],
    ["more choices than were requested", [text("b", 1), finish(0)], false, true],
    ["a choice that goes on after its finish", [finish(), text("a")], false, true],
    [
      "choices without an index: their place",
      ['{"choices":[{},{"finish_reason":"stop"}]}', finish(0)],
      false,
      true,
    ],
    [
      "an index that is a string: its place",
      ['{"choices":[{"index":"7","finish_reason":"stop"}]}'],
      false,
      true,
    ],
    [
      "an index beyond all: its place",
      ['{"choices":[{"index":1e300}]}', finish(0), usageOnly(9, 2)],
      true,
      true,
      2,
    ],
    ["128 choices", [...Array(128).keys()].map(finish), false, true, 128],

    ["nothing", [], false, false],
    ["output alone", [text("a")], false, false],
    ["usage beside an unfinished choice", [textUsing("a", 9, 2)], false, false],
    ["usage with the finish of one of two", [text("b", 1), finish(0), textUsing("", 9, 2)], false, false, 2],
    ["one of two finished", [text("a", 0), text("b", 1), finish(1)], false, false, 2],
    ["one of two delivered", [text("a"), finish()], false, false, 2],
    ["an empty finish_reason", ['{"choices":[{"finish_reason":""}]}'], false, false],
    ["a null finish_reason", ['{"choices":[{"finish_reason":null}]}'], false, false],
    ["invalid usage with empty choices", ['{"choices":[],"usage":{}}'], false, false],
    ["D2 a 0/0 beside output", [text("a"), usageOnly(0, 0)], false, false],
    ["no choice is an object", ['{"choices":[null,"stop",1,["stop"]]}'], false, false],
    ["a later usage that is not final", [usageOnly(9, 2), textUsing("a", 9, 3)], false, false],
  ]
  test.each(rows.map((row) => [row[0], row] as const))("%s", (_, [, payloads, final, complete, n]) => {
    const reading = readAll(payloads, n)
    expect([reading.usage_final, reading.answered]).toEqual([final, complete])
    expect(reading.evidence("client_left").usage_final).toBe(final)
  })
})

describe("which usage of a stream counts, and what came after it", () => {
  const rows: [string, (string | null)[], "missing" | "invalid" | number[], bytes: number, after: number][] =
    [
      ["D4 the last valid one", [textUsing("ab", 9, 1), textUsing("cd", 9, 2)], [9, 2], 4, 0],
      ["D4 never the sum", [usageOnly(9, 2), usageOnly(9, 2)], [9, 2], 0, 0],
      ["D4 an invalid one erases nothing", [usageOnly(9, 2), usageOnly(-1, 2)], [9, 2], 0, 0],
      ["D8 text in later events", [textUsing("ab", 9, 1), text("cde"), text("f")], [9, 1], 6, 4],
      ["D8 text of its own event is before it", [text("a"), textUsing("bc", 9, 1)], [9, 1], 3, 0],
      [
        "D8 text after the first, before the last",
        [usageOnly(9, 1), text("abc"), usageOnly(9, 2)],
        [9, 2],
        3,
        0,
      ],
      [
        "D8 an invalid one does not move the mark",
        [usageOnly(9, 1), text("abc"), usageOnly(-1, 2)],
        [9, 1],
        3,
        3,
      ],
      ["D2 0/0 alone", [usageOnly(0, 0)], [0, 0], 0, 0],
      ["D2 0/0 beside output is left to the verdict", [text("abc"), usageOnly(0, 0)], [0, 0], 3, 0],
      [
        "D2 0/0 yields to real usage before it",
        [textUsing("abc", 9, 1), text("d"), usageOnly(0, 0)],
        [9, 1],
        4,
        1,
      ],
      ["D2 0/0 yields to real usage after it", [usageOnly(0, 0), text("abc"), usageOnly(9, 1)], [9, 1], 3, 0],
      ["D4 0/0 erases nothing", [usageOnly(9, 1), usageOnly(0, 0)], [9, 1], 0, 0],
      [
        "D2 but output that follows takes it back",
        [usageOnly(9, 1), usageOnly(0, 0), text("a")],
        [9, 1],
        1,
        1,
      ],
      ["no usage", [text("abc"), finish()], "missing", 3, 0],
      ["null usage", ['{"usage":null}'], "missing", 0, 0],
      ["invalid usage", [usageOnly(-1, 2)], "invalid", 0, 0],
      ["D4 usage after [DONE]", [text("abc"), "[DONE]", usageOnly(9, 2)], "missing", 3, 0],
      ["D4 output after [DONE]", ["[DONE]", text("abc")], "missing", 0, 0],
      ["D8 usage and output after an error", ['{"error":{}}', text("abc"), usageOnly(9, 2)], "missing", 0, 0],
      [
        "D10 usage of the error itself, and none of its output",
        [text("b"), `{"error":{},"choices":[{"text":"a"}],${usage}}`],
        [9, 2],
        1,
        0,
      ],
    ]
  test.each(rows)("%s", (_, payloads, expected, output_bytes, output_bytes_after_usage) => {
    const evidence = readAll(payloads).evidence("client_left")
    const { usage } = evidence
    const counting =
      usage.state === "valid" ? [usage.usage.prompt_tokens, usage.usage.completion_tokens] : usage.state
    expect(counting).toEqual(expected)
    expect(evidence).toMatchObject({ output_bytes, output_bytes_after_usage })
  })

  test("D3 its notes come with it", () => {
    const clamped = '"prompt_tokens_details":{"cached_tokens":99}'
    const payload = `{"usage":{"prompt_tokens":9,"completion_tokens":2,${clamped}}}`
    expect(readAll([payload]).evidence("completed").usage).toMatchObject({ notes: ["cached_clamped"] })
    expect(readAll([payload, usageOnly(100, 2)]).evidence("completed").usage).toMatchObject({ notes: [] })
  })
})

test("D1, D4 what the request cannot have caused counts up to the bound, and is noted", () => {
  const limits = { prompt_tokens: 9, completion_tokens: 2 }
  const reading = new ChatReading(1, { ...ANY_USAGE, limits })
  reading.read(usageOnly(10, 3))
  const usage = { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 2 }
  expect(reading.evidence("completed").usage).toEqual({ state: "valid", usage, notes: ["usage_implausible"] })
  reading.read(usageOnly(8, 2))
  expect(reading.evidence("completed").usage).toMatchObject({ usage: { prompt_tokens: 8 }, notes: [] })
})

test("after [DONE] or an error every event is nothing", () => {
  for (const last of ["[DONE]", '{"error":"no"}']) {
    const reading = readAll([text("a"), last])
    expect(reading.done).toBe(last === "[DONE]")
    expect(reading.evidence("completed").error).toBe(last !== "[DONE]")
    for (const payload of [text("b"), usageOnly(9, 2), "[DONE]", '{"error":{}}', null]) {
      expect(reading.read(payload)).toEqual(NOTHING)
    }
  }
})

test("very many choices in one event", () => {
  const reading = readAll([`{"choices":[${'{"text":"a"},'.repeat(44_999)}{"text":"a"}]}`])
  expect(reading.evidence("completed").output_bytes).toBe(45_000)
  expect(reading.answered).toBe(false)
})

describe("D5 a JSON answer", () => {
  const object = (usage: JsonEvidence["usage"], output_bytes: number): Partial<JsonEvidence> => ({
    body: "object",
    usage,
    output_bytes,
  })
  const only = (body: "blank" | "malformed" | "error"): Partial<JsonEvidence> => ({
    body,
    usage: { state: "missing" },
    output_bytes: 0,
  })
  const nineAndTwo: JsonEvidence["usage"] = {
    state: "valid",
    usage: { prompt_tokens: 9, cached_tokens: 0, completion_tokens: 2 },
    notes: [],
  }
  const hello = '"choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}]'
  const rows: [string, string | number[], Partial<JsonEvidence>][] = [
    ["rule 1 usage", `{${hello},${usage}}`, object(nineAndTwo, 5)],
    ["rule 1 in white space", ` \r\n\t{${hello},${usage}}\n `, object(nineAndTwo, 5)],
    ["rule 1 after a BOM", `\ufeff{${hello},${usage}}`, object(nineAndTwo, 5)],
    ["rule 2 no usage", `{${hello}}`, object({ state: "missing" }, 5)],
    ["rule 2 invalid usage", `{${hello},"usage":{"prompt_tokens":"9"}}`, object({ state: "invalid" }, 5)],
    ["rule 2 an empty object", "{}", object({ state: "missing" }, 0)],
    ["rule 2 a duplicated usage: the last wins", `{"usage":{},${usage}}`, object(nineAndTwo, 0)],
    ["rule 2 usage under __proto__", `{"__proto__":{${usage}}}`, object({ state: "missing" }, 0)],
    ["D10 error: null is none", `{"error":null,${usage}}`, object(nineAndTwo, 0)],
    ["D10 nor is an empty one", `{"error":"","choices":[]}`, object({ state: "missing" }, 0)],
    ["D10 an error beside choices is none", `{"error":{},${hello},${usage}}`, object(nineAndTwo, 5)],

    ["rule 3 white space", " \r\n\t ", only("blank")],
    ["rule 3 a BOM and white space", "\ufeff\n", only("blank")],
    ["rule 3 HTML", "<html></html>", only("malformed")],
    ["rule 3 a list", `[{${usage}}]`, only("malformed")],
    ["rule 3 a string", '"x"', only("malformed")],
    ["rule 3 an object and more", "{}x", only("malformed")],
    ["rule 3 an event stream", `data: {${usage}}\n\n`, only("malformed")],
    ["rule 3 brackets without end", "[".repeat(100_000), only("malformed")],
    ["rule 3 bad UTF-8", [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d], only("malformed")],
    ["rule 3 half a character", [0x7b, 0x7d, 0xf0, 0x9f], only("malformed")],
    ["rule 3 two BOMs and an object", "\ufeff\ufeff{}", only("malformed")],
    ["D10 an error object", '{"error":{"message":"no"}}', only("error")],
    ["D10 an error and no choices", '{"error":{},"choices":[]}', only("error")],
    ["rule 1, D10 an error beside usage", `{"error":{},${usage}}`, object(nineAndTwo, 0)],
    ["D10 an error beside invalid usage", '{"error":{},"usage":{}}', only("error")],
  ]
  const bodyOf = (body: string | number[]) =>
    typeof body === "string" ? bytesOf(body) : new Uint8Array(body)
  test.each(rows)("%s", (_, body, expected) => {
    expect(readJson(chat.json, bodyOf(body), "completed")).toMatchObject({
      shape: "json",
      ending: "completed",
      ...expected,
    })
  })

  /** White space is not checked for byte order marks in the middle. */
  const alike = rows.filter(([name]) => name !== "rule 3 two BOMs and an object")
  test.each(alike)("D41 the same with more than 256 KiB: %s", async (_, body, expected) => {
    const bytes = Buffer.concat([bodyOf(body), Buffer.alloc(300_000, " ")])
    const evidence = await readAnswer(chat.json, { bytes, cut: false, large: null }, "completed", ANY_USAGE)
    expect(evidence).toMatchObject({ shape: "json", ending: "completed", ...expected })
  })

  test("D17 the error of a choice beside usage is told", () => {
    const text = `{"choices":[{"message":{"content":"hi"},"error":{"message":"x"}}],${usage}}`
    const evidence = readJson(chat.json, bytesOf(text), "completed")
    expect(evidence).toMatchObject({ ...object(nineAndTwo, 2), reports_error: true })
  })

  test("D10, D17 an error of more than 256 KiB is one, and beside usage is told", async () => {
    const read = (text: string) =>
      readAnswer(chat.json, { bytes: bytesOf(text), cut: false, large: null }, "completed", ANY_USAGE)
    const error = `"error":{"message":"${"x".repeat(300_000)}"}`
    expect(await read(`{${error}}`)).toMatchObject(only("error"))
    expect(await read(`{${error},${hello}}`)).toMatchObject({ body: "object", reports_error: true })
    expect(await read(`{${error},${usage}}`)).toMatchObject({ ...object(nineAndTwo, 0), reports_error: true })
  })

  test.each(rows)("cut by the network it is malformed, whatever arrived: %s", (_, body) => {
    const part = { bytes: bodyOf(body), cut: true, large: null }
    const evidence = readAnswer(chat.json, part, "upstream_lost", ANY_USAGE)
    expect(evidence).toMatchObject({ ending: "upstream_lost", ...only("malformed") })
  })
})

describe("properties", () => {
  const payloads = fc.array(
    fc.oneof(
      fc.constantFrom(
        text("ab"),
        finish(),
        usageOnly(9, 2),
        usageOnly(0, 0),
        textUsing("c", 9, 1),
        '{"usage":{}}',
      ),
      fc.json(),
      fc.string(),
      fc.constant(null),
    ),
  )

  test("any payloads are read, and the evidence is sound", () => {
    fc.assert(
      fc.property(payloads, (payloads) => {
        const evidence = readAll(payloads).evidence("upstream_lost")
        expect(Number.isInteger(evidence.output_bytes) && evidence.output_bytes >= 0).toBe(true)
        expect(evidence.output_bytes_after_usage).toBeGreaterThanOrEqual(0)
        expect(evidence.output_bytes_after_usage).toBeLessThanOrEqual(evidence.output_bytes)
        if (evidence.usage.state !== "valid") expect(evidence.output_bytes_after_usage).toBe(0)
      }),
    )
  })

  test("what an event is called agrees with what it adds", () => {
    fc.assert(
      fc.property(
        payloads,
        fc.oneof(fc.json(), fc.constantFrom(text("a"), usageOnly(1, 1))),
        (before, data) => {
          const reading = readAll(before)
          const { output_bytes } = reading.evidence("completed")
          const kind = reading.read(data)
          const added = reading.evidence("completed").output_bytes - output_bytes
          expect(added > 0).toBe(kind.kind === "chunk" && kind.output)
        },
      ),
    )
  })

  test("arbitrary bytes are a JSON answer of some kind", () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), fc.json().map(bytesOf)), (body) => {
        const { output_bytes } = readJson(chat.json, body, "completed")
        expect(Number.isInteger(output_bytes) && output_bytes >= 0).toBe(true)
      }),
    )
  })
})
