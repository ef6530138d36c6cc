import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { FairShare } from "../../src/ledger/database/fair-share.ts"

/** Takes one at a time until it is refused; how many it got. */
function fill(share: FairShare, account: string, capacity: number): number {
  let got = 0
  while (share.acquire(account, 1, capacity)) got += 1
  return got
}

describe("D78 a capacity that accounts share", () => {
  test("one account alone gets all of a small one, and 15/16 of a large one", () => {
    expect(fill(new FairShare(), "one", 12)).toBe(12)
    expect(fill(new FairShare(), "one", 10_000)).toBe(9_375)
  })

  test("whoever comes after an account that takes all it can still gets a part", () => {
    const share = new FairShare()
    fill(share, "greedy", 10_000)
    expect(fill(share, "second", 10_000)).toBeGreaterThan(500)
    expect(fill(share, "third", 10_000)).toBeGreaterThan(30)
  })

  test("what was given back is there for others", () => {
    const share = new FairShare()
    const got = fill(share, "one", 10)
    share.release("one", got)
    expect([share.used, fill(share, "two", 10)]).toEqual([0, 10])
  })

  test("what cannot be refused goes beyond the capacity, and others wait for it", () => {
    const share = new FairShare()
    share.add("one", 20)
    expect([share.used, share.acquire("two", 1, 10)]).toEqual([20, false])
  })

  test("never more than the capacity is taken, and nothing is lost", () => {
    const step = fc.record({
      account: fc.constantFrom("a", "b", "c"),
      amount: fc.nat(30),
      gives: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const share = new FairShare()
        const held: { account: string; amount: number }[] = []
        for (const { account, amount, gives } of steps) {
          const last = gives ? held.pop() : undefined
          if (last !== undefined) share.release(last.account, last.amount)
          else if (share.acquire(account, amount, 100)) held.push({ account, amount })
          expect(share.used).toBe(held.reduce((sum, one) => sum + one.amount, 0))
          expect(share.used).toBeLessThanOrEqual(100)
        }
      }),
    )
  })
})
