import { expect, test } from "bun:test"
import { readQuery } from "../../src/routes/routing.ts"

const read = (query: string) => readQuery({ request: new Request(`http://localhost/?${query}`) }).query

test("a parameter that is given twice is a list", () => {
  expect(read("a=1&b=2&a=3&c")).toEqual({ a: ["1", "3"], b: "2", c: "" })
})

test("many parameters do not block the event loop", () => {
  const names = Array.from({ length: 30_000 }, (_, at) => `n${at}`)
  const began_ms = performance.now()
  expect(Object.keys(read(names.join("&")) as object)).toHaveLength(names.length)
  expect(performance.now() - began_ms).toBeLessThan(5_000)
})
