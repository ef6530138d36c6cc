import { describe, expect, test } from "bun:test"
import { type Channel, openChannel } from "../../src/workers/channel.ts"
import { thrown } from "../support/thrown.ts"

/** Two ends that hand each other what the other sent. */
function channels(answer: (asked: unknown) => Promise<string>): { here: Channel; there: Channel } {
  const here: Channel = openChannel({ send: (message) => there.receive(message), answer: async () => "here" })
  const there: Channel = openChannel({ send: (message) => here.receive(message), answer })
  return { here, there }
}

describe("a channel between two processes", () => {
  test("each asks the other, and every answer finds its question", async () => {
    const { here, there } = channels(async (asked) => {
      await Bun.sleep(asked !== null && typeof asked === "object" && "slow" in asked ? 5 : 0)
      return JSON.stringify(asked)
    })
    const [slow, fast, back] = await Promise.all([here.ask({ slow: 1 }), here.ask({ n: 2 }), there.ask({})])
    expect([slow, fast, back]).toEqual(['{"slow":1}', '{"n":2}', "here"])
  })

  test("a long answer comes in parts, and a short one between them", async () => {
    const long = "€x".repeat(400_000)
    const { here } = channels(async (asked) => (Bun.deepEquals(asked, { is_long: true }) ? long : ""))
    const ended: string[] = []
    const asked = [{ is_long: true }, { is_long: false }].map(async (question) => {
      const answer = await here.ask(question)
      ended.push(answer === long ? "long" : answer)
    })
    await Promise.all(asked)
    expect(ended).toEqual(["", "long"])
  })

  test("what the other end throws is the failure of the question", async () => {
    const { here } = channels(() => Promise.reject(new Error("no port")))
    expect(await thrown(here.ask({}))).toEqual(new Error("no port"))
  })

  test("an answer that does not come in time, or not any more, is no answer", async () => {
    const { here } = channels(() => new Promise(() => {}))
    expect(String(await thrown(here.ask({}, 5)))).toContain("does not respond")
    const asked = here.ask({})
    here.disconnect(new Error("gone"))
    expect(await thrown(asked)).toEqual(new Error("gone"))
    expect(await thrown(here.ask({}))).toEqual(new Error("gone"))
  })

  test("a message that none of the processes sends is a broken invariant", () => {
    const { here } = channels(async () => "")
    expect(() => here.receive({ number: "1" })).toThrow("has an unknown form")
  })
})
