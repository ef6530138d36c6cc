import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { takes } from "../support/fair-clock.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  json,
  READ_MS,
  type Script,
  sse,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import {
  estimated,
  expectCut,
  expectLedger,
  expectSent,
  expectSides,
  holdsFor,
  NO_COMMENTS,
  openStage,
  passed,
  RESERVED,
  type Row,
  released,
  reset,
  SENTENCE,
  STREAM,
  type Stage,
  seesEvents,
  seesJson,
  seesStream,
  settled,
  streamText,
  testStage,
} from "./sides.ts"

/**
 * Sections 1, 4.1, 6 and 7 of the specification, sentence by sentence, over real sockets on both sides. Rule 3 is in
 * json-answers.test.ts, and rule 5 after a provider's disconnect in endings.test.ts.
 */

const DONE = "data: [DONE]\n\n"

const stage = await testStage((url) => ({
  stream: { ...NO_COMMENTS.stream, stall: "1s" },
  upstreams: {
    first: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
    draining: { family: "chat", base_url: `${url}/v1`, on_disconnect: { stream: "drain" } },
    counter: { family: "messages", base_url: url },
    closed: { family: "chat", base_url: "http://127.0.0.1:1/v1" },
  },
  models: [
    chatModel("chat-model"),
    chatModel("draining-model", { upstreams: [{ use: "draining" }] }),
    chatModel("unavailable-model", { upstreams: [{ use: "closed" }] }),
    chatModel("messages-model", { family: "messages", upstreams: [{ use: "counter" }] }),
  ],
}))

const holdsForStreams = (rows: readonly Row[]) => holdsFor(stage, rows, STREAM)
const holdsForJson = (rows: readonly Row[]) => holdsFor(stage, rows)

function noContent(headers = {}): Script {
  return async (exchange) => {
    await exchange.head(204, headers, { length: 0 })
    await exchange.end()
  }
}

describe("spec 1 the service", () => {
  const completion = JSON.stringify(chatCompletion("hello there", { usage: usage(10, 5) }))
  const words = chatWords("hello", " there")
  const charged = settled("0.00003", [10, 0, 5])

  test.each([
    ["/v1/chat/completions", false],
    ["/v1/chat/completions", true],
    ["/chat/completions", false],
    ["/chat/completions", true],
  ])(
    "4.1 POST %s, stream %p: a user key, a model, messages; an answer that is billed",
    async (path, stream) => {
      const script = stream ? sse(words, { usage: usage(10, 5) }) : json(200, completion)
      const sees = stream ? seesEvents(...words, DONE) : seesJson(completion)
      await expectSides(stage, { script, body: chatBody({ stream }), sending: { path } }, sees, charged)
    },
  )

  test.each([false, true])(
    "before a call a reservation is held; after it the charge is settled and the rest released (stream %p)",
    async (stream) => {
      const asked = Promise.withResolvers<void>()
      const answer = Promise.withResolvers<void>()
      const script: Script = async (exchange) => {
        asked.resolve()
        await answer.promise
        await (stream ? sse(words, { usage: usage(10, 5) }) : json(200, completion))(exchange)
      }
      const { account_id, ...running } = await stage.begin({ script, body: chatBody({ stream }) })
      await asked.promise
      expect(await stage.gateway.balance(account_id)).toMatchObject({
        balance: "1",
        held: RESERVED,
        available: "0.995965",
      })
      expect(await stage.gateway.calls(`?account=${account_id}`)).toMatchObject([
        { state: "open", held: RESERVED, charge: null, overage: null, settled_at: null },
      ])
      answer.resolve()
      expectLedger(await running.sides(), charged)
    },
  )

  test("token estimates supplied by the client are never trusted", async () => {
    const claims = { usage: { prompt_tokens: 0, completion_tokens: 0 }, estimated_tokens: 1, stream: false }
    const script = json(200, chatCompletion(SENTENCE, { usage: undefined }))
    const sending = { headers: { "x-prompt-tokens": "1", "x-estimated-tokens": "1" } }
    const sides = await stage.run({ script, body: chatBody(claims), sending })
    expectSent(sides, chatBody(claims))
    expectLedger(sides, estimated(11, "usage_missing", { held: "0.004036" }))
  })
})

describe("rule 1 valid upstream usage is used for settlement", () => {
  holdsForJson([
    passed(
      "JSON, with cached tokens",
      chatCompletion(SENTENCE, { usage: usage(7, 3, 7) }),
      settled("0.0000127", [7, 7, 3]),
    ),
  ])
})

describe("rule 2 a JSON object without valid usage is settled by an estimate, at least one token", () => {
  const withUsage = (reported: unknown, content = SENTENCE) => chatCompletion(content, { usage: reported })
  holdsForJson([
    passed("no output", withUsage(undefined, ""), estimated(1, "usage_missing")),
    passed("the empty object", "{}", estimated(1, "usage_missing")),
    passed("only invalid usage", { usage: [] }, estimated(1, "usage_invalid")),
  ])
})

describe("rule 4 a stream whose final usage is missing or invalid is estimated only from generated output", () => {
  const words = chatWords(SENTENCE.slice(0, 20), SENTENCE.slice(20))
  const nothing = seesStream("")
  holdsForStreams([
    [
      "null, with output",
      sse(words, { usage: null }),
      seesEvents(...words, usageChunk(null), DONE),
      estimated(11, "usage_missing"),
    ],
    [
      "heartbeats are no evidence",
      sse([": ping\n\n", ":\n\n", ": ping\n\n"]),
      nothing,
      released("no_output"),
    ],
    [
      "raw chunks are no evidence",
      sse([`${SENTENCE}\n\n`, `data: ${SENTENCE}\n\n`, "data: {\n\n", 'data: ["x"]\n\n']),
      nothing,
      released("no_output"),
    ],
  ])
})

describe("rule 5 a stream that ended early is settled by trusted partial usage or observed output", () => {
  const said = chatChunk({ content: SENTENCE })
  const dot = chatChunk({ content: "." })
  const counted = { ...dot, usage: usage(10, 5) }
  test.each([
    [
      "observed output, and the prompt",
      said,
      settled("0.000052", [8, 0, 11], {
        basis: "estimate",
        failure: "client_left",
        ending: "client_left",
      }),
    ],
    [
      "trusted partial usage",
      counted,
      settled("0.00003", [10, 0, 5], { basis: "partial", failure: "client_left", ending: "client_left" }),
    ],
  ])("client cancellation: %s, and the provider is cut", async (_, event, recorded) => {
    const running = await stage.begin({
      script: async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(sseEvent(event))
      },
      body: STREAM,
    })
    await running.client.received("}\n\n")
    running.client.leave()
    const sides = await running.sidesOnceClosed()
    expect(sides.answer.status).toBe(200)
    expectSent(sides, STREAM)
    expectLedger(sides, recorded)
    await expectCut(stage)
  })

  test("delivery failure: a client that takes nothing", async () => {
    const running = await stage.begin({
      script: async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        const event = sseEvent(chatChunk({ content: SENTENCE.repeat(1_000) }))
        while (await exchange.chunk(event));
      },
      body: STREAM,
    })
    await running.client.head
    running.client.stopReading()
    const sides = await running.sidesOnceClosed()
    expectSent(sides, STREAM)
    // No estimate exceeds what was held: beside the prompt 1,006 tokens fit.
    const stalled = { basis: "estimate", failure: "client_stalled", ending: "client_stalled" }
    expectLedger(sides, settled("0.004032", [8, 0, 1_006], stalled))
  })
})

describe("rule 6, spec 7 a stream without trusted usage and without output: 2xx, empty, released, recorded", () => {
  const nothing = seesStream("")
  const lost = released("upstream_error", { ending: "upstream_lost" })
  const ended = released("no_output", { ending: "upstream_lost" })
  holdsForStreams([
    ["a bare [DONE]", sse([]), nothing, released("no_output")],
    ["an empty body", sse([], { done: false }), nothing, ended],
    [
      "invalid usage",
      sse(chatWords(), { usage: { prompt_tokens: 9.5, completion_tokens: 1 } }),
      nothing,
      released("usage_invalid"),
    ],
    ["a reset", reset(chatChunk({ role: "assistant", content: "" })), nothing, lost],
    ["204", noContent(), nothing, ended],
    ["D36 a 204 that calls itself JSON", noContent({ "content-type": "application/json" }), nothing, ended],
  ])
})

describe("spec 6 a stream is model chunks, possibly final usage, and the gateway's keepalives", () => {
  let chatty: Stage
  beforeAll(async () => {
    chatty = await openStage(() => ({ stream: { keepalive: "40ms", commit_after: "50ms", stall: "30s" } }))
  })
  afterAll(() => chatty.close())

  test("spec 4.1 the headers are committed once the provider returned 2xx, however long it is silent", async () => {
    const committed = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<number>()
    const running = await chatty.begin({
      script: async (exchange) => {
        asked.resolve(performance.now())
        await Bun.sleep(READ_MS)
        await exchange.head(200, { "content-type": "text/event-stream" })
        await committed.promise
        await sse(chatWords("hi"), { usage: usage(10, 5) })({ ...exchange, head: async () => true })
      },
      body: STREAM,
    })
    const asked_ms = await asked.promise
    const { status, body } = await takes(0, READ_MS + 450, running.client.head)
    expect(performance.now() - asked_ms).toBeGreaterThan(READ_MS)
    expect({ status, body }).toEqual({ status: 200, body: ": ok\n\n" })
    committed.resolve()
    const sides = await running.sides()
    seesEvents(": ok\n\n", ...chatWords("hi"), DONE)(sides)
    expectSent(sides, STREAM)
    expectLedger(sides, settled("0.00003", [10, 0, 5]))
  })

  test("keepalives are comments, come only after silence, and stand between events", async () => {
    const first = chatChunk({ content: "one" })
    const rest = [chatChunk({ content: " two" }), chatChunk({}, "stop"), usageChunk(usage(10, 5))]
    const waited = Promise.withResolvers<void>()
    const body = chatBody({ stream: true, stream_options: { include_usage: true } })
    const running = await chatty.begin({
      script: async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(sseEvent(first))
        await waited.promise
        await exchange.chunk(streamText(...rest, DONE))
        await exchange.end()
      },
      body,
    })
    await running.client.received(": keepalive\n\n: keepalive\n\n")
    waited.resolve()
    const sides = await running.sides()
    expect(sides.answer.body.replace(/(: keepalive\n\n){2,}/, "…")).toBe(
      streamText(first, "…", ...rest, DONE),
    )
    expectSent(sides, body)
    expectLedger(sides, settled("0.00003", [10, 0, 5]))
  })

  test("rule 6 a silent stream holds keepalives only", async () => {
    const waited = Promise.withResolvers<void>()
    const running = await chatty.begin({
      script: async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(streamText(": ping\n\n", chatChunk({ role: "assistant", content: "" })))
        await waited.promise
        await exchange.chunk(DONE)
        await exchange.end()
      },
      body: STREAM,
    })
    await running.client.received(": keepalive\n\n")
    waited.resolve()
    const sides = await running.sides()
    expect(sides.answer).toMatchObject({ status: 200, whole: true })
    expect(sides.answer.body).toMatch(/^: ok\n\n(: keepalive\n\n)+$/)
    expectSent(sides, STREAM)
    expectLedger(sides, released("no_output"))
  })
})
