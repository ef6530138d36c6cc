import { expect, test } from "bun:test"
import { batchedLookup } from "../../src/ledger/database/batched-lookup.ts"
import { LedgerBusy } from "../../src/ledger/entries.ts"

test("lookups that arrive while a statement runs share the next one, and each gets its own result", async () => {
  const sizes: number[] = []
  const lookup = batchedLookup(async (names) => {
    sizes.push(names.length)
    await undefined
    return new Map(names.filter((name) => name !== "unknown").map((name) => [name, `of ${name}`]))
  })
  const first = lookup("a")
  await undefined
  const others = Array.from({ length: 300 }, (_, at) => lookup(String(at)))
  expect(await Promise.all([first, lookup("unknown"), ...others])).toEqual([
    "of a",
    null,
    ...others.map((_, at) => `of ${at}`),
  ])
  expect(sizes).toEqual([1, 256, 45])
})

test("a statement that fails rejects the lookups of its batch, and no later one", async () => {
  let fails = true
  const lookup = batchedLookup(async (names) => {
    if (fails) throw new Error("away")
    return new Map(names.map((name) => [name, name]))
  })
  const ends = await Promise.allSettled([lookup("a"), lookup("b")])
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"])
  fails = false
  expect(await lookup("c")).toBe("c")
})

test("at most 4,096 lookups wait", async () => {
  const { promise, resolve } = Promise.withResolvers<Map<string, string>>()
  const lookup = batchedLookup(() => promise)
  const waiting = Array.from({ length: 4_096 }, (_, at) => lookup(String(at)))
  const error = await lookup("one more").catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(LedgerBusy)
  resolve(new Map())
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([null]))
})
