import { beforeEach, describe, expect, test } from "bun:test"
import { deflateRawSync, gzipSync } from "node:zlib"
import type { Answer } from "../support/answer.ts"
import { CHAT, chatModel, MESSAGES, PROVIDER_KEY } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage } from "../support/provider.ts"
import { type Code, expectError, expectIds, ownHeaders, type Said } from "./errors.ts"
import { CANARY, testHarness } from "./harness.ts"

const harness = await testHarness(configuration)
const account = await harness.account()

/** One upstream of each family, and one that cannot be reached. */
function configuration(url: string) {
  const model = (name: string, family: string, use: string) =>
    chatModel(name, { family, upstreams: [{ use, model: `upstream-${name}` }] })
  return {
    upstreams: {
      chats: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
      counter: { family: "messages", base_url: url, api_key: PROVIDER_KEY },
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
    },
    models: [
      model(CHAT, "chat", "chats"),
      model(MESSAGES, "messages", "counter"),
      model("nowhere", "chat", "nowhere"),
    ],
  }
}

/** The three ways to ask a provider. */
const entries: readonly [what: string, ask: () => Promise<Answer>][] = [
  ["chat, JSON", () => harness.chat(account.key)],
  ["chat, stream", () => harness.chat(account.key, { stream: true })],
  ["token count", () => harness.count(account.key)],
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
      [404, "not_found", "upstream_error", spoken],
      [429, "rate_limited", "upstream_error", { headers: { "retry-after": "17" } }],
      [503, "upstream_unavailable", "upstream_unavailable", { headers: { "retry-after": "17" } }],
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

test.each([{}, { stream: true }])("D17 an upstream that cannot be reached is a 503: %j", async (form) => {
  const answer = await harness.chat(account.key, { model: "nowhere", ...form })
  expectError(answer, "upstream_unavailable")
  await expectReleased(answer, "chat", "upstream_unavailable")
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
