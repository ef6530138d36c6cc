import { describe, expect, test } from "bun:test"
import { isPath, valuesAt, withoutValue, withValue } from "../../src/wire/paths.ts"

describe("dotted paths to fields of a request", () => {
  test.each([
    ["plain", true],
    ["provider.order", true],
    ["", false],
    [".a", false],
    ["a.", false],
    ["a b", false],
    ["a=b", false],
    ["a.b.c.d.e.f.g.h.i", false],
  ])("%j is a path: %p", (text, expected) => expect(isPath(text)).toBe(expected))

  test.each<[string, object, readonly unknown[]]>([
    ["a", { a: 1 }, [1]],
    ["a", { b: 1 }, []],
    ["a.b", { a: { b: null } }, [null]],
    ["a.b", { a: 1 }, []],
    ["new_field", { New_Field: 1, newField: 2, "new-field ": 3, ｎewfield: 4 }, [1, 2, 3, 4]],
    ["tools.type", { tools: [{ type: "a" }, 1, { type: "b" }] }, ["a", "b"]],
  ])("the values at %j of %j", (path, object, values) => expect(valuesAt(object, path)).toEqual([...values]))

  test.each<[string, Record<string, unknown>, unknown, string]>([
    ["a", {}, 1, '{"a":1}'],
    ["a", { a: 1, b: 2 }, 3, '{"b":2,"a":3}'],
    ["a.b", { a: { c: 1 } }, 2, '{"a":{"c":1,"b":2}}'],
    ["a.b", { a: "text" }, 2, '{"a":{"b":2}}'],
    ["new_field", { New_Field: 1 }, 2, '{"new_field":2}'],
    ["__proto__", {}, 1, '{"__proto__":1}'],
  ])("%j of %j set to %j", (path, object, value, text) => {
    const before = JSON.stringify(object)
    expect(JSON.stringify(withValue(object, path, value))).toBe(text)
    expect(JSON.stringify(object)).toBe(before)
  })

  test.each<[string, Record<string, unknown>, string]>([
    ["a", { a: 1, b: 2 }, '{"b":2}'],
    ["a.b", { a: { b: 1, c: 2 } }, '{"a":{"c":2}}'],
    ["a.b", { a: 1 }, '{"a":1}'],
    ["new_field", { New_Field: 1 }, "{}"],
  ])("%j of %j dropped", (path, object, text) => {
    expect(JSON.stringify(withoutValue(object, path))).toBe(text)
  })

  test("an object without the field stays the same object", () => {
    const object = { a: { c: 1 } }
    expect<unknown>(withoutValue(object, "b")).toBe(object)
    expect<unknown>(withoutValue(object, "a.b")).toBe(object)
  })
})
