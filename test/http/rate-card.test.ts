import { describe, expect, test } from "bun:test"
import type { QuoteBody } from "../../src/wire/quote.ts"
import { CHAT, chat, chatModel, PRICE } from "../support/gateway.ts"
import { chatCompletion, json } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D60: every kind of token at its own price, from the provider's bytes to the receipt. */

const CARD = "card-model"
const SERVED = "served-model"
const model = (name: string, price: object) =>
  chatModel(name, { price, ...(name === CARD && { context_tokens: 1000 }) })

const { provider, gateway } = await testGateway({
  models: [
    model(CHAT, PRICE),
    model(SERVED, {
      ...PRICE,
      service_tiers: {
        flex: { input: "0.50", cached_input: "0.05", output: "2.00" },
        priority: {
          input: "2.00",
          cached_input: "0.20",
          output: "8.00",
          tiers: [{ above: 100, input: "3.00", cached_input: "0.30", output: "9.00" }],
        },
      },
    }),
    model(CARD, {
      ...PRICE,
      cache_write: "1.25",
      cache_write_1h: "2.00",
      reasoning: "3.00",
      audio_input: "16.00",
      audio_output: "64.00",
      image_input: "2.50",
      web_search: "0.01",
      tool_run: { x_search: "0.005" },
    }),
  ],
})

const USAGE = {
  prompt_tokens: 100,
  completion_tokens: 50,
  total_tokens: 150,
  prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 40, audio_tokens: 5 },
  completion_tokens_details: { reasoning_tokens: 20, audio_tokens: 1 },
  server_tool_use: { web_search_requests: 2 },
  server_side_tool_usage_details: { x_search_calls: 2 },
}
const LINES = [
  { kind: "input", count: 45, price: "1", cost: "0.000045" },
  { kind: "cached_input", count: 10, price: "0.1", cost: "0.000001" },
  { kind: "output", count: 29, price: "4", cost: "0.000116" },
  { kind: "cache_write", count: 40, price: "1.25", cost: "0.00005" },
  { kind: "reasoning", count: 20, price: "3", cost: "0.00006" },
  { kind: "audio_input", count: 5, price: "16", cost: "0.00008" },
  { kind: "audio_output", count: 1, price: "64", cost: "0.000064" },
  { kind: "web_search", count: 2, price: "0.01", cost: "0.02" },
  { kind: "tool_run", tool: "x_search", count: 2, price: "0.005", cost: "0.01" },
]
const CHARGE = "0.030416"

async function quoted(key: string, fields: object): Promise<QuoteBody> {
  const body = chatBody({ max_tokens: 10, ...fields })
  return JSON.parse(await (await postJson(`${gateway.url}/v1/quote`, key, body)).text())
}

describe("D60 a call with every kind of token", () => {
  test("as a JSON answer: the receipt, the cost in the answer and the balance are one sum", async () => {
    const { key, id: account_id } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hello", { usage: USAGE })))
    const answer = await chat(gateway, key, { model: CARD, usage: { include: true }, web_search_options: {} })
    const body = await answer.text()
    expect(JSON.parse(body)).toMatchObject({ usage: { cost: Number(CHARGE) } })
    const shown = await gateway.receipt(answer, key)
    expect(shown).toMatchObject({
      basis: "usage",
      failure: null,
      notes: [],
      charge: CHARGE,
      usage: { prompt_tokens: 100, cached_tokens: 10, completion_tokens: 50 },
      prices: {
        input: "1",
        reasoning: "3",
        image_input: "2.5",
        web_search: "0.01",
        tool_run: { x_search: "0.005" },
      },
    })
    expect(shown.lines).toEqual(LINES)
    expect(await gateway.callOf(answer)).toMatchObject({ lines: LINES })
    expect(await gateway.balance(account_id)).toMatchObject({ balance: "0.969584" })
  })
})

test("D60 what has no price is charged as plain tokens, noted, and logged as a warning", async () => {
  const { key } = await gateway.account("1")
  provider.replyOnce(json(200, chatCompletion("hello", { usage: USAGE })))
  const answer = await chat(gateway, key)
  const shown = await gateway.receipt(answer, key)
  expect(shown).toMatchObject({
    // 90 + 1 + 200
    charge: "0.000291",
    notes: ["unpriced"],
    prices: { input: "1", cached_input: "0.1", output: "4", per_call: "0" },
  })
  const warned = gateway.lines.filter((line) => line.includes(shown.id) && line.includes("without a price"))
  expect(warned.map((line) => JSON.parse(line))).toMatchObject([{ model: CHAT, upstream: "first" }])
})

test("D60 a quote shows the prices, and holds searches only for a call that asks for one", async () => {
  const { key } = await gateway.account("1")
  const quote = (fields: object) => quoted(key, { model: CARD, ...fields })
  const plain = await quote({})
  // 35 bytes at the price of a write for an hour, 10 tokens at the price of output.
  expect(plain).toMatchObject({ amount: "0.00011", prices: { cache_write_1h: "2", web_search: "0.01" } })
  // D89: ten searches, and a context of what costs most, which is sound.
  expect((await quote({ web_search_options: {} })).amount).toBe("0.11604")
})

describe("D61 what has no price", () => {
  test.each([
    ["service_tier", { service_tier: "flex" }],
    ["tools", { tools: [{ type: "web_search_preview" }] }],
  ])("is refused before anything is held or sent: %s", async (param, fields) => {
    const { key, id } = await gateway.account("1")
    const sent = provider.requests.length
    const answer = await chat(gateway, key, fields)
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { error: { code: "invalid_request", param, missing: expect.any(String) } },
    ])
    expect(await quoted(key, fields)).toMatchObject({ error: { param } })
    expect(provider.requests.length).toBe(sent)
    expect(await gateway.balance(id)).toMatchObject({ balance: "1", held: "0" })
  })

  test("D30 comes after the faults of the key and the model", async () => {
    const fields = { service_tier: "flex" }
    expect((await chat(gateway, "tg_unknown", fields)).status).toBe(401)
    const { key } = await gateway.account("1")
    expect((await chat(gateway, key, { ...fields, model: "unknown" })).status).toBe(404)
    expect((await chat(gateway, key, fields)).status).toBe(400)
  })
})

describe("D70 a model with prices for service tiers", () => {
  const used = (prompt_tokens: number) => ({ prompt_tokens, completion_tokens: 50 })
  const flex = { input: "0.5", output: "2", service_tier: "flex" }
  const priority = { input: "2", output: "8", service_tier: "priority" }

  test.each([
    ["priority", "priority", 101, "0.000753", { ...priority, input: "3", output: "9", above_tokens: 100 }],
    ["priority", "default", 101, "0.000301", { input: "1", output: "4" }],
    ["flex", undefined, 100, "0.0003", { input: "1", output: "4" }],
  ] as const)("asked for %p and served %p", async (asked, served, tokens, charge, prices) => {
    const { key } = await gateway.account("1")
    const fields = { model: SERVED, ...(asked && { service_tier: asked }) }
    const said = served && { service_tier: served }
    provider.replyOnce(json(200, { ...chatCompletion("hello", { usage: used(tokens) }), ...said }))
    const answer = await chat(gateway, key, fields)
    const shown = await gateway.receipt(answer, key)
    expect(shown).toMatchObject({ charge, prices, notes: [], overage: "0" })
    expect(shown.prices.service_tier).toBe("service_tier" in prices ? prices.service_tier : undefined)
    expect(provider.requests.at(-1)?.json).toMatchObject(asked ? { service_tier: asked } : {})
  })

  test.each([[SERVED, "priority", "turbo", "0.0006"]])(
    "a tier of %s without a price is noted and warned about",
    async (model, asked, served, charge) => {
      const { key } = await gateway.account("1")
      const completion = chatCompletion("hello", { usage: used(100) })
      provider.replyOnce(json(200, { ...completion, service_tier: served }))
      const answer = await chat(gateway, key, { model, ...(asked && { service_tier: asked }) })
      const shown = await gateway.receipt(answer, key)
      expect(shown).toMatchObject({ charge, notes: ["unpriced"] })
      expect(
        gateway.lines.filter((line) => line.includes(shown.id) && line.includes("without a price")),
      ).toHaveLength(1)
    },
  )

  test("a quote shows them, and holds the dearest that the call can reach", async () => {
    const { key } = await gateway.account("1")
    const quote = (fields: object) => quoted(key, { model: SERVED, ...fields })
    const { amount, service_tiers } = await quote({ service_tier: "auto" })
    expect(amount).toBe("0.00015")
    expect(service_tiers).toMatchObject([
      flex,
      priority,
      { ...priority, input: "3", output: "9", above_tokens: 100 },
    ])
    expect((await quote({})).amount).toBe("0.00015")
    expect((await quote({ service_tier: "flex" })).amount).toBe("0.000075")
    expect((await quote({ service_tier: "default" })).amount).toBe("0.000075")
  })
})
