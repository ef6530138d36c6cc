import { describe, expect, test } from "bun:test"
import { Line } from "../../src/workers/line.ts"

/** Two ends that hand each other what the channel would. */
function lines(answer: (asked: unknown) => Promise<string>): { here: Line; there: Line } {
  const here: Line = new Line({ send: (message) => there.take(message), answer: async () => "here" })
  const there: Line = new Line({ send: (message) => here.take(message), answer })
  return { here, there }
}

describe("a line between two processes", () => {
  test("each asks the other, and every answer finds its question", async () => {
    const { here, there } = lines(async (asked) => {
      await Bun.sleep(asked !== null && typeof asked === "object" && "slow" in asked ? 5 : 0)
      return JSON.stringify(asked)
    })
    const [slow, fast, back] = await Promise.all([here.ask({ slow: 1 }), here.ask({ n: 2 }), there.ask({})])
    expect([slow, fast, back]).toEqual(['{"slow":1}', '{"n":2}', "here"])
  })

  test("what the other end throws is the failure of the question", async () => {
    const { here } = lines(() => Promise.reject(new Error("no port")))
    await expect(here.ask({})).rejects.toThrow(new Error("no port"))
  })

  test("an answer that does not come in time, or not any more, is no answer", async () => {
    const { here } = lines(() => new Promise(() => {}))
    await expect(here.ask({}, 5)).rejects.toThrow("does not respond")
    const asked = here.ask({})
    here.lose(new Error("gone"))
    await expect(asked).rejects.toThrow(new Error("gone"))
    await expect(here.ask({})).rejects.toThrow(new Error("gone"))
  })

  test("a message that none of the processes sends is a broken invariant", () => {
    const { here } = lines(async () => "")
    expect(() => here.take({ number: "1" })).toThrow("has a form that none of them sends")
  })
})
