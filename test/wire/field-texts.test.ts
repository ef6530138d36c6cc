import { describe, expect, test } from "bun:test"
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

  test("a field that is not there has no text", () => {
    expect(new FieldTexts({ a: null }).of("a")).toBe("null")
    expect(new FieldTexts({ a: null }).of("b")).toBeUndefined()
  })
})
