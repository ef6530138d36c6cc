import { describe, expect, spyOn, test } from "bun:test"
import fc from "fast-check"
import { Pace } from "../../src/admission/memory.ts"
import { MAX_DEPTH, readJsonBody, readLargeBody } from "../../src/wire/json.ts"
import { Shape } from "../../src/wire/shape.ts"
import { refusalOf } from "../support/refusal.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const read = (text: string) => readJsonBody(bytes(text))
const nested = (open: string, close: string, levels: number) => open.repeat(levels) + close.repeat(levels)
/** An object whose deepest container is at level `depth`. */
const deep = (depth: number) => `{"a":${nested("[", "]", depth - 1)}}`

const refusal = (body: Uint8Array) => refusalOf(() => readJsonBody(body))

describe("D15 what is no JSON object is a 400", () => {
  const refused: [string, Uint8Array, string][] = [
    ["no bytes", bytes(""), "The request body is empty. Send a JSON object."],
    ["white space", bytes(" \n"), "The request body is not valid JSON."],
    ["truncated", bytes('{"model":"secret'), "The request body is not valid JSON."],
    ["a trailing comma", bytes('{"a":1,}'), "The request body is not valid JSON."],
    [
      "an array",
      bytes('[{"model":"secret"}]'),
      "The request body is JSON, but not an object. Send a JSON object.",
    ],
    ["null", bytes("null"), "The request body is JSON, but not an object. Send a JSON object."],
    [
      "a surrogate in UTF-8",
      Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22),
      "The request body is not valid UTF-8.",
    ],
    ["a cut character", Uint8Array.of(0x22, 0xe6, 0x88, 0x22), "The request body is not valid UTF-8."],
    ["UTF-16", new Uint8Array(Buffer.from('{"a":1}', "utf16le")), "The request body is not valid JSON."],
  ]
  test.each(refused)("%s", (_, body, message) => {
    const error = refusal(body)
    expect(error).toMatchObject({ code: "invalid_request", status: 400, message })
    expect(error.message).not.toContain("secret")
  })
})

describe("D41 how many keys and elements", () => {
  const COUNT = 100_000
  const keys = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":1`).join(",")
  const ones = (count: number) => Array.from({ length: count }, () => "1").join(",")
  const fitting: [string, string][] = [
    ["keys", `{"a":[${Array.from({ length: 990 }, () => `{${keys(99)}}`).join(",")}]}`],
    ["elements", `{"a":[${ones(COUNT - 1)}]}`],
    ["commas within texts, which are none", `{"a":"${",".repeat(2 * COUNT)}"}`],
  ]
  test.each(fitting)("%s up to the limit pass", (_, text) => {
    expect(JSON.stringify(read(text))).toBe(text)
  })

  const refused: [string, string][] = [
    ["a million times one key", `{${'"a":1,'.repeat(1_000_000)}"a":1}`],
    ["one element too many", `{"a":[${ones(COUNT)}]}`],
    ["objects", `{"a":[${'{"b":1},'.repeat(COUNT / 2)}1]}`],
  ]
  test.each(refused)("%s are refused, and not parsed", (_, text) => {
    expect(refusal(bytes(text)).message).toBe(
      "The request body has more than 100000 keys and array elements.",
    )
  })
})

describe("D41 what takes the parser long, whatever its length", () => {
  const quoted = (text: string) => `{"a":"${text}"}`
  const names = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(",")}}`
  const fitting: [string, string][] = [
    ["different keys", names(20_000)],
    ["one key in many objects", `{"a":[${'{"b":1},'.repeat(40_000)}1]}`],
    ["escapes", quoted("\\n".repeat(1_000_000))],
    ["a long number", `{"a":${"1".repeat(1_000)}}`],
    ["strings", `{"a":[${'{"b":"c"},'.repeat(49_998)}"d","e"]}`],
  ]
  test.each(fitting)("%s pass", (_, text) => {
    expect(JSON.stringify(read(text)).length).toBe(text.length)
  })

  const long = "or keys that are too long"
  const refused: [string, string, string][] = [
    ["different keys", names(40_000), "more than 20000 different keys"],
    ["strings", `{"a":[${'"b",'.repeat(50_000)}"c"]}`, "more than 50000 strings"],
    [
      "strings before colons",
      `{"a":[${'"b",'.repeat(60_000)}"c"]}${":".repeat(60_000)}`,
      "more than 50000 strings",
    ],
    ["escapes", quoted("\\n".repeat(2_000_001)), "more than 2000000 backslashes"],
    ["a number", `{"a":${"1".repeat(1_000_100)}}`, "too many digits"],
    ["numbers", `{"a":[${`${"1".repeat(200)},`.repeat(6_000)}1]}`, "too many digits"],
    ["one key", `{"${"Ⓜ".repeat(100_000)}":1}`, long],
    ["keys", `{${`"${"k".repeat(60_000)}":1,`.repeat(5)}"a":1}`, long],
  ]
  test.each(refused)("%s beyond it are refused, and not parsed", async (_, text, message) => {
    const parse = spyOn(JSON, "parse")
    expect(refusal(bytes(text)).message).toContain(message)
    expect(async () => readLargeBody(bytes(text), (object) => object)).toThrow(message)
    expect(parse.mock.calls.length).toBe(0)
    parse.mockRestore()
  })

  test("a body that is read in slices is the same object, and the loop turns meanwhile", async () => {
    const text = `{"a":[${'{"b":"\\u00e9\\"é"},'.repeat(45_000)}1],"c":"${"é".repeat(1_500_000)}"}`
    let turns = 0
    const turning = setImmediate(function turn() {
      turns += 1
      if (turns < 100) setImmediate(turn)
    })
    expect(await readLargeBody(bytes(text), (object) => object)).toEqual(JSON.parse(text))
    clearImmediate(turning)
    expect(turns).toBeGreaterThan(3)
  })

  test("D78 of bodies that are read together, one at a time is parsed and not yet read", async () => {
    const pace = new Pace()
    const text = `{"a":[${"1,".repeat(40_000)}1]}`
    const noted: string[] = []
    const parse = spyOn(JSON, "parse")
    const all = Array.from({ length: 5 }, () =>
      readLargeBody(
        bytes(text),
        () => noted.push(`${parse.mock.calls.length} parsed`),
        (size) => pace.read("one", size),
      ),
    )
    await Promise.all(all)
    parse.mockRestore()
    expect(noted).toEqual(["1 parsed", "2 parsed", "3 parsed", "4 parsed", "5 parsed"])
  })

  test("the shape of any text is the same in any pieces", () => {
    const piece = fc.constantFrom("{", "}", "[", "]", ",", ":", '"', "\\", '\\"', "a", "12345678", "e", " ")
    const bounds = { depth: 2, values: 3, texts: 2 }
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), fc.array(fc.nat(60)), (parts, cuts) => {
        const whole = bytes(parts.join(""))
        const [once, pieces] = [new Shape(), new Shape()]
        once.take(whole)
        let from = 0
        for (const to of [...cuts].sort((a, b) => a - b).concat(whole.length)) {
          pieces.take(whole.subarray(from, Math.max(from, to)))
          from = Math.max(from, to)
        }
        expect([pieces.excess(bounds), pieces.has_long_numbers]).toEqual([
          once.excess(bounds),
          once.has_long_numbers,
        ])
      }),
      { numRuns: 500 },
    )
  })
})

describe("D18 depth", () => {
  test("64 levels pass, the root being 1", () => {
    expect(JSON.stringify(read(deep(MAX_DEPTH)))).toBe(deep(MAX_DEPTH))
  })

  const refused: [string, string][] = [
    ["65 levels", deep(65)],
    ["1,000,000 levels", deep(1_000_000)],
    ["65 levels behind a string that looks like an end", `{"a":"\\"]]]]]","b":${nested("[", "]", 64)}}`],
    ["65 levels behind an escaped backslash", `{"a":"\\\\","b":${nested("[", "]", 64)}}`],
  ]
  test.each(refused)("%s is refused before it is parsed", (_, text) => {
    const parse = spyOn(JSON, "parse")
    const { message } = refusal(bytes(text))
    const parsed = parse.mock.calls.length
    parse.mockRestore()
    expect({ message, parsed }).toEqual({
      message: "The request body is nested more than 64 levels deep.",
      parsed: 0,
    })
  })

  const accepted: [string, string][] = [
    ["brackets in a string with escaped quotes", `{"a":"${'\\"['.repeat(100)}"}`],
    ["brackets in a key", `{"${"[".repeat(100)}":1}`],
    ["many containers side by side", `{"a":[${"[],{},".repeat(1000)}0]}`],
  ]
  test.each(accepted)("%s are not depth", (_, text) => {
    expect(JSON.stringify(read(text))).toBe(text)
  })

  test("the depth of any JSON object is judged as a walk of the parsed value judges it", () => {
    const depthOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), fc.integer({ min: 50, max: 70 }), (json, around) => {
        const text = `${'{"a":'.repeat(around)}${json}${"}".repeat(around)}`
        const fits = depthOf(JSON.parse(text)) <= MAX_DEPTH
        if (fits) expect(read(text)).toEqual(JSON.parse(text))
        else expect(() => read(text)).toThrow("nested more than")
      }),
    )
  })
})

describe("D18 one parse: what is read is what is sent", () => {
  const sent: [string, string, string][] = [
    ["of duplicate keys the last wins", '{"model":"a","model":"b"}', '{"model":"b"}'],
    ["at every depth", '{"a":{"x":1,"x":[2,{"y":1,"y":2}]}}', '{"a":{"x":[2,{"y":2}]}}'],
    ["a lone surrogate stays an escape", '{"a":"\\ud800"}', '{"a":"\\ud800"}'],
    ["an escaped NUL stays", '{"a":"\\u0000"}', '{"a":"\\u0000"}'],
    ["a BOM is dropped", '\ufeff{"a":1}', '{"a":1}'],
    ["an integer beyond 2^53 stays exact", '{"seed":9223372036854775807}', '{"seed":9223372036854775807}'],
    ["at every depth too", '{"a":[{"b":-123456789012345678901}]}', '{"a":[{"b":-123456789012345678901}]}'],
    ["a number beyond a double stays itself", '{"a":1e400,"b":-1E400}', '{"a":1e400,"b":-1E400}'],
    ["more digits than a double has stay", '{"a":0.1234567890123456789}', '{"a":0.1234567890123456789}'],
    ["__proto__ beside such a number", '{"__proto__":{"a":1E400}}', '{"__proto__":{"a":1E400}}'],
    ["a whole number with an exponent is that number", '{"n":1e3}', '{"n":1000}'],
    ["white space is dropped", ' {\t"a" :\r\n[ 1 , null ] } ', '{"a":[1,null]}'],
  ]
  test.each(sent)("%s", (_, text, expected) => {
    expect(JSON.stringify(read(text))).toBe(expected)
  })

  test.each(["__proto__", "constructor", "prototype", "hasOwnProperty", "toString"])(
    "%s is data: it is read, copied and sent like any key, and changes nothing else",
    (key) => {
      const text = `{"${key}":{"polluted":true},"model":"m"}`
      const body = read(text)
      expect(Object.hasOwn(body, key)).toBe(true)
      expect(Object.getPrototypeOf(body)).toBe(Object.prototype)
      expect(JSON.stringify({ ...body, model: "m" })).toBe(text)
      expect("polluted" in {}).toBe(false)
    },
  )

  test("any object that fits comes back as it is", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ maxDepth: 4 })), (value) => {
        const text = JSON.stringify(value)
        expect(JSON.stringify(read(text))).toBe(text)
      }),
    )
  })
})
