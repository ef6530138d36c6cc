import { afterAll, describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { CHAT, endSound, MESSAGES, startGateway } from "../support/gateway.ts"
import { aMessage } from "../support/messages.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { thrown } from "../support/thrown.ts"
import { accountIn, twoShards } from "../support/two-shards.ts"

/** D99: a gateway on two shards. */

const { shards, drop } = await twoShards()
const provider = await startProvider()
const gateway = await startGateway(provider, {}, null, shards)
afterAll(async () => {
  await endSound(gateway, provider)
  await drop()
})

/** A key whose account may use so much per minute. */
async function limited(limits: Readonly<Record<string, string>>, shard = "a") {
  const id = await accountIn(gateway, shard)
  const { key } = await gateway.admin<{ key: string }>("POST", `/accounts/${id}/keys`, {})
  for (const [unit, amount] of Object.entries(limits))
    await gateway.admin("POST", `/accounts/${id}/budgets`, {
      name: `Per minute`,
      selector: "all",
      unit,
      amount,
      per: "minute",
    })
  return { id, key }
}

/** What a call of the tests can use: its prompt in bytes, and its output. */
async function bound(key: string, max_tokens: number): Promise<number> {
  const answer = await postJson(`${gateway.url}/v1/quote`, key, chatBody({ max_tokens }))
  const { prompt_tokens }: { prompt_tokens: number } = JSON.parse(await answer.text())
  return prompt_tokens + max_tokens
}

describe("D99 the OpenAI SDK", () => {
  test("reads what is left, waits as long as it is told, and then gets through", async () => {
    const { key } = await limited({ tokens: "2000", requests: "500" })
    const needed = await bound(key, 1_000)
    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })
    const ask = (max_tokens: number, maxRetries = 0) =>
      client.chat.completions.create(chatBody({ max_tokens }), { maxRetries }).withResponse()
    provider.reply(json(200, chatCompletion("hi", { usage: usage(300, 700) })))
    const { response } = await ask(1_000)
    const read = (name: string) => response.headers.get(`x-ratelimit-${name}`)
    expect([read("limit-tokens"), read("remaining-tokens")]).toEqual(["2000", String(2_000 - needed)])
    expect([read("limit-requests"), read("remaining-requests")]).toEqual(["500", "499"])
    expect(read("reset-tokens")).toMatch(/^\d\ds$/)
    expect(read("reset-requests")).toMatch(/^[1-4]s$/)
    // It used 1,000 tokens, and gave the rest of its hold back.
    await ask(900)
    const refused = await thrown(ask(900))
    if (!(refused instanceof OpenAI.RateLimitError)) throw new Error("it was not refused")
    const wait_s = Number(refused.headers.get("retry-after"))
    expect([refused.status, refused.code, refused.type]).toEqual([429, "rate_limited", "rate_limit_error"])
    expect(wait_s).toBeGreaterThan(0)
    expect(wait_s).toBeLessThan(60)
    expect(refused.headers.get("x-ratelimit-limit-tokens")).toBe("2000")
    expect(refused.error).toMatchObject({
      budget: { name: "Per minute", selector: "all", unit: "tokens", per: "minute" },
      limit: "2000",
      resets_at: null,
      retryable: true,
    })
    expect(refused.message).toContain(`Retry after ${wait_s} s`)
    const short = await limited({ tokens: "1200" })
    const waiting = new OpenAI({ apiKey: short.key, baseURL: `${gateway.url}/v1`, maxRetries: 3 })
    const body = { model: CHAT, messages: [{ role: "user" as const, content: "hello" }] }
    await waiting.chat.completions.create({ ...body, max_tokens: 1_000 })
    expect((await waiting.chat.completions.create({ ...body, max_tokens: 190 })).choices).toHaveLength(1)
  })

  test("does not repeat a call that is larger than the whole limit", async () => {
    const { key } = await limited({ tokens: "100" }, "b")
    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 2 })
    const sent = provider.requests.length
    const refused = await thrown(client.chat.completions.create(chatBody({ max_tokens: 500 })))
    if (!(refused instanceof OpenAI.APIError)) throw new Error("it was not refused")
    expect([refused.status, refused.code, refused.headers?.get("retry-after")]).toEqual([
      402,
      "budget_reached",
      null,
    ])
    expect(refused.message).toContain("more than the whole budget, so waiting does not help")
    expect(provider.requests.length).toBe(sent)
    expect(await refusals()).toBeGreaterThan(0)
  })
})

/** Refusals by budgets per minute that the gateway has counted. */
async function refusals(): Promise<number> {
  const text = await gateway.service.printMetrics()
  return Number(
    /tollgate_budget_refusals_total\{selector="all",unit="tokens",per="minute"\} (\d+)/.exec(text)?.[1] ?? 0,
  )
}

test("D99 the Anthropic SDK reads what is left in its own headers", async () => {
  const { key } = await limited({ tokens: "2000" })
  provider.reply(json(200, aMessage("hi")))
  const client = new Anthropic({ apiKey: key, baseURL: gateway.url, maxRetries: 0 })
  const { response } = await client.messages
    .create({ model: MESSAGES, messages: [{ role: "user", content: "hello" }], max_tokens: 900 })
    .withResponse()
  const read = (name: string) => response.headers.get(`anthropic-ratelimit-tokens-${name}`)
  expect(read("limit")).toBe("2000")
  expect(Number(read("remaining"))).toBeLessThan(1_100)
  expect(new Date(read("reset") ?? "").getTime()).toBeGreaterThan(Date.now())
})
