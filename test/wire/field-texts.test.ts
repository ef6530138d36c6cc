import { describe, expect, spyOn, test } from "bun:test"
import fc from "fast-check"
import { FieldTexts, readJsonBody } from "../../src/wire/json.ts"

const encoder = new TextEncoder()

describe("D18 what is sent is what was read, field by field", () => {
  test("the text of all fields is the object's own, whatever its names and values are", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
        expect(new FieldTexts(object).with({}).join("")).toBe(JSON.stringify(object))
      }),
    )
  })

  test("a change replaces its field in its place, or follows the others", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.dictionary(fc.constantFrom("model", "stream_options", "messages"), fc.jsonValue()),
        (object, changes) => {
          expect(new FieldTexts(object).with(changes).join("")).toBe(
            JSON.stringify({ ...object, ...changes }),
          )
        },
      ),
    )
  })

  test.each([
    ['{"__proto__":{"a":1},"model":"m"}', '{"__proto__":{"a":1},"model":"m"}'],
    ['{"seed":12345678901234567890,"x":1e400}', '{"seed":12345678901234567890,"x":1e400}'],
    ['{"a":"\\ud800"}', '{"a":"\\ud800"}'],
  ])("%s", (body, sent) => {
    expect(new FieldTexts(readJsonBody(encoder.encode(body))).with({}).join("")).toBe(sent)
  })

  test("a large field is a part of its own", () => {
    const large = "x".repeat(70_000)
    const parts = new FieldTexts({ model: "m", messages: large, n: 1, tools: [large] }).with({})
    expect(parts).toEqual(['{"model":"m","messages":', `"${large}"`, ',"n":1,"tools":', `["${large}"]`, "}"])
  })

  test("long fields that are kept only as text have the same values and texts, there and in their object", () => {
    const long = { seeds: Array.from({ length: 500 }, (_, at) => `s${at}`) }
    const whole = readJsonBody(
      encoder.encode(
        `{"messages":${JSON.stringify(long)},"seed":[${"12345678901234567890,".repeat(60)}1],"n":[1]}`,
      ),
    )
    const sent = new FieldTexts(whole).with({}).join("")
    const texts = new FieldTexts(whole)
    const values = texts.names.map((name) => texts.value(name))
    texts.release(whole)
    expect(texts.value("messages")).not.toBe(values[0])
    expect(texts.value("n")).toBe(values[2])
    expect(texts.names.map((name) => texts.value(name))).toEqual(values)
    expect(texts.with({}).join("")).toBe(sent)
    expect(JSON.stringify(whole)).toBe(sent)
    const parse = spyOn(JSON, "parse")
    texts.set({ n: 2 })
    expect(texts.with({}).join("")).toBe(sent.replace('"n":[1]', '"n":2'))
    expect(parse).not.toHaveBeenCalled()
    parse.mockRestore()
    texts.set({ n: 2, "messages.seeds": "none" })
    expect(JSON.parse(texts.with({}).join("")).messages).toEqual({ seeds: "none" })
  })

  test("a long field that is kept only as text keeps the digits of all numbers, whichever of them made that necessary", () => {
    const text = `{"a":[1.50,1234567890.12345678,"${"x".repeat(1_024)}"],"seed":1e400}`
    const texts = new FieldTexts(readJsonBody(encoder.encode(text)))
    texts.release()
    expect(JSON.stringify({ a: texts.value("a"), seed: texts.value("seed") })).toBe(text)
  })

  test("D41 fields are set in one look at the names", () => {
    const names = Array.from({ length: 100 }, (_, at) => `name_${at}`)
    const texts = new FieldTexts(Object.fromEntries(names.map((name) => [name, 1])))
    const normalize = spyOn(String.prototype, "normalize")
    texts.set({ a: 1, b: 2, "c.d": 3, name_7: 4 })
    const looks = normalize.mock.calls.length
    normalize.mockRestore()
    expect(looks).toBeLessThan(2 * names.length)
    expect(texts.with({}).join("")).toEndWith('"name_99":1,"a":1,"b":2,"c":{"d":3},"name_7":4}')
  })

  test("of many short fields, 16 KiB stay values", () => {
    const object = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, ["x".repeat(508)]]))
    const texts = new FieldTexts({ ...object })
    texts.release()
    expect(texts.names.filter((name) => texts.value(name) === object[name])).toHaveLength(32)
    expect(texts.with({}).join("")).toBe(JSON.stringify(object))
  })

  test("a field that its object has with another value is kept as text there, too, with that value", () => {
    const text = "x".repeat(2_000)
    const usage = { include: true, text }
    const object = { usage }
    const texts = new FieldTexts({ usage: { text } })
    texts.release(object)
    expect(object.usage).not.toBe(usage)
    expect(object).toEqual({ usage })
    expect(texts.value("usage")).toEqual({ text })
  })

  test("a field that is not there has no text", () => {
    expect(new FieldTexts({ a: null }).of("a")).toBe("null")
    expect(new FieldTexts({ a: null }).of("b")).toBeUndefined()
  })
})
