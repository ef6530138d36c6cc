import { expect, test } from "bun:test"
import { askedTogether } from "../../src/ledger/database/asked-together.ts"
import { LedgerBusy } from "../../src/ledger/entries.ts"

test("questions that come while a statement runs share the next, and each gets its own answer", async () => {
  const asked: number[] = []
  const ask = askedTogether(async (names) => {
    asked.push(names.length)
    await undefined
    return new Map(names.filter((name) => name !== "unknown").map((name) => [name, `of ${name}`]))
  })
  const first = ask("a")
  await undefined
  const others = Array.from({ length: 300 }, (_, at) => ask(String(at)))
  expect(await Promise.all([first, ask("unknown"), ...others])).toEqual([
    "of a",
    null,
    ...others.map((_, at) => `of ${at}`),
  ])
  expect(asked).toEqual([1, 256, 45])
})

test("a statement that fails is the answer of those that asked it, and of no later one", async () => {
  let fails = true
  const ask = askedTogether(async (names) => {
    if (fails) throw new Error("away")
    return new Map(names.map((name) => [name, name]))
  })
  const ends = await Promise.allSettled([ask("a"), ask("b")])
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"])
  fails = false
  expect(await ask("c")).toBe("c")
})

test("no more than 4,096 questions wait", async () => {
  const { promise, resolve } = Promise.withResolvers<Map<string, string>>()
  const ask = askedTogether(() => promise)
  const waiting = Array.from({ length: 4_096 }, (_, at) => ask(String(at)))
  const error = await ask("one more").catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(LedgerBusy)
  resolve(new Map())
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([null]))
})
