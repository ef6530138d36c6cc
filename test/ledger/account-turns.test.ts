import { expect, test } from "bun:test"
import { LedgerBusy } from "../../src/ledger/entries.ts"
import { accountTurns } from "../../src/ledger/reports/account-turns.ts"

test("D78 accounts take turns, so many questions at a time", async () => {
  const inTurn = accountTurns(2, 32)
  const order: string[] = []
  let asked = 0
  let most_asked = 0
  const ask = (name: string) =>
    inTurn(name.charAt(0), async () => {
      order.push(name)
      asked += 1
      most_asked = Math.max(most_asked, asked)
      await Promise.resolve()
      asked -= 1
    })
  await Promise.all(["a1", "a2", "a3", "a4", "b1", "b2", "c1"].map(ask))
  expect(order).toEqual(["a1", "a2", "a3", "b1", "c1", "a4", "b2"])
  expect(most_asked).toBe(2)
})

test("an account has an eighth of the places, and gets one back when its question ends, in whatever way", async () => {
  const ask = accountTurns(1, 16)
  const { promise, reject } = Promise.withResolvers<never>()
  const failing = [ask("a", () => promise), ask("a", async () => "asked")]
  await expect(ask("a", async () => "no")).rejects.toBeInstanceOf(LedgerBusy)
  const another = ask("b", async () => "another")
  reject(new Error("failed"))
  await expect(failing[0]).rejects.toThrow("failed")
  expect(await failing[1]).toBe("asked")
  expect(await another).toBe("another")
  expect(await ask("a", async () => "again")).toBe("again")
})

test("all places together are bounded", async () => {
  const ask = accountTurns(1, 8)
  const { promise, resolve } = Promise.withResolvers<string>()
  const waiting = Array.from({ length: 8 }, (_, account) => ask(String(account), () => promise))
  await expect(ask("another", () => promise)).rejects.toBeInstanceOf(LedgerBusy)
  resolve("answer")
  expect(await Promise.all(waiting)).toEqual(Array.from({ length: 8 }, () => "answer"))
})
