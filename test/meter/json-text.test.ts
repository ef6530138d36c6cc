import { expect, test } from "bun:test"
import fc from "fast-check"
import { EACH, edited, memberText, withMember } from "../../src/meter/json-text.ts"

/** JSON text as nobody's serialiser would write it: spaces anywhere, keys twice and escaped, numbers beyond a double. */
const space = fc.constantFrom("", " ", "\n", "\t", "\r\n  ")
const key = fc.oneof(
  fc.constantFrom('"usage"', '"us\\u0061ge"', '"cost"', '"__proto__"', '""', '"\\""', '"}"', '"a\\\\"'),
  fc.string().map((text) => JSON.stringify(text)),
)
const scalar = fc.constantFrom("0", "-0", "1e400", "12345678901234567890", "0.10", "true", "null", '"},{"')
const { value } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.string().map((text) => JSON.stringify(text)),
    tie("object"),
    tie("array"),
  ),
  object: fc.array(fc.tuple(space, key, space, space, tie("value"), space), { maxLength: 5 }).map(objectOf),
  array: fc
    .array(fc.tuple(space, tie("value"), space), { maxLength: 4 })
    .map((items) => `[${items.map((item) => item.join("")).join(",")}]`),
}))
const object = fc
  .tuple(space, fc.array(fc.tuple(space, key, space, space, value, space), { maxLength: 6 }), space)
  .map(([before, members, after]) => `${before}${objectOf(members)}${after}`)

function objectOf(members: readonly (readonly [string, string, string, string, string, string])[]): string {
  return `{${members.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`).join(",")}}`
}

function parsed(text: string): Record<string, unknown> {
  return JSON.parse(text)
}

const name = fc.constantFrom("usage", "cost", "__proto__", "", '"', "}", "a\\", "missing")

test("D49 a member's text is what JSON.parse reads there", () => {
  fc.assert(
    fc.property(object, name, (text, name) => {
      const found = memberText(text, name)
      expect(found !== null).toBe(Object.hasOwn(parsed(text), name))
      if (found !== null) expect(JSON.parse(found)).toEqual(parsed(text)[name])
    }),
    { numRuns: 500 },
  )
})

test("D49 a member is replaced or added, and every other byte stays", () => {
  fc.assert(
    fc.property(object, name, value, (text, name, value) => {
      const changed = withMember(text, name, value)
      const expected = new Map(Object.entries(parsed(text)))
      expected.set(name, JSON.parse(value))
      expect(new Map(Object.entries(parsed(changed)))).toEqual(expected)
      const old = memberText(text, name)
      if (old === null) {
        const added = `${JSON.stringify(name)}:${value}`
        const at = changed.lastIndexOf(added)
        expect([text, text.replace(/\}\s*$/, (end) => `,${end}`)]).toContain(
          changed.slice(0, at) + changed.slice(at + added.length),
        )
      } else {
        expect(changed.length - value.length).toBe(text.length - old.length)
        expect(withMember(changed, name, old)).toBe(text)
      }
    }),
    { numRuns: 500 },
  )
})

test.each([
  ['{"a":-0,"b":1e400,"c":12345678901234567890,"usage":', "1", "}"],
  ['{"a":1,"a":2,"usage":1,"usage":', '{"x":0.10}', "\n}"],
  ['\uFEFF{ "us\\u0061ge" : ', "[ 1 , 2 ]", ' , "z" : "\\u0041" }\n'],
])("D49 what JSON.parse would lose stays: %s%s%s", (before, value, after) => {
  expect(memberText(before + value + after, "usage")).toBe(value)
  expect(withMember(before + value + after, "usage", "7")).toBe(`${before}7${after}`)
})

test("D24 every member of a name is removed, and nothing else changes", () => {
  fc.assert(
    fc.property(object, name, (text, name) => {
      const left = edited(text, [name], () => null)
      const expected = new Map(Object.entries(parsed(text)))
      expected.delete(name)
      expect(new Map(Object.entries(parsed(left)))).toEqual(expected)
      if (memberText(text, name) === null) expect(left).toBe(text)
      const list = `[${text},0,${text}]`
      expect(JSON.parse(edited(list, [EACH, name], () => null))).toEqual([parsed(left), 0, parsed(left)])
      expect(edited(text, [name, EACH, "usage"], (value) => value)).toBe(text)
    }),
    { numRuns: 500 },
  )
})

test("D41 many strings that are not short are passed in one look at the text", () => {
  const strings = Array.from({ length: 60_000 }, (_, at) => `"${"x".repeat(70)}${at}"`)
  const text = `{"choices":[${strings.join(",")}],"usage":{"cost":1}}`
  const began_ms = performance.now()
  expect(memberText(text, "usage")).toBe('{"cost":1}')
  expect(performance.now() - began_ms).toBeLessThan(2_000)
})

test.each([63, 64, 65, 127, 128, 129, 200])(
  "D49 a string with a backslash at %d ends at its quote",
  (length) => {
    for (const escapes of ['\\"', "\\\\", '\\\\\\"', '\\"\\"']) {
      const string = `"${"x".repeat(length)}${escapes}${"y".repeat(100)}${escapes}"`
      expect(memberText(`{"a":${string},"b":"\\\\"}`, "a")).toBe(string)
    }
  },
)
