import { describe, expect, test } from "bun:test"
import type { QuoteBody } from "../../src/wire/quote.ts"
import { CHAT, chat, MESSAGES, PRICE, PROVIDER_KEY } from "../support/gateway.ts"
import { chatCompletion, embeddingList, HELLO, json } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D67: embeddings, from the provider's bytes to the receipt. D63: everything else is the same as for chat. */

const EMBEDDING = "embedding-model"
const TALKER = "talking-model"
const upstreams = [{ use: "first", model: "upstream-embedding" }]

const { provider, gateway } = await testGateway({
  models: [
    { name: EMBEDDING, family: "chat", operations: ["embeddings"], upstreams, price: { input: "1.00" } },
    { name: TALKER, family: "chat", operations: ["chat"], upstreams, price: PRICE, max_output_tokens: 10 },
    { name: CHAT, family: "chat", upstreams, price: PRICE, max_output_tokens: 1000 },
    {
      name: MESSAGES,
      family: "messages",
      upstreams: [{ use: "counter" }],
      price: PRICE,
      max_output_tokens: 10,
    },
  ],
  limits: { response: "64KiB" },
  idempotency: { keep_answers: "1h" },
})

function post(path: string, key: string, body: object, headers: Record<string, string> = {}) {
  return postJson(`${gateway.url}${path}`, key, body, headers)
}

const embed = (key: string, fields: object = {}, headers: Record<string, string> = {}) =>
  post("/v1/embeddings", key, { model: EMBEDDING, input: "hello", ...fields }, headers)

describe("D67 a call", () => {
  test.each(["/v1/embeddings", "/embeddings"])("%s: bytes pass, input is charged", async (path) => {
    const { key } = await gateway.account("1")
    const text = `{"usage" : {"prompt_tokens":3, "total_tokens":3}, "data":[{"embedding":[1e-9,0.50]}]}`
    provider.replyOnce(json(200, text))
    const body = {
      model: EMBEDDING,
      input: ["a", "b"],
      dimensions: 2,
      encoding_format: "float",
      later: { x: 1 },
    }
    const answer = await post(path, key, body)
    expect([answer.status, await answer.text()]).toEqual([200, text])
    const sent = provider.requests.at(-1)
    expect(sent?.path).toBe("/v1/embeddings")
    expect(sent?.headers.authorization).toBe(`Bearer ${PROVIDER_KEY}`)
    expect(sent?.json).toEqual({ ...body, model: "upstream-embedding" })
    expect(await gateway.receipt(answer, key)).toMatchObject({
      model: EMBEDDING,
      operation: "embeddings",
      stream: false,
      state: "settled",
      basis: "usage",
      failure: null,
      held: "0.000016",
      charge: "0.000003",
      usage: { prompt_tokens: 3, cached_tokens: 0, completion_tokens: 0 },
      lines: [{ kind: "input", count: 3, price: "1", cost: "0.000003" }],
      ttft_ms: null,
    })
  })

  test("D49 tells its cost to a client that asks, and asks the provider for nothing", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, embeddingList(1)))
    const answer = await embed(key, { usage: { include: true } })
    expect(await answer.json()).toMatchObject({
      usage: { prompt_tokens: 9, total_tokens: 9, cost: 0.000009 },
    })
    expect(provider.requests.at(-1)?.json).not.toHaveProperty("usage")
  })

  test("D43 a key of one operation is not that of another, with the same body too", async () => {
    const { id, key } = await gateway.account("1")
    const once = { "idempotency-key": "once-1" }
    const body = { model: CHAT, input: "hello", messages: [{ role: "user", content: "hello" }] }
    provider.replyOnce(HELLO)
    const first = await post("/v1/chat/completions", key, body, once)
    expect(first.status).toBe(200)
    const charged = await gateway.balance(id)
    const answers = await Promise.all(
      ["/v1/embeddings", "/v1/responses", "/v1/chat/completions"].map((path) => post(path, key, body, once)),
    )
    const [as_embedding, as_response, same] = answers
    for (const other of [as_embedding, as_response]) {
      expect([other?.status, await other?.json()]).toMatchObject([
        400,
        { error: { code: "idempotency_key_reused", call: first.headers.get("x-request-id") } },
      ])
    }
    expect(same?.headers.get("idempotent-replayed")).toBe("true")
    expect(await gateway.balance(id)).toEqual(charged)
  })
  test("D12 what the balance does not cover is a 402 that names no max_tokens", async () => {
    const { key } = await gateway.account("0.000001")
    const answer = await embed(key, { input: "hello" })
    const { error } = (await answer.json()) as { error: Record<string, unknown> }
    expect([answer.status, error.code, error.needed]).toEqual([402, "insufficient_balance", "0.000007"])
    expect(error).not.toHaveProperty("max_tokens")
  })

  test("D18 a body at fault reaches no provider", async () => {
    const { key } = await gateway.account("1")
    const seen = provider.requests.length
    const answer = await embed(key, { stream: true })
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { param: "stream" } }])
    expect(provider.requests.length).toBe(seen)
  })
})

describe("D63 a model offers operations", () => {
  test("other ones are refused, with the paths that work", async () => {
    const { key } = await gateway.account("1")
    const messageOf = async (answer: Response) => {
      const { error } = (await answer.json()) as { error: { code: string; message: string } }
      return [answer.status, error.code, error.message]
    }
    expect(await messageOf(await chat(gateway, key, { model: EMBEDDING }))).toEqual([
      403,
      "model_not_allowed",
      "This model does not support chat. Call it with POST /v1/embeddings.",
    ])
    expect(await messageOf(await embed(key, { model: TALKER }))).toEqual([
      403,
      "model_not_allowed",
      "This model does not support embeddings. Call it with POST /v1/chat/completions.",
    ])
    expect(await messageOf(await embed(key, { model: MESSAGES }))).toContain("model_not_allowed")
    expect(await messageOf(await embed(key, { model: "nobody" }))).toContain("model_not_found")
  })

  test("one that offers both is sold for both, each with terms of its own", async () => {
    const { key, id } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hi")), json(200, embeddingList(1)))
    await chat(gateway, key)
    await embed(key, { model: CHAT })
    const calls = await gateway.calls(`?account=${id}`)
    expect(calls.map(({ operation, charge }) => [operation, charge])).toEqual([
      ["embeddings", "0.000009"],
      ["chat", "0.000057"],
    ])
    expect(await gateway.calls(`?account=${id}&operation=embeddings`)).toMatchObject([
      { operation: "embeddings" },
    ])
    const usage = await gateway.admin<{ data: readonly object[] }>("GET", `/usage?account=${id}&by=operation`)
    expect(usage.data).toMatchObject([
      { group: "chat", calls: 1, charge: "0.000057" },
      { group: "embeddings", calls: 1, charge: "0.000009" },
    ])
  })

  test("D23 the list of models says which", async () => {
    const { key } = await gateway.account("1")
    expect(await gateway.own("/v1/models", key)).toMatchObject({
      data: [
        { id: EMBEDDING, operations: ["embeddings"] },
        { id: TALKER, operations: ["chat"] },
        { id: CHAT, operations: expect.arrayContaining(["chat", "embeddings"]) },
      ],
    })
  })
})

describe("D47 a quote", () => {
  const quoted = async (key: string, body: object): Promise<QuoteBody> => {
    const answer = await post("/v1/quote", key, body)
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(text)
    return JSON.parse(text)
  }

  test("of embeddings: what they would hold, and no output", async () => {
    const { key } = await gateway.account("0.00001")
    const body = { operation: "embeddings", model: EMBEDDING, input: "hello" }
    expect(await quoted(key, body)).toMatchObject({
      ...{ operation: "embeddings", amount: "0.000007", admitted: true, prompt_tokens: 7, max_tokens: 0 },
      largest_max_tokens: null,
      prices: { input: "1", cached_input: "1", output: "0", per_call: "0" },
    })
    expect(await quoted(key, { ...body, input: "hello world" })).toMatchObject({
      admitted: false,
      refusal: "insufficient_balance",
    })
  })

  test.each<[string, object, number, object]>([
    ["an operation that nobody sells", { operation: "images", model: CHAT }, 400, { param: "operation" }],
  ])("of %s is refused", async (_, body, status, error) => {
    const { key } = await gateway.account("1")
    const answer = await post("/v1/quote", key, body)
    expect([answer.status, await answer.json()]).toMatchObject([status, { error }])
  })
})
