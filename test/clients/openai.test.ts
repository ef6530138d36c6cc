import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI from "openai"
import { CHAT, startGateway, type TestGateway, until } from "../support/gateway.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  json,
  type Provider,
  type Script,
  silent,
  sse,
  sseEvent,
  startProvider,
  usage,
} from "../support/provider.ts"
import { failureOf } from "./failure.ts"

/** The client of OpenAI, as it comes, in front of a gateway. */

/** Ample time for the gateway to see that a client has left. */
const SEEN_MS = 150

let provider: Provider
let gateway: TestGateway

beforeAll(async () => {
  provider = await startProvider()
  gateway = await startGateway(provider)
})
afterAll(async () => {
  expect(await gateway.audit()).toMatchObject({ open_reservations: 0, violations: [] })
  await gateway.stop()
  await provider.stop()
})

function clientOf(key: string): OpenAI {
  return new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })
}

/** A client with an account of its own. */
async function newClient(usd = "1") {
  const { id, key } = await gateway.account(usd)
  return { client: clientOf(key), account_id: id }
}

const ASK = { model: CHAT, messages: [{ role: "user" as const, content: "hello" }] }

describe("a call", () => {
  test("rule 1 JSON: the completion, and its request id is the call's id", async () => {
    const { client } = await newClient()
    provider.replyOnce(json(200, chatCompletion("hello there", { usage: usage(10, 5, 4) })))
    const completion = await client.chat.completions.create(ASK)
    expect(completion.choices[0]?.message).toMatchObject({ role: "assistant", content: "hello there" })
    expect(completion.usage).toMatchObject({ prompt_tokens: 10, prompt_tokens_details: { cached_tokens: 4 } })
    expect(await gateway.call(completion._request_id ?? "")).toMatchObject({
      state: "settled",
      basis: "usage",
      charge: "0.0000264",
    })
  })

  test("rule 1 a stream: its words, no usage that was not asked for, and it is charged when it has ended", async () => {
    const { client, account_id } = await newClient()
    provider.replyOnce(sse(chatWords("one", " two"), { usage: usage(10, 5) }))
    const { data: stream, request_id } = await client.chat.completions
      .create({ ...ASK, stream: true })
      .withResponse()
    let words = ""
    for await (const chunk of stream) {
      expect(chunk.choices).toHaveLength(1)
      expect(chunk.usage).toBeUndefined()
      words += chunk.choices[0]?.delta.content ?? ""
    }
    expect(words).toBe("one two")
    expect(await gateway.balance(account_id)).toMatchObject({ balance: "0.99997", held: "0" })
    expect(await gateway.call(request_id ?? "")).toMatchObject({
      basis: "usage",
      charge: "0.00003",
      stream: true,
    })
  })

  test("a stream with usage ends with it", async () => {
    const { client } = await newClient()
    provider.replyOnce(sse(chatWords("one"), { usage: usage(10, 5) }))
    const stream = await client.chat.completions.create({
      ...ASK,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = await Array.fromAsync(stream)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 5 } })
    expect(chunks.filter((chunk) => chunk.usage)).toHaveLength(1)
  })

  test("the helper of streams sees every word and the whole completion, also behind comments", async () => {
    const { client } = await newClient()
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await Bun.sleep(80)
      const [first = {}, ...rest] = chatWords("one", " two")
      await exchange.chunk(`: thinking\n\n${sseEvent(first)}`)
      await exchange.chunk(`${rest.map(sseEvent).join(": still\n\n")}data: [DONE]\n\n`)
      await exchange.end()
    })
    const stream = client.chat.completions.stream(ASK)
    const words: string[] = []
    stream.on("content", (word) => words.push(word))
    expect(await stream.finalContent()).toBe("one two")
    expect(words).toEqual(["one", " two"])
  })

  const tools = [
    {
      type: "function" as const,
      function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
    },
  ]
  const tool_calls = [
    { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } },
  ]

  test("D18 tools reach the provider unchanged, and its tool call the client", async () => {
    const { client } = await newClient()
    provider.replyOnce(
      json(
        200,
        chatCompletion("", {
          choices: [
            {
              index: 0,
              message: { role: "assistant", content: null, tool_calls },
              finish_reason: "tool_calls",
            },
          ],
        }),
      ),
    )
    const completion = await client.chat.completions.create({ ...ASK, tools, tool_choice: "auto" })
    expect(completion.choices[0]?.message.tool_calls).toMatchObject(tool_calls)
    expect(provider.requests.at(-1)?.json).toMatchObject({ tools, tool_choice: "auto" })
  })

  test("D7 rule 4 tool calls of a stream without usage are output that is estimated", async () => {
    const { client, account_id } = await newClient()
    const part = (index: number, fields: object) => chatChunk({ tool_calls: [{ index, ...fields }] })
    provider.replyOnce(
      sse([
        chatChunk({ role: "assistant", content: null }),
        part(0, { id: "call_1", type: "function", function: { name: "weather", arguments: "" } }),
        part(0, { function: { arguments: '{"city":' } }),
        part(0, { function: { arguments: '"Bern"}' } }),
        chatChunk({}, "tool_calls"),
      ]),
    )
    const stream = client.chat.completions.stream({ ...ASK, tools })
    const completion = await stream.finalChatCompletion()
    expect(completion.choices[0]?.message.tool_calls).toMatchObject(tool_calls)
    // "weather" and the arguments are 22 bytes: 5 tokens.
    expect(await gateway.calls(`?account=${account_id}`)).toMatchObject([
      { basis: "estimate", charge: "0.00002", failure: "usage_missing" },
    ])
  })
})

test("D23 the pager of models lists the chat models", async () => {
  const { client } = await newClient("0")
  const models = await Array.fromAsync(client.models.list())
  expect(models).toMatchObject([{ id: CHAT, object: "model" }])
})

describe("D15 D16 an error has its class, its code and its request id, and is tried again only where that helps", () => {
  interface Row {
    readonly name: string
    readonly usd?: string
    readonly key?: string
    readonly ask?: object
    /** What the provider answers every time. */
    readonly script?: Script
    readonly status: number
    readonly code: string
    readonly kind: new (...parts: never[]) => Error
    /** How many requests the provider saw in all. */
    readonly requests: number
  }
  const rows: readonly Row[] = [
    {
      name: "a wrong key",
      key: "tg_live_wrong",
      status: 401,
      code: "invalid_api_key",
      kind: OpenAI.AuthenticationError,
      requests: 0,
    },
    {
      name: "no balance",
      usd: "0",
      status: 402,
      code: "insufficient_balance",
      kind: OpenAI.APIError,
      requests: 0,
    },
    {
      name: "an unknown model",
      ask: { model: "nobody" },
      status: 404,
      code: "model_not_found",
      kind: OpenAI.NotFoundError,
      requests: 0,
    },
    {
      name: "a request without messages",
      ask: { messages: [] },
      status: 400,
      code: "invalid_request",
      kind: OpenAI.BadRequestError,
      requests: 0,
    },
    {
      name: "rule 3 a blank answer",
      script: json(200, " \n"),
      status: 502,
      code: "usage_missing",
      kind: OpenAI.InternalServerError,
      requests: 1,
    },
    {
      name: "rule 3 a malformed answer",
      script: json(200, "<html>"),
      status: 502,
      code: "usage_invalid",
      kind: OpenAI.InternalServerError,
      requests: 1,
    },
    {
      name: "D17 the provider's own refusal, in its words",
      script: json(400, { error: { message: "too long", code: "context_length_exceeded" } }),
      status: 400,
      code: "context_length_exceeded",
      kind: OpenAI.BadRequestError,
      requests: 1,
    },
    {
      name: "D17 a provider with too much to do",
      script: json(429, { error: { message: "slow down" } }, { "retry-after": "0" }),
      status: 429,
      code: "rate_limited",
      kind: OpenAI.RateLimitError,
      requests: 3,
    },
    {
      name: "D17 a provider that fails",
      script: json(500, {}),
      status: 502,
      code: "upstream_error",
      kind: OpenAI.InternalServerError,
      requests: 3,
    },
  ]
  for (const { name, usd, key, ask, script, status, code, kind, requests } of rows) {
    test(`${name}: ${status} ${code}, ${requests} requests`, async () => {
      const { client, account_id } = await newClient(usd)
      const before = provider.requests.length
      if (script !== undefined) provider.reply(script)
      const { completions } = (key === undefined ? client : clientOf(key)).chat
      const error = await failureOf(completions.create({ ...ASK, ...ask }))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, code })
      expect(provider.requests.length - before).toBe(requests)
      const calls = await gateway.calls(`?account=${account_id}`)
      expect(calls).toHaveLength(requests)
      for (const call of calls) expect(call).toMatchObject({ state: "released", charge: "0" })
      if (requests > 0 && error instanceof OpenAI.APIError) expect(calls[0]?.id).toBe(error.requestID ?? null)
    })
  }

  test("503 is tried again, and each try is a call of its own", async () => {
    const { client, account_id } = await newClient()
    provider.replyOnce(json(503, {}), json(200, chatCompletion("at last")))
    const completion = await client.chat.completions.create(ASK)
    expect(completion.choices[0]?.message.content).toBe("at last")
    expect(await gateway.calls(`?account=${account_id}`)).toMatchObject([
      { id: completion._request_id ?? "", state: "settled" },
      { state: "released", failure: "upstream_unavailable" },
    ])
  })
})

describe("a stream that ends otherwise", () => {
  test("rule 6 an empty one is empty, not an error, and not tried again", async () => {
    const { client, account_id } = await newClient()
    const before = provider.requests.length
    provider.replyOnce(sse([chatChunk({ role: "assistant", content: "" })]))
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    expect(await Array.fromAsync(stream)).toEqual([])
    expect(provider.requests.length - before).toBe(1)
    expect(await gateway.calls(`?account=${account_id}`)).toMatchObject([
      { state: "released", charge: "0", failure: "no_output" },
    ])
  })

  test("rule 6 the helper of streams says that there was nothing", async () => {
    const { client } = await newClient()
    const before = provider.requests.length
    provider.replyOnce(sse([]))
    await expect(client.chat.completions.stream(ASK).finalContent()).rejects.toThrow(
      /without sending any chunks/,
    )
    expect(provider.requests.length - before).toBe(1)
  })

  test("D10 one that breaks after output throws where it broke, and is not tried again", async () => {
    const { client, account_id } = await newClient()
    const before = provider.requests.length
    const heard = Promise.withResolvers<void>()
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(sseEvent(chatChunk({ content: "one" })))
      await heard.promise
      exchange.reset()
    })
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    let words = ""
    const read = async () => {
      for await (const chunk of stream) {
        words += chunk.choices[0]?.delta.content ?? ""
        heard.resolve()
      }
    }
    await expect(read()).rejects.toMatchObject({ code: "upstream_error" })
    expect(words).toBe("one")
    expect(provider.requests.length - before).toBe(1)
    expect(await closed(account_id)).toMatchObject([{ basis: "estimate", ending: "upstream_lost" }])
  })

  test("D9 one that the client aborts is cut at the provider and settled", async () => {
    const { client, account_id } = await newClient()
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(sseEvent(chatChunk({ content: "one" })))
    })
    const next = provider.requests.length + 1
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    let left_ms = 0
    for await (const _ of stream) {
      left_ms = performance.now()
      stream.controller.abort()
    }
    const exchange = await provider.exchange(next)
    expect((await exchange.closed) - left_ms).toBeLessThan(250)
    expect(await closed(account_id)).toMatchObject([{ basis: "estimate", ending: "client_left" }])
  })

  test("D9 a JSON call that the client aborts is settled from the usage that arrives", async () => {
    const { client, account_id } = await newClient()
    provider.replyOnce(silent())
    const next = provider.requests.length + 1
    const abort = new AbortController()
    const completion = client.chat.completions.create(ASK, { signal: abort.signal })
    const exchange = await provider.exchange(next)
    abort.abort()
    expect(await failureOf(completion)).toBeInstanceOf(OpenAI.APIUserAbortError)
    await Bun.sleep(SEEN_MS)
    await json(200, chatCompletion("unheard", { usage: usage(10, 5) }))(exchange)
    expect(await closed(account_id)).toMatchObject([
      { basis: "usage", charge: "0.00003", ending: "client_left" },
    ])
  })

  /** The calls of an account, once they are closed. */
  function closed(account_id: string) {
    return until(
      () => gateway.calls(`?account=${account_id}`),
      (calls) => calls.every(({ state }) => state !== "open"),
    )
  }
})
