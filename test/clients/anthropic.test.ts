import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import { CHAT, MESSAGES, startGateway, type TestGateway } from "../support/gateway.ts"
import { json, type Provider, type Script, startProvider } from "../support/provider.ts"
import { failureOf } from "./failure.ts"

/** The client of Anthropic, as it comes, in front of a gateway. */

let provider: Provider
let gateway: TestGateway

beforeAll(async () => {
  provider = await startProvider()
  gateway = await startGateway(provider)
})
afterAll(async () => {
  expect(await gateway.audit()).toMatchObject({ open_reservations: 0, violations: [] })
  expect(await gateway.calls()).toEqual([])
  await gateway.stop()
  await provider.stop()
})

const ASK = { model: MESSAGES, messages: [{ role: "user" as const, content: "hello" }] }
const counted = (input_tokens: number) => json(200, { input_tokens })

describe("D22 counting", () => {
  test("with the client's own credential, a bearer token (D20)", async () => {
    const { id, key } = await gateway.account("1")
    const client = new Anthropic({ apiKey: key, baseURL: gateway.url })
    provider.replyOnce(counted(12))
    const { data, request_id } = await client.messages
      .countTokens({ ...ASK, system: "be brief" })
      .withResponse()
    expect(data).toEqual({ input_tokens: 12 })
    expect(Reflect.get(data, "_request_id")).toBe(request_id)
    expect(request_id).toMatch(/^[0-9a-f-]{36}$/)
    const request = provider.requests.at(-1)
    expect(request?.headers).toMatchObject({
      "anthropic-version": "2026-10-21",
      "x-request-id": request_id ?? "",
    })
    expect(request?.json).toEqual({ ...ASK, model: "upstream-counter", system: "be brief" })
    expect(JSON.stringify(request)).not.toContain(key)
    expect(await gateway.balance(id)).toMatchObject({ balance: "1", held: "0" })
  })

  test("with x-api-key, as older clients send it", async () => {
    const { key } = await gateway.account("1")
    const client = new Anthropic({
      apiKey: "unused",
      baseURL: gateway.url,
      defaultHeaders: { "x-api-key": key, authorization: null },
    })
    provider.replyOnce(counted(13))
    expect(await client.messages.countTokens(ASK)).toMatchObject({ input_tokens: 13 })
    expect(provider.requests.at(-1)?.path).toBe("/v1/messages/count_tokens")
  })

  test("on the vendor's path", async () => {
    const { key } = await gateway.account("1")
    const client = new Anthropic({ apiKey: key, baseURL: `${gateway.url}/anthropic` })
    provider.replyOnce(counted(14))
    expect(await client.messages.countTokens(ASK)).toMatchObject({ input_tokens: 14 })
  })

  test("by its beta, whose header is forwarded", async () => {
    const { key } = await gateway.account("1")
    const client = new Anthropic({ apiKey: key, baseURL: gateway.url })
    provider.replyOnce(counted(15))
    const answer = await client.beta.messages.countTokens({
      ...ASK,
      betas: ["context-management-2025-06-27"],
    })
    expect(answer).toMatchObject({ input_tokens: 15 })
    const { "anthropic-beta": beta } = provider.requests.at(-1)?.headers ?? {}
    expect(beta).toContain("context-management-2025-06-27")
    expect(beta).toContain("token-counting")
  })
})

test("D23 the pager of models lists the messages-style models", async () => {
  const { key } = await gateway.account("0")
  const client = new Anthropic({ apiKey: key, baseURL: gateway.url })
  const models = await Array.fromAsync(client.models.list())
  expect(models).toMatchObject([{ id: MESSAGES, type: "model", display_name: MESSAGES }])
})

describe("D15 D16 an error has its class, its type and its request id", () => {
  interface Row {
    readonly name: string
    readonly usd?: string
    readonly key?: string
    readonly ask?: object
    readonly script?: Script
    readonly status: number
    readonly type: string
    readonly kind: new (...parts: never[]) => Error
    /** How many requests the provider saw in all. */
    readonly requests: number
  }
  const rows: readonly Row[] = [
    {
      name: "a wrong key",
      key: "tg_live_wrong",
      status: 401,
      type: "authentication_error",
      kind: Anthropic.AuthenticationError,
      requests: 0,
    },
    {
      name: "no balance",
      usd: "0",
      status: 402,
      type: "billing_error",
      kind: Anthropic.PaymentRequiredError,
      requests: 0,
    },
    {
      name: "a model that is not open for this entry",
      ask: { model: CHAT },
      status: 403,
      type: "permission_error",
      kind: Anthropic.PermissionDeniedError,
      requests: 0,
    },
    {
      name: "an unknown model",
      ask: { model: "nobody" },
      status: 404,
      type: "not_found_error",
      kind: Anthropic.NotFoundError,
      requests: 0,
    },
    {
      name: "a provider with too much to do, tried again",
      script: json(429, {}, { "retry-after": "0" }),
      status: 429,
      type: "rate_limit_error",
      kind: Anthropic.RateLimitError,
      requests: 3,
    },
    {
      name: "an answer that is no count, tried again",
      script: json(200, {}),
      status: 502,
      type: "api_error",
      kind: Anthropic.InternalServerError,
      requests: 3,
    },
  ]
  for (const { name, usd = "1", key, ask, script, status, type, kind, requests } of rows) {
    test(`${name}: ${status} ${type}`, async () => {
      const account = await gateway.account(usd)
      const client = new Anthropic({ apiKey: key ?? account.key, baseURL: gateway.url })
      const before = provider.requests.length
      if (script !== undefined) provider.reply(script)
      const error = await failureOf(client.messages.countTokens({ ...ASK, ...ask }))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, type })
      expect(provider.requests.length - before).toBe(requests)
      if (requests > 0 && error instanceof Anthropic.APIError) {
        expect(provider.requests.at(-1)?.headers["x-request-id"]).toBe(error.requestID ?? "none")
      }
    })
  }

  test("503 is tried again", async () => {
    const { key } = await gateway.account()
    const client = new Anthropic({ apiKey: key, baseURL: gateway.url })
    provider.replyOnce(json(529, {}), counted(16))
    expect(await client.messages.countTokens(ASK)).toMatchObject({ input_tokens: 16 })
  })

  test("D33 what is not offered yet says so", async () => {
    const { key } = await gateway.account()
    const client = new Anthropic({ apiKey: key, baseURL: gateway.url })
    const error = await failureOf(client.messages.create({ ...ASK, max_tokens: 10 }))
    expect(error).toBeInstanceOf(Anthropic.NotFoundError)
    expect(error).toMatchObject({ message: expect.stringContaining("not offered yet") })
  })
})
