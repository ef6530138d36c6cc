import { describe, expect, test } from "bun:test"
import { dataUrl, pdf } from "../honest/files.ts"
import { within } from "../support/fair-clock.ts"
import { type CallRecord, chatModel, PRICE, until } from "../support/gateway.ts"
import { messageWords, namedEvent } from "../support/messages.ts"
import { chatChunk, type Exchange, silent, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { jsonDraft, requestBytes } from "../support/request.ts"
import { responseEvent, responseObject, responseUsage, textEvents, textItem } from "../support/responses.ts"
import { testGateway } from "../support/test-gateway.ts"

/** Ample time for an end that is on its way. */
const LEAVE_WAIT_MS = 400
/** How soon the provider is cut after that. */
const CUT_MS = 250
const DONE = "data: [DONE]\n\n"
const LEFT = { state: "settled", ending: "client_left", failure: "client_left" }

const chat = (url: string) => ({ family: "chat", base_url: `${url}/v1` })
const model = (name: string, more: object = {}) => chatModel(name, { upstreams: [{ use: "usual" }], ...more })
const { provider, gateway } = await testGateway((url) => ({
  stream: { leave_wait: `${LEAVE_WAIT_MS}ms` },
  upstreams: {
    usual: chat(url),
    aborting: { ...chat(url), on_disconnect: { stream: "abort" } },
    hasty: { ...chat(url), on_disconnect: { drain_for: "50ms" } },
    messages: { family: "messages", base_url: url },
  },
  models: [
    model("plain"),
    model("learns"),
    model("wide", { context_tokens: 100_000 }),
    model("priced", { price: { ...PRICE, reasoning: "4.00" } }),
    model("aborting", { upstreams: [{ use: "aborting" }] }),
    model("hasty", { upstreams: [{ use: "hasty" }], price: { ...PRICE, reasoning: "4.00" } }),
    model("message", { family: "messages", upstreams: [{ use: "messages" }] }),
  ],
}))

interface Begun {
  readonly account_id: string
  readonly client: RawClient
  readonly exchange: Exchange
}

interface Kind {
  readonly target: string
  readonly model: string
  readonly body: object
  /** Of one answer of 10 tokens in and 5 out. */
  readonly events: readonly string[]
}

const asked = { messages: [{ role: "user", content: "hello" }], max_tokens: 100 }
const text = (content: string) => sseEvent(chatChunk({ content }))

const CHAT: Kind = {
  target: "/v1/chat/completions",
  model: "plain",
  body: asked,
  events: [
    text("one"),
    text(" two"),
    sseEvent(chatChunk({}, "stop")),
    sseEvent(usageChunk(usage(10, 5))),
    DONE,
  ],
}

const KINDS: readonly Kind[] = [
  CHAT,
  {
    target: "/v1/messages",
    model: "message",
    body: asked,
    events: messageWords("one", " two").map(namedEvent),
  },
  {
    target: "/v1/responses",
    model: "plain",
    body: { input: "hello", max_output_tokens: 100 },
    events: [
      ...textEvents(["one", " two"]),
      responseEvent("response.completed", {
        response: responseObject([textItem("one two")], { usage: responseUsage(10, 5) }),
      }),
    ],
  },
]

/** A call of an account of its own that has reached the provider. */
async function begin({ target, model, body }: Kind, more: object = {}): Promise<Begun> {
  const { id, key } = await gateway.account()
  const client = await rawClient(gateway)
  provider.replyOnce(silent())
  client.send(
    requestBytes(
      jsonDraft(key, target, { model, stream: true, ...body, ...more }, ["anthropic-version: 2023-06-01"]),
    ),
  )
  return { account_id: id, client, exchange: await provider.exchange(provider.exchanges.length + 1) }
}

/** The same, with a first word that the client has seen. */
async function beginChat(model: string, ...events: readonly string[]): Promise<Begun> {
  const begun = await begin({ ...CHAT, model })
  await begun.exchange.head(200, { "content-type": "text/event-stream" })
  await begun.exchange.chunk(events.join("") + text("first"))
  await begun.client.receives("first")
  return begun
}

async function closed({ account_id }: Begun): Promise<CallRecord | undefined> {
  const [call] = await gateway.endedCalls(account_id)
  return call
}

describe("D9 auto: who leaves early pays like who stays", () => {
  for (const kind of KINDS)
    test(`${kind.target}: the end that is on its way is charged, after every event`, async () => {
      for (let seen = 1; seen < kind.events.length; seen++) {
        const begun = await begin(kind)
        await begun.exchange.head(200, { "content-type": "text/event-stream" })
        await begun.exchange.chunk(kind.events.slice(0, seen).join(""))
        await begun.client.receives("200 OK")
        begun.client.leave()
        await Bun.sleep(20)
        await begun.exchange.chunk(kind.events.slice(seen).join(""))
        await begun.exchange.end()
        const call = await closed(begun)
        expect(call).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
      }
    })

  test("the prompt's usage counts, whatever its text says: R7, one event before the end", async () => {
    const begun = await begin(CHAT, { messages: [{ role: "user", content: "QUJD".repeat(10_000) }] })
    await begun.exchange.head(200, { "content-type": "text/event-stream" })
    await begun.exchange.chunk(text("one") + sseEvent(chatChunk({}, "stop")))
    await begun.client.receives('"stop"')
    begun.client.leave()
    await begun.exchange.chunk(sseEvent(usageChunk(usage(30_000, 5))) + DONE)
    expect(await closed(begun)).toMatchObject({ ...LEFT, basis: "usage", charge: "0.03002" })
  })
})

describe("D9 auto: a stream that hides nothing", () => {
  test("is read on for leave_wait, then cut and estimated with its prompt", async () => {
    const begun = await beginChat("plain")
    const left_ms = begun.client.leave()
    expect(await within(LEAVE_WAIT_MS + CUT_MS, begun.exchange.closed)).toBe(true)
    expect((await begun.exchange.closed) - left_ms).toBeGreaterThanOrEqual(LEAVE_WAIT_MS - 10)
    expect(begun.exchange.closed_by).toBe("gateway")
    expect(await closed(begun)).toMatchObject({ ...LEFT, basis: "estimate" })
  })

  test("before any output: released, and no error of the gateway", async () => {
    const counted = (sample: string) => `${sample.replace("{", '{route="/v1/chat/completions",')} 1`
    const begun = await begin(CHAT)
    begun.client.leave()
    expect(await within(LEAVE_WAIT_MS + CUT_MS, begun.exchange.closed)).toBe(true)
    expect(await closed(begun)).toMatchObject({ state: "released", charge: "0", failure: "client_left" })
    const left = counted('tollgate_requests_total{status="499"}')
    expect(await until(gateway.metrics, (text) => text.includes(left))).not.toContain(
      "tollgate_errors_total{",
    )
  })

  test("abort: it is cut at once", async () => {
    const begun = await beginChat("aborting")
    const left_ms = begun.client.leave()
    expect((await begun.exchange.closed) - left_ms).toBeLessThan(LEAVE_WAIT_MS)
    expect(await closed(begun)).toMatchObject({ ...LEFT, basis: "estimate" })
  })
})

describe("D9 auto: a stream that may hide output is drained", () => {
  const REASONED = sseEvent(
    usageChunk({ ...usage(10, 5), completion_tokens_details: { reasoning_tokens: 3 } }),
  )

  /** The provider says nothing for longer than leave_wait, then the rest. */
  async function expectDrained(begun: Begun): Promise<void> {
    begun.client.leave()
    await Bun.sleep(LEAVE_WAIT_MS + CUT_MS)
    expect(begun.exchange.closed_by).toBeNull()
    await begun.exchange.chunk(text(" more") + sseEvent(chatChunk({}, "stop")) + REASONED + DONE)
    await begun.exchange.end()
    expect(await closed(begun)).toMatchObject({ ...LEFT, basis: "usage", charge: "0.00003" })
  }

  test("by its price for reasoning; its connection is used again", async () => {
    const begun = await beginChat("priced")
    await expectDrained(begun)
    const next = await beginChat("priced")
    expect(next.exchange.request.connection).toBe(begun.exchange.request.connection)
    await expectDrained(next)
  })

  test("by reasoning that the usage of this stream counts", async () => {
    const begun = await beginChat("learns", REASONED)
    await expectDrained(begun)
  })

  test("by reasoning that an earlier call counted", async () => {
    const begun = await beginChat("learns")
    await expectDrained(begun)
  })

  test("by what only the provider knows of its prompt: what it adds, and files", async () => {
    const content = [{ type: "file", file: { file_data: dataUrl("application/pdf", pdf(2, "A page.")) } }]
    const requests = [
      { messages: [{ role: "user", content }] },
      { tools: [{ type: "mcp", server_url: "https://x" }] },
    ]
    const begun: Begun[] = []
    for (const more of requests) begun.push(await begin({ ...CHAT, model: "wide" }, more))
    await Promise.all(
      begun.map(async (one) => {
        await one.exchange.head(200, { "content-type": "text/event-stream" })
        await one.exchange.chunk(text("first"))
        await one.client.receives("first")
        await expectDrained(one)
      }),
    )
  })

  test("for at most drain_for", async () => {
    const begun = await beginChat("hasty")
    begun.client.leave()
    expect(await within(50 + CUT_MS, begun.exchange.closed)).toBe(true)
    expect(await closed(begun)).toMatchObject({ ...LEFT, basis: "estimate" })
  })
})
