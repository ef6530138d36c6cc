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

const ERROR = { type: "error", request_id: expect.any(String) }

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

  test("without usage it is an estimate of the input: 80 bytes of text are 20 tokens", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, embeddingList(1, { usage: undefined })))
    const answer = await embed(key, { input: "x".repeat(78) })
    expect(answer.status).toBe(200)
    expect(await gateway.receipt(answer, key)).toMatchObject({
      basis: "estimate",
      failure: "usage_missing",
      charge: "0.00002",
      usage: { prompt_tokens: 20, completion_tokens: 0 },
    })
  })

  test("tokens are held and estimated by their count", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, embeddingList(1, { usage: null })))
    const receipt = await gateway.receipt(await embed(key, { input: [[100_000, 100_001], [7]] }), key)
    expect(receipt).toMatchObject({ held: "0.000003", charge: "0.000003", usage: { prompt_tokens: 3 } })
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

  test.each<[string, object | string, number, string, string]>([
    ["an error object", { error: { message: "no" } }, 502, "upstream_error", "upstream_error"],
  ])("rule 3 %s is free", async (_, body, status, code, failure) => {
    const { key, id } = await gateway.account("1")
    provider.replyOnce(json(200, body))
    const answer = await embed(key)
    expect([answer.status, await answer.json()]).toMatchObject([status, { ...ERROR, error: { code } }])
    expect(await gateway.calls(`?account=${id}`)).toMatchObject([{ state: "released", charge: "0", failure }])
  })

  test("D5 an answer over the limit is charged by its usage, and not delivered", async () => {
    const { key } = await gateway.account("1")
    const embedding = Array.from({ length: 20_000 }, (_, at) => at / 7)
    provider.replyOnce(json(200, { data: [{ embedding }], usage: { prompt_tokens: 4, total_tokens: 4 } }))
    const answer = await embed(key)
    expect([answer.status, await answer.json()]).toMatchObject([
      502,
      { error: { code: "response_too_large" } },
    ])
    expect(await gateway.receipt(answer, key)).toMatchObject({
      charge: "0.000004",
      basis: "usage",
      notes: ["response_too_large"],
    })
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

  test.each(["provider", "speed", "inference_geo"])("D61 %s is a 400", async (param) => {
    const { key } = await gateway.account("1")
    const answer = await embed(key, { [param]: "fast" })
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { param } }])
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

  test("D53 D54 log and metrics name it", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, embeddingList(1)))
    const id = (await embed(key)).headers.get("x-request-id")
    const line = gateway.lines.find((one) => one.includes(`"request_id":"${id}"`))
    expect(JSON.parse(line ?? "null")).toMatchObject({ operation: "embeddings", model: EMBEDDING })
    const metrics = await gateway.metrics()
    expect(metrics).toMatch(
      /tollgate_calls_settled_total\{model="embedding-model",operation="embeddings",basis="usage"\} \d/,
    )
    expect(metrics).toMatch(
      /gen_ai_client_operation_duration_seconds_count\{gen_ai_operation_name="embeddings",.*gen_ai_request_model="embedding-model"\} \d/,
    )
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
    expect(await quoted(key, body)).toEqual({
      model: EMBEDDING,
      operation: "embeddings",
      amount: "0.000007",
      admitted: true,
      refusal: null,
      available: "0.00001",
      remaining: null,
      budgets: [],
      prompt_tokens: 7,
      max_tokens: 0,
      n: 1,
      largest_max_tokens: null,
      prices: { input: "1", cached_input: "1", output: "0", per_call: "0" },
      tiers: [],
      service_tiers: [],
    })
    expect(await quoted(key, { ...body, input: "hello world" })).toMatchObject({
      admitted: false,
      refusal: "insufficient_balance",
    })
  })

  test.each<[string, object, number, object]>([
    ["an operation that nobody sells", { operation: "images", model: CHAT }, 400, { param: "operation" }],
    [
      "a body of another operation",
      { operation: "embeddings", model: CHAT, messages: [] },
      400,
      { param: "input" },
    ],
    [
      "a model that does not offer it",
      { operation: "embeddings", model: TALKER, input: "x" },
      403,
      { code: "model_not_allowed" },
    ],
  ])("of %s is refused", async (_, body, status, error) => {
    const { key } = await gateway.account("1")
    const answer = await post("/v1/quote", key, body)
    expect([answer.status, await answer.json()]).toMatchObject([status, { error }])
  })
})
