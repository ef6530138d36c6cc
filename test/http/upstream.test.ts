import { afterAll, beforeEach, describe, expect, test } from "bun:test"
import { deflateRawSync, gzipSync } from "node:zlib"
import type { Answer } from "../support/answer.ts"
import { CHAT, chatModel, MESSAGES, PROVIDER_KEY } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, type Script, silent, sse, usage } from "../support/provider.ts"
import { type Code, expectError, expectIds, ownHeaders, type Said } from "./errors.ts"
import { CANARY, openHarness } from "./harness.ts"

/** Speaks HTTP only. */
const plain = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })

const harness = await openHarness(configuration)
const account = await harness.account()
afterAll(async () => {
  await harness.close()
  await plain.stop(true)
})

/** One upstream of each family, one without a credential, and one that is soon given up. */
function configuration(url: string) {
  const model = (name: string, family: string, use: string) =>
    chatModel(name, { family, upstreams: [{ use, model: `upstream-${name}` }] })
  return {
    upstreams: {
      chats: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
      counter: { family: "messages", base_url: url, api_key: PROVIDER_KEY },
      open: { family: "chat", base_url: `${url}/deep/er/path` },
      hurried: { family: "chat", base_url: `${url}/v1`, timeouts: { first_byte: "80ms", total: "150ms" } },
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
      nameless: { family: "chat", base_url: "http://gateway.invalid" },
      secure: { family: "chat", base_url: `https://127.0.0.1:${plain.port}` },
    },
    models: [
      model(CHAT, "chat", "chats"),
      model(MESSAGES, "messages", "counter"),
      ...["open", "hurried", "nowhere", "nameless", "secure"].map((use) => model(use, "chat", use)),
    ],
  }
}

/** The three ways to ask a provider. */
const entries: readonly [what: string, ask: (fields?: object, headers?: string[]) => Promise<Answer>][] = [
  ["chat, JSON", (fields, headers) => harness.chat(account.key, fields, headers)],
  ["chat, stream", (fields, headers) => harness.chat(account.key, { stream: true, ...fields }, headers)],
  [
    "token count",
    (fields, headers = []) =>
      harness.count(account.key, fields, ["anthropic-version: 2023-06-01", ...headers]),
  ],
]

/** The call of an answer, if the entry makes one: released without a charge, because of `failure`. */
async function expectReleased(answer: Answer, entry: string, failure: string, ending: string | null = null) {
  if (entry === "token count") return
  expect(await harness.gateway.call(expectIds(answer))).toMatchObject({
    state: "released",
    basis: "none",
    charge: "0",
    usage: null,
    ending,
    failure,
  })
  expect(await harness.gateway.balance(account.id)).toMatchObject({ held: "0" })
}

/** Token counts tell a provider's errors as messages calls do (D64). */
describe.each(entries.slice(0, 2))(
  "D17 what the client is told of a provider's refusal: %s",
  (entry, ask) => {
    // Breakers count failures in a row (D33): an answer in between keeps them shut.
    beforeEach(async () => void (await ask()))

    const words = {
      error: {
        message: "Too long.",
        type: "too_long_error",
        param: "messages[0].content",
        code: "context_length_exceeded",
        canary: CANARY,
      },
      canary: CANARY,
    }
    const spoken: Said = {
      message: "Too long.",
      param: "messages[0].content",
      shown: { code: "context_length_exceeded", type: "too_long_error" },
    }
    const rows: readonly [status: number, code: Code, failure: string, said: Said][] = [
      [400, "invalid_request", "upstream_error", spoken],
      [401, "upstream_error", "upstream_error", {}],
      [404, "not_found", "upstream_error", spoken],
      [429, "rate_limited", "upstream_error", { headers: { "retry-after": "17" } }],
      [503, "upstream_unavailable", "upstream_unavailable", { headers: { "retry-after": "17" } }],
      [504, "upstream_timeout", "upstream_timeout", {}],
      [304, "upstream_error", "upstream_error", {}],
      [999, "upstream_error", "upstream_error", {}],
    ]
    test.each(rows)("%d -> %s, released as %s", async (status, code, failure, said) => {
      const requests = harness.provider.requests.length
      const headers = { "retry-after": "17", "x-request-id": "theirs", "x-canary": CANARY }
      harness.provider.replyOnce(json(status, status === 304 ? "" : words, headers))
      const answer = await ask()
      expectError(answer, code, said)
      await expectReleased(answer, entry, failure)
      expect(harness.provider.requests).toHaveLength(requests + 1)
    })

    test("a message is cut at 1,000 characters, and a credential in it is not shown", async () => {
      harness.provider.replyOnce((exchange) => {
        const sent = JSON.stringify(exchange.request.headers)
        const message = `no: ${sent} ${"x".repeat(2_000)}`
        return json(400, { error: { message, code: PROVIDER_KEY, type: "has space", param: "bad param" } })(
          exchange,
        )
      })
      const message = expectError(await ask(), "invalid_request", { message: /\[redacted\]/ })
      expect(message).toHaveLength(1_000)
    })
  },
)

describe.each(entries)("D17 what is no answer: %s", (entry, ask) => {
  beforeEach(async () => void (await ask()))

  test("a redirect is not followed", async () => {
    const requests = harness.provider.requests.length
    const location = `${harness.provider.url}/elsewhere`
    harness.provider.replyOnce(json(307, "", { location }))
    const answer = await ask()
    expectError(answer, "upstream_error")
    await expectReleased(answer, entry, "upstream_error")
    expect(harness.provider.requests).toHaveLength(requests + 1)
  })

  test("D25 a body that is compressed all the same is decoded, delivered and charged", async () => {
    const text = JSON.stringify(entry === "token count" ? { input_tokens: 7 } : chatCompletion("Hi."))
    const body = Bun.gzipSync(Buffer.from(text))
    harness.provider.replyOnce(async (exchange) => {
      const headers = { "content-type": "application/json", "content-encoding": "gzip" }
      await exchange.head(200, headers, { length: body.length })
      await exchange.chunk(body)
      await exchange.end()
    })
    const answer = await ask()
    expect(answer.status).toBe(200)
    expect(answer.body).toContain(entry === "token count" ? text : "Hi.")
    expect(answer.headers["content-encoding"]).toBeUndefined()
  })

  const faulty: [string, string, Buffer][] = [
    ["deflate without the zlib header", "deflate", deflateRawSync(JSON.stringify(chatCompletion(CANARY)))],
    [
      "gzip and other bytes",
      "gzip",
      Buffer.concat([gzipSync(JSON.stringify(chatCompletion(CANARY))), Buffer.from("more")]),
    ],
  ]
  test.each(faulty)(
    "D25 a body that is not in the form of its coding breaks off: %s",
    async (_, coding, body) => {
      harness.provider.replyOnce(async (exchange) => {
        const headers = { "content-type": "application/json", "content-encoding": coding }
        await exchange.head(200, headers, { length: body.length })
        await exchange.chunk(body)
        await exchange.end()
      })
      const answer = await ask()
      expect(answer.status).toBe(entry === "chat, stream" ? 200 : 502)
      expect(answer.body).not.toContain(CANARY)
    },
  )

  test("D25 a body in an unknown coding is a 502", async () => {
    harness.provider.replyOnce(json(200, chatCompletion(CANARY), { "content-encoding": "gzip, x-odd" }))
    const answer = await ask()
    expectError(answer, "upstream_error")
    await expectReleased(answer, entry, "upstream_error")
  })
})

describe("D17, D31 an upstream that cannot be reached, or says nothing", () => {
  const rows: readonly [what: string, model: string, code: Code, script: Script | null][] = [
    ["a refused connection is a 503", "nowhere", "upstream_unavailable", null],
    ["a name that does not resolve is a 503", "nameless", "upstream_unavailable", null],
    ["a server that speaks no TLS is a 503", "secure", "upstream_unavailable", null],
    ["silence is a 504", "hurried", "upstream_timeout", silent()],
  ]
  const forms = [{}, { stream: true }]
  test.each(rows.flatMap((row) => forms.map((form) => [...row, form] as const)))(
    "%s",
    async (_, model, code, script, form) => {
      if (script !== null) harness.provider.replyOnce(script)
      const answer = await harness.chat(account.key, { model, ...form })
      expectError(answer, code)
      await expectReleased(answer, "chat", code)
    },
  )
})

describe("D25 what the provider sees", () => {
  const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
  const noise = (call: string) => [
    `x-canary: ${CANARY}`,
    `cookie: session=${CANARY}`,
    "x-api-key: sk-other",
    "x-request-id: mine",
    "request-id: mine",
    "user-agent: OpenAI/Python 9.9",
    "accept: */*",
    "accept-encoding: gzip, br",
    "x-forwarded-for: 10.0.0.1",
    "x-stainless-lang: js",
    "openai-organization: org",
    "openai-beta: assistants=v2",
    "anthropic-version: 2023-06-01",
    `traceparent: ${TRACEPARENT}`,
    "tracestate: rojo=1",
    `baggage: user=${CANARY}`,
    "te: trailers",
    "connection: x-canary",
    `idempotency-key: ${call}`,
  ]
  const built = {
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "tollgate",
    // D54: the trace that the call belongs to is all that passes of these.
    traceparent: TRACEPARENT,
    tracestate: "rojo=1",
  }

  test("of a JSON call", async () => {
    const answer = await harness.chat(account.key, {}, noise("json"))
    expect(sent()).toEqual({
      ...built,
      accept: "application/json",
      authorization: `Bearer ${PROVIDER_KEY}`,
      "x-request-id": expectIds(answer),
    })
    expect(harness.provider.requests.at(-1)?.path).toBe("/v1/chat/completions")
  })

  test("of an upstream without a credential, below any base_url", async () => {
    const answer = await harness.chat(account.key, { model: "open" }, noise("open"))
    expect(answer.status).toBe(200)
    expect(sent()).toEqual({ ...built, accept: "application/json", "x-request-id": expectIds(answer) })
    expect(harness.provider.requests.at(-1)?.path).toBe("/deep/er/path/chat/completions")
  })
})

describe("D24 what the client sees of a provider's headers", () => {
  const leaks = {
    server: "nginx",
    "set-cookie": `a=${CANARY}`,
    "x-request-id": "theirs",
    "request-id": "theirs",
    "openai-organization": "org",
    "x-ratelimit-remaining-requests": "1",
    "cache-control": "max-age=60",
    "content-disposition": "attachment",
    "access-control-allow-origin": "*",
    "x-should-retry": "true",
    "retry-after": "9",
  }

  test("of a stream: only what it is, and that nobody is to keep it", async () => {
    harness.provider.replyOnce(sse(chatWords("hello"), { usage: usage(1, 1), headers: leaks }))
    const answer = await harness.chat(account.key, { stream: true })
    const id = expectIds(answer)
    expect(ownHeaders(answer)).toEqual({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      "x-request-id": id,
      "request-id": id,
    })
  })
})

/** The headers of the last request that the provider got, those of the framing and the connection aside. */
function sent() {
  const {
    host,
    connection,
    "content-length": length,
    ...headers
  } = harness.provider.requests.at(-1)?.headers ?? {}
  return headers
}
