import { describe, expect, test } from "bun:test"
import { ChatReading } from "../../src/meter/chat-reading.ts"
import { readJson } from "../../src/meter/json-reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { chat } from "../../src/operations/chat.ts"
import { servedTier } from "../../src/settlement/price.ts"
import { aModel } from "../admission/model.ts"
import { priceOf } from "../support/price.ts"

const { price } = aModel({})
const flex = { name: "flex", price, tiers: [] }
const priority = { name: "priority", price, tiers: [] }
const model = aModel({ service_tiers: [flex, priority] })
const free = aModel({ price: priceOf(0n, 0n, 0n) })

describe("D70 the price is that of the tier that was served", () => {
  test.each([
    ["nothing said, nothing asked", null, null, null, false],
    ["nothing said: what was asked for is presumed", "flex", null, flex, false],
    ["what was served, not what was asked for", "flex", "priority", priority, false],
    ["unasked", null, "priority", priority, false],
    ["the model's own, whatever it is called", "priority", "default", null, false],
    ["the model's own", "priority", "standard", null, false],
    ["one without a price: what was asked for is presumed", "priority", "turbo", priority, true],
    ["one without a price, unasked: the model's own", null, "scale", null, true],
    ["one without a price, where the own was asked for", "default", "scale", null, true],
  ] as const)("%s", (_, asked, served, tier, is_unpriced) => {
    const is_presumed = tier !== null && tier.name === asked
    expect(servedTier(model, asked, served)).toEqual({ tier, is_presumed, is_unpriced })
  })

  test("a free model has nothing to note", () => {
    expect(servedTier(free, null, "scale")).toEqual({
      tier: null,
      is_presumed: false,
      is_unpriced: false,
    })
  })
})

describe("D70 what the answer says of its tier", () => {
  const completion = (fields: object) => ({ choices: [{ index: 0, message: { content: "x" } }], ...fields })
  test.each([
    ["flex", "flex"],
    ["auto", undefined],
    ["", undefined],
    [5, undefined],
    [null, undefined],
    ["x".repeat(65), undefined],
  ])("%p in a JSON answer", (service_tier, said) => {
    const body = new TextEncoder().encode(JSON.stringify(completion({ service_tier })))
    expect(readJson(chat.json, body, "completed").service_tier).toBe(said)
  })

  const chunk = (content: string, service_tier: unknown) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }], service_tier })}\n\n`
  test("in a stream, the first that says one, whether or not its events recur", () => {
    const text = [
      chunk("a", "auto"),
      chunk("b", "auto"),
      chunk("c", "flex"),
      chunk("d", "flex"),
      chunk("e", "priority"),
      chunk("f", "flex"),
      "data: [DONE]\n\n",
    ].join("")
    const reading = new ChatReading()
    const framer = new Framer(1_000_000, reading.recurring)
    for (const event of framer.feed(new TextEncoder().encode(text))) reading.take(event)
    expect(reading.evidence("completed").service_tier).toBe("flex")
  })
})
