import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { QuoteBody } from "../../src/wire/quote.ts"
import { CHAT, chat, chatModel, MESSAGES, PRICE } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

const { provider, gateway } = await testGateway(
  {
    models: [
      chatModel(CHAT),
      chatModel("dear", { price: { ...PRICE, per_call: "0.01" } }),
      { ...chatModel("free"), price: undefined, free: true },
      { ...chatModel(MESSAGES), family: "messages", upstreams: [{ use: "counter", model: "counting" }] },
    ],
  },
  json(200, chatCompletion("hi", { usage: usage(1, 1) })),
)

const ASK = chatBody()

async function quote(key: string, body: unknown = ASK, headers: Record<string, string> = {}) {
  const answer = await fetch(`${gateway.url}/v1/quote`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  })
  return { status: answer.status, text: await answer.text() }
}

async function quoted(key: string, body: unknown = ASK): Promise<QuoteBody> {
  const { status, text } = await quote(key, body)
  if (status !== 200) throw new Error(text)
  return JSON.parse(text)
}

describe("D47 a quote", () => {
  test("D61 of a message is refused for a beta in its headers as the call is", async () => {
    const { key } = await gateway.account("1")
    const body = { ...ASK, model: MESSAGES, max_tokens: 9, operation: "messages" }
    const betas = { "anthropic-beta": "context-1m-2025-08-07" }
    expect((await quote(key, body)).status).toBe(200)
    const { status, text } = await quote(key, body, betas)
    expect([status, JSON.parse(text).error.param]).toEqual([400, "anthropic-beta"])
    expect((await quote(key, ASK, betas)).status).toBe(200)
  })

  test("says what would be held, and holds and sends nothing", async () => {
    const { id, key } = await gateway.account("1")
    const sent = provider.requests.length
    expect(await quoted(key, { ...ASK, max_tokens: 200, n: 2 })).toEqual({
      model: CHAT,
      operation: "chat",
      amount: "0.001635",
      admitted: true,
      refusal: null,
      available: "1",
      remaining: null,
      budgets: [],
      prompt_tokens: 35,
      max_tokens: 200,
      n: 2,
      largest_max_tokens: 1000,
      prices: { input: "1", cached_input: "0.1", output: "4", per_call: "0" },
      tiers: [],
      service_tiers: [],
    })
    expect(provider.requests).toHaveLength(sent)
    expect(await gateway.balance(id)).toMatchObject({ balance: "1", held: "0" })
    expect(await gateway.calls(`?account=${id}`)).toEqual([])
  })

  test("a balance that would not do is an answer, with the largest max_tokens that would be held", async () => {
    const { key } = await gateway.account("0.002")
    const answer = await quoted(key)
    expect(answer).toMatchObject({
      admitted: false,
      refusal: "insufficient_balance",
      amount: "0.004035",
      available: "0.002",
      max_tokens: 1000,
      largest_max_tokens: 491,
    })
    expect(await quoted(key, { ...ASK, max_tokens: 491 })).toMatchObject({ admitted: true })
    expect(await quoted(key, { ...ASK, max_tokens: 492 })).toMatchObject({ admitted: false })
    const empty = await gateway.account("0")
    expect(await quoted(empty.key)).toMatchObject({ admitted: false, largest_max_tokens: null })
  })

  test("D42 a spending limit and a suspension would refuse", async () => {
    const { id, key, key_id } = await gateway.account("1")
    await gateway.admin("PATCH", `/keys/${key_id}`, { spending_limit: { amount: "0.002", per: "month" } })
    expect(await quoted(key)).toMatchObject({
      admitted: false,
      refusal: "spending_limit_reached",
      available: "1",
      remaining: "0.002",
      largest_max_tokens: 491,
    })
    await gateway.admin("PATCH", `/accounts/${id}`, { suspended: true })
    expect(await quoted(key)).toMatchObject({ admitted: false, refusal: "account_suspended" })
    await gateway.admin("PATCH", `/keys/${key_id}`, { suspended: true })
    expect(await quoted(key)).toMatchObject({ admitted: false, refusal: "key_suspended" })
  })

  test.each([
    ["invalid_request", 400, "{"],
    ["invalid_request", 400, { ...ASK, messages: [] }],
    ["invalid_request", 400, { ...ASK, max_tokens: 0 }],
    ["invalid_request", 400, { ...ASK, usage: true }],
    ["model_not_found", 404, { ...ASK, model: "nobody" }],
    ["model_not_allowed", 403, { ...ASK, model: MESSAGES }],
  ])("D30 what a call is refused with for its body is refused here too: %s", async (code, status, body) => {
    const { key } = await gateway.account("0")
    const answer = await quote(key, body)
    expect([answer.status, JSON.parse(answer.text).error.code]).toEqual([status, code])
    const called = await chat(
      gateway,
      key,
      {},
      { body: typeof body === "string" ? body : JSON.stringify(body) },
    )
    const { error } = JSON.parse(await called.text())
    expect([called.status, error]).toEqual([status, JSON.parse(answer.text).error])
  })

  test("D30 the key comes before the model, the content type before the body; a key for other models is 403", async () => {
    const { id, key, key_id } = await gateway.account("1")
    const limited = await gateway.admin<{ key: string }>("POST", `/accounts/${id}/keys`, { models: ["free"] })
    expect((await quote(limited.key)).status).toBe(403)
    expect((await quote(key, ASK, { "content-type": "text/plain" })).status).toBe(415)
    expect((await quote("tg_live_x")).status).toBe(401)
    await gateway.admin("DELETE", `/keys/${key_id}`)
    expect((await quote(key, { ...ASK, model: "nobody" })).status).toBe(401)
  })

  test("what it says is what a call then meets: the same amount is held, or refused with the same code", async () => {
    const request = fc.record(
      {
        max_tokens: fc.integer({ min: 1, max: 1500 }),
        n: fc.integer({ min: 1, max: 4 }),
        usage: fc.constant({ include: true }),
        messages: fc.array(fc.record({ role: fc.constant("user"), content: fc.string({ maxLength: 300 }) }), {
          minLength: 1,
          maxLength: 3,
        }),
        model: fc.constantFrom(CHAT, "dear", "free"),
      },
      { requiredKeys: ["messages", "model"] },
    )
    const usd = fc.constantFrom("0.0001", "0.004", "0.012", "0.02")
    await fc.assert(
      fc.asyncProperty(request, usd, fc.boolean(), async (body, usd, limited) => {
        const { key, key_id } = await gateway.account(limited ? "1" : usd)
        if (limited) {
          await gateway.admin("PATCH", `/keys/${key_id}`, { spending_limit: { amount: usd, per: "day" } })
        }
        const told = await quoted(key, body)
        const answer = await chat(gateway, key, body)
        const { error } = JSON.parse(await answer.text())
        expect([told.admitted, told.refusal]).toEqual([answer.ok, error?.code ?? null])
        if (answer.ok) expect(await gateway.callOf(answer)).toMatchObject({ held: told.amount })
        else expect([error.needed, error.max_tokens ?? null]).toEqual([told.amount, told.largest_max_tokens])
      }),
      { numRuns: 12 },
    )
  })
})
