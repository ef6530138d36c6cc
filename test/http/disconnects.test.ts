import { afterAll, describe, expect, test } from "bun:test"
import { dataUrl, pdf } from "../honest/files.ts"
import { within } from "../support/fair-clock.ts"
import {
  type CallRecord,
  chatModel,
  PRICE,
  startGateway,
  type TestGateway,
  untilIs,
} from "../support/gateway.ts"
import { messageWords, namedEvent } from "../support/messages.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  type Exchange,
  json,
  silent,
  sse,
  sseEvent,
  startProvider,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { chatBody, chatRequest, jsonDraft, requestBytes } from "../support/request.ts"
import { responseEvent, responseObject, responseUsage, textEvents, textItem } from "../support/responses.ts"

/** How soon a provider's connection is closed once nobody wants its answer (D9). */
const CLOSED_MS = 250
/** Ample time for the gateway to see what the other two did, where no event tells that it has. */
const SEEN_MS = 150
/** `drain_for` of the upstream behind the model `hasty`. */
const DRAIN_FOR_MS = 300
/** Ample time for an end that is on its way. */
const LEAVE_WAIT_MS = 400

const provider = await startProvider()
const gateway = await startGateway(provider, policies(provider.url))

afterAll(async () => {
  await expectNothingLeft(gateway)
  await gateway.stop()
  await provider.stop()
})

/** One model for each policy of an upstream, with its name, two that try one upstream after another, and those without. */
function policies(url: string) {
  const on_disconnect = {
    aborting: { stream: "abort", json: "abort" },
    draining: { stream: "drain", json: "drain" },
    hasty: { stream: "drain", json: "drain", drain_for: `${DRAIN_FOR_MS}ms` },
  }
  const names = Object.entries(on_disconnect)
  const usual = { upstreams: [{ use: "usual" }] }
  return {
    stream: { leave_wait: `${LEAVE_WAIT_MS}ms` },
    upstreams: {
      ...Object.fromEntries(
        names.map(([name, policy]) => [
          name,
          { family: "chat", base_url: `${url}/v1`, on_disconnect: policy },
        ]),
      ),
      usual: { family: "chat", base_url: `${url}/v1` },
      messages: { family: "messages", base_url: url },
    },
    models: [
      ...names.map(([name]) => chatModel(name, { upstreams: [{ use: name }] })),
      chatModel("abort-then-drain", { upstreams: [{ use: "aborting" }, { use: "draining" }] }),
      chatModel("drain-then-abort", { upstreams: [{ use: "draining" }, { use: "aborting" }] }),
      chatModel("plain", usual),
      chatModel("learns", usual),
      chatModel("wide", { ...usual, context_tokens: 100_000 }),
      chatModel("priced", { ...usual, price: { ...PRICE, reasoning: "4.00" } }),
      chatModel("message", { family: "messages", upstreams: [{ use: "messages" }] }),
    ],
  }
}

/** No reservation, no answer on its way, each call settled once, and no fault in the log. */
async function expectNothingLeft({ audit, service, lines, metrics }: TestGateway): Promise<void> {
  await untilIs(() => service.server.pending, 0)
  expect(await audit()).toMatchObject({ open_holds: 0, violations: [] })
  const said = lines.map((line): { msg: string; level: number; request_id?: string } => JSON.parse(line))
  const settled = said.filter(({ msg }) => msg === "call").map(({ request_id }) => request_id)
  expect(new Set(settled).size).toBe(settled.length)
  expect(said.filter(({ level }) => level > 40)).toEqual([])
  const counts = await metrics()
  expect(counts).toMatch(/^tollgate_open_holds 0$/m)
  expect(counts).toMatch(/^tollgate_ends_ignored_total 0$/m)
}

const CHAT = "/v1/chat/completions"

interface Begun {
  readonly account_id: string
  readonly client: RawClient
  readonly exchange: Exchange
}

/** A call of an account of its own that has reached the provider; the test writes the answer itself. */
async function begin(model: string, body: object = {}, target = CHAT): Promise<Begun> {
  const { id, key } = await gateway.account()
  const client = await rawClient(gateway)
  provider.replyOnce(silent())
  const asked = target === "/v1/responses" ? { model, ...body } : chatBody({ model, ...body })
  client.send(requestBytes(jsonDraft(key, target, asked, ["anthropic-version: 2023-06-01"])))
  return { account_id: id, client, exchange: await provider.exchange(provider.exchanges.length + 1) }
}

/** The same, with the stream's headers and a first word that the client has seen. */
async function beginStream(model: string, body: object = {}, before = ""): Promise<Begun> {
  const begun = await begin(model, { stream: true, ...body })
  await begun.exchange.head(200, { "content-type": "text/event-stream" })
  await begun.exchange.chunk(before + text("first"))
  await begun.client.receives("first")
  return begun
}

function text(content: string): string {
  return sseEvent(chatChunk({ content }))
}

const FINAL_USAGE = sseEvent(usageChunk(usage(10, 5)))
/** What `usage(10, 5)` costs. */
const USAGE_CHARGE = "0.00003"
const DONE = "data: [DONE]\n\n"

/** The only call of an account, once it is closed. */
async function closed({ account_id }: Begun): Promise<CallRecord | undefined> {
  const calls = await gateway.endedCalls(account_id)
  expect(calls).toHaveLength(1)
  expect((await gateway.balance(account_id)).held).toBe("0")
  return calls[0]
}

const RELEASED = { state: "released", basis: "none", charge: "0", usage: null }
const LEFT = { ending: "client_left", failure: "client_left" }

const BY_USAGE = { state: "settled", basis: "usage", charge: USAGE_CHARGE, ...LEFT }

describe("D9 the client leaves before the provider's headers", () => {
  const kinds = [
    ["a stream", { stream: true }],
    ["a JSON call", {}],
  ] as const
  for (const [kind, body] of kinds) {
    for (const how of ["leave", "reset"] as const) {
      test(`abort: ${kind} whose client goes by ${how} is cut and released`, async () => {
        const begun = await begin("aborting", body)
        begun.client[how]()
        expect(await within(CLOSED_MS, begun.exchange.closed)).toBe(true)
        expect(begun.exchange.closed_by).toBe("gateway")
        expect(await closed(begun)).toMatchObject({ ...RELEASED, ...LEFT })
      })
    }
  }

  test("drain_for: a stream without headers is cut after it and released", async () => {
    const begun = await begin("hasty", { stream: true })
    const left_ms = begun.client.leave()
    expect(await within(DRAIN_FOR_MS + CLOSED_MS, begun.exchange.closed)).toBe(true)
    expect((await begun.exchange.closed) - left_ms).toBeGreaterThanOrEqual(DRAIN_FOR_MS - 10)
    expect(await closed(begun)).toMatchObject({ ...RELEASED, ...LEFT })
  })

  test("drain_for does not bound a JSON call: `total` does", async () => {
    const begun = await begin("hasty")
    begun.client.leave()
    await Bun.sleep(DRAIN_FOR_MS + CLOSED_MS)
    await json(200, chatCompletion("one two", { usage: usage(10, 5) }))(begun.exchange)
    expect(await closed(begun)).toMatchObject({ state: "settled", charge: USAGE_CHARGE, ...LEFT })
  })

  test("drain: a stream is settled from the usage that arrives", async () => {
    const begun = await begin("draining", { stream: true })
    begun.client.leave()
    await Bun.sleep(CLOSED_MS)
    expect(begun.exchange.closed_by).toBeNull()
    await sse(chatWords("one", " two"), { usage: usage(10, 5) })(begun.exchange)
    expect(await closed(begun)).toMatchObject(BY_USAGE)
  })

  test("drain: a JSON call is settled from the usage that arrives, and its connection is used again", async () => {
    const begun = await begin("draining")
    begun.client.leave()
    await Bun.sleep(CLOSED_MS)
    await json(200, chatCompletion("one two", { usage: usage(10, 5) }))(begun.exchange)
    expect(await closed(begun)).toMatchObject(BY_USAGE)
    expect(begun.exchange.closed_by).toBeNull()
    const next = await begin("draining")
    expect(next.exchange.request.connection).toBe(begun.exchange.request.connection)
    await json(200, chatCompletion("hi"))(next.exchange)
    expect(await closed(next)).toMatchObject({ ending: "completed" })
  })

  test.each(["abort-then-drain", "drain-then-abort"])(
    "%s: the policy is that of the upstream that is asked when a JSON client leaves",
    async (model) => {
      const begun = await begin(model)
      provider.replyOnce(silent())
      await json(503, {})(begun.exchange)
      const second = { ...begun, exchange: await provider.exchange(provider.exchanges.length + 1) }
      second.client.leave()
      if (model === "drain-then-abort") {
        expect(await within(CLOSED_MS, second.exchange.closed)).toBe(true)
        expect(await closed(second)).toMatchObject({ ...RELEASED, ...LEFT })
        return
      }
      await Bun.sleep(CLOSED_MS)
      await json(200, chatCompletion("one two", { usage: usage(10, 5) }))(second.exchange)
      expect(await closed(second)).toMatchObject(BY_USAGE)
    },
  )

  test("drain: a refusal that arrives is recorded as what happened first, the leaving", async () => {
    const begun = await begin("draining")
    begun.client.leave()
    await Bun.sleep(SEEN_MS)
    await json(500, { error: { message: "out of order" } })(begun.exchange)
    expect(await closed(begun)).toMatchObject(RELEASED)
  })

  test("drain_for bounds what comes before the headers and after them together", async () => {
    // A busy machine can delay one of the calls; a bound that begins again with the headers delays all.
    let drained_ms = Number.POSITIVE_INFINITY
    for (let call = 0; call < 5 && drained_ms >= 1.5 * DRAIN_FOR_MS - 10; call += 1) {
      const begun = await begin("hasty", { stream: true })
      const left_ms = begun.client.leave()
      await Bun.sleep(DRAIN_FOR_MS / 2)
      await begun.exchange.head(200, { "content-type": "text/event-stream" })
      await begun.exchange.chunk(text("late"))
      drained_ms = (await begun.exchange.closed) - left_ms
      expect(drained_ms).toBeGreaterThanOrEqual(DRAIN_FOR_MS - 10)
      expect(await closed(begun)).toMatchObject({ state: "settled", basis: "estimate", ...LEFT })
    }
    expect(drained_ms).toBeLessThan(1.5 * DRAIN_FOR_MS - 10)
  })
})

describe("D9 the client leaves a JSON call whose body is on its way", () => {
  const half = JSON.stringify(chatCompletion("one two", { usage: usage(10, 5) }))
  async function beginBody(model: string): Promise<Begun> {
    const begun = await begin(model)
    await begun.exchange.head(200, { "content-type": "application/json" }, { length: half.length })
    await begun.exchange.chunk(half.slice(0, 100))
    await Bun.sleep(SEEN_MS)
    return begun
  }

  test("abort: cut and released", async () => {
    const begun = await beginBody("aborting")
    begun.client.leave()
    expect(await within(CLOSED_MS, begun.exchange.closed)).toBe(true)
    expect(await closed(begun)).toMatchObject({ ...RELEASED, ...LEFT })
  })

  test("drain: settled from the usage in the rest of it", async () => {
    const begun = await beginBody("draining")
    begun.client.leave()
    await Bun.sleep(CLOSED_MS)
    await begun.exchange.chunk(half.slice(100))
    await begun.exchange.end()
    expect(await closed(begun)).toMatchObject({ state: "settled", charge: USAGE_CHARGE, ...LEFT })
  })
})

describe("D9 the client leaves during a stream", () => {
  test("drain: a provider that dies is estimated from what it said; the client had left", async () => {
    const begun = await beginStream("draining")
    begun.client.leave()
    await begun.exchange.chunk(text("123"))
    await Bun.sleep(SEEN_MS)
    begun.exchange.reset()
    // 35 bytes of prompt and 8 of output.
    expect(await closed(begun)).toMatchObject({ basis: "estimate", charge: "0.000016", ...LEFT })
  })
})

describe("D9 the client leaves when every choice has finished", () => {
  const FINISH = sseEvent(chatChunk({}, "stop"))
  const SAID = text("y".repeat(36)) + FINISH

  test("the usage that follows is charged", async () => {
    const begun = await beginStream("aborting")
    await begun.exchange.chunk(SAID)
    await begun.client.receives('"stop"')
    begun.client.leave()
    await Bun.sleep(CLOSED_MS)
    expect(begun.exchange.closed_by).toBeNull()
    await begun.exchange.chunk(FINAL_USAGE + DONE)
    expect(await closed(begun)).toMatchObject({ basis: "usage", charge: USAGE_CHARGE, ...LEFT })
  })
})

describe("D9 a client that is gone before a provider is asked", () => {
  test("no provider is asked, whatever the policy: released", async () => {
    const { id, key } = await gateway.account()
    const before = provider.requests.length
    const client = await rawClient(gateway)
    await gateway.sql.begin(async (transaction) => {
      await transaction`select from accounts where id = ${id} for update`
      client.send(chatRequest(key, { model: "draining" }))
      await Bun.sleep(SEEN_MS)
      client.leave()
      await Bun.sleep(SEEN_MS)
    })
    const [call] = await gateway.endedCalls(id)
    expect(call).toMatchObject({ ...RELEASED, ...LEFT })
    expect(provider.requests.length).toBe(before)
  })

  test("no second provider is asked after the first refused", async () => {
    const begun = await begin("drain-then-abort")
    const asked = provider.requests.length
    begun.client.leave()
    await Bun.sleep(SEEN_MS)
    await json(503, {})(begun.exchange)
    expect(await closed(begun)).toMatchObject({ ...RELEASED, ...LEFT })
    expect(provider.requests.length).toBe(asked)
  })
})

describe("D9 the client leaves when everything is said", () => {
  test.each([true, false])(
    "after the final usage it is no cancellation (include_usage %p)",
    async (include_usage) => {
      const begun = await beginStream("aborting", { stream_options: { include_usage } })
      await begun.exchange.chunk(FINAL_USAGE)
      await Bun.sleep(SEEN_MS)
      begun.client.leave()
      expect(await within(CLOSED_MS, begun.exchange.closed)).toBe(true)
      expect(await closed(begun)).toMatchObject({
        basis: "usage",
        ending: "completed",
        failure: null,
        charge: USAGE_CHARGE,
      })
    },
  )

  test("D32 while the settlement is on its way: [DONE] is lost, and nothing else", async () => {
    const begun = await beginStream("aborting")
    await gateway.sql.begin(async (transaction) => {
      await transaction`select from accounts where id = ${begun.account_id} for update`
      await begun.exchange.chunk(FINAL_USAGE + DONE)
      await Bun.sleep(SEEN_MS)
      expect(begun.client.received).not.toContain("[DONE]")
      begun.client.leave()
      await Bun.sleep(CLOSED_MS)
    })
    expect(await closed(begun)).toMatchObject({ basis: "usage", ending: "completed", failure: null })
  })

  test("after a JSON answer", async () => {
    const begun = await begin("aborting")
    await json(200, chatCompletion("hi"))(begun.exchange)
    await begun.client.receives('"hi"')
    begun.client.reset()
    expect(await closed(begun)).toMatchObject({ basis: "usage", ending: "completed", failure: null })
  })
})

describe("one connection of a client", () => {
  test("serves on after refusals, JSON answers, streams and a stream that broke", async () => {
    const { key } = await gateway.account()
    const client = await rawClient(gateway)
    /** One request after the other; what was received for the last one. */
    async function exchange(request: string, end: string): Promise<string> {
      const from = client.received.length
      client.send(request)
      return (await client.receives(end, from)).slice(from)
    }
    const stream = chatRequest(key, { model: "aborting", stream: true })
    const whole = chatRequest(key, { model: "aborting" })

    expect(
      await exchange(chatRequest("tg_live_wrong", { padding: "x".repeat(300_000) }), "request_id"),
    ).toStartWith("HTTP/1.1 401")
    provider.replyOnce(sse(chatWords("one"), { usage: usage(10, 5) }))
    expect(await exchange(stream, "0\r\n\r\n")).toContain("one")
    provider.replyOnce(json(200, chatCompletion("two")))
    expect(await exchange(whole, '"two"')).toStartWith("HTTP/1.1 200")
    provider.replyOnce(sse([sseEvent(chatChunk({ content: "three" }))], { done: false, ending: "reset" }))
    expect(await exchange(stream, "0\r\n\r\n")).toContain('data: {"error"')
    provider.replyOnce(json(503, {}))
    expect(await exchange(whole, "request_id")).toStartWith("HTTP/1.1 503")
    provider.replyOnce(sse([]))
    expect(await exchange(stream, "\r\n\r\n")).toStartWith("HTTP/1.1 200")
    expect(await exchange(chatRequest(key, { model: "nobody" }), "request_id")).toStartWith("HTTP/1.1 404")
    provider.replyOnce(json(200, chatCompletion("four")))
    expect(await exchange(whole, '"four"')).toStartWith("HTTP/1.1 200")
    client.leave()
  })

  test("that is half closed is one whose client left: the server has no half-open connections", async () => {
    const begun = await begin("aborting", { stream: true })
    const closed_ms = begun.exchange.closed
    begun.client.halfClose()
    await begun.client.closed
    expect(begun.client.received).toBe("")
    await closed_ms
    expect(await closed(begun)).toMatchObject({ ...RELEASED, ...LEFT })
  })

  test("on which a second request comes before the first is answered ends, and the first is a call that was left", async () => {
    const { id, key } = await gateway.account()
    const client = await rawClient(gateway)
    provider.replyOnce(silent())
    client.send(chatRequest(key, { model: "aborting" }) + chatRequest(key, { model: "aborting" }))
    await client.closed
    const [call, ...others] = await gateway.endedCalls(id)
    expect(others).toEqual([])
    expect(call).toMatchObject({ ...RELEASED, ...LEFT })
  })
})

describe("D9 auto: who leaves early pays like who stays", () => {
  const kinds: [
    target: string,
    body: Record<string, unknown> & { model: string },
    events: readonly string[],
  ][] = [
    [
      CHAT,
      { model: "plain" },
      [text("one"), text(" two"), sseEvent(chatChunk({}, "stop")), FINAL_USAGE, DONE],
    ],
    ["/v1/messages", { model: "message", max_tokens: 100 }, messageWords("one", " two").map(namedEvent)],
    [
      "/v1/responses",
      { model: "plain", input: "hello" },
      [
        ...textEvents(["one", " two"]),
        responseEvent("response.completed", {
          response: responseObject([textItem("one two")], { usage: responseUsage(10, 5) }),
        }),
      ],
    ],
  ]
  test.each(kinds)(
    "%s: the end that is on its way is charged, after every event",
    async (target, { model, ...body }, events) => {
      for (let seen = 1; seen < events.length; seen++) {
        const begun = await begin(model, { stream: true, ...body }, target)
        await begun.exchange.head(200, { "content-type": "text/event-stream" })
        await begun.exchange.chunk(events.slice(0, seen).join(""))
        await begun.client.receives("200 OK")
        begun.client.leave()
        await Bun.sleep(20)
        await begun.exchange.chunk(events.slice(seen).join(""))
        await begun.exchange.end()
        const call = await closed(begun)
        expect(call).toMatchObject({ state: "settled", basis: "usage", charge: USAGE_CHARGE })
      }
    },
  )

  test("the prompt's usage counts, whatever its text says: R7, one event before the end", async () => {
    const messages = [{ role: "user", content: "QUJD".repeat(10_000) }]
    const begun = await begin("plain", { stream: true, messages })
    await begun.exchange.head(200, { "content-type": "text/event-stream" })
    await begun.exchange.chunk(text("one") + sseEvent(chatChunk({}, "stop")))
    await begun.client.receives('"stop"')
    begun.client.leave()
    await begun.exchange.chunk(sseEvent(usageChunk(usage(30_000, 5))) + DONE)
    expect(await closed(begun)).toMatchObject({
      state: "settled",
      ...LEFT,
      basis: "usage",
      charge: "0.03002",
    })
  })
})

describe("D9 auto: a stream that hides nothing", () => {
  test("is read on for leave_wait, then cut and estimated with its prompt", async () => {
    const begun = await beginStream("plain")
    const left_ms = begun.client.leave()
    expect(await within(LEAVE_WAIT_MS + CLOSED_MS, begun.exchange.closed)).toBe(true)
    expect((await begun.exchange.closed) - left_ms).toBeGreaterThanOrEqual(LEAVE_WAIT_MS - 10)
    expect(begun.exchange.closed_by).toBe("gateway")
    expect(await closed(begun)).toMatchObject({ state: "settled", ...LEFT, basis: "estimate" })
  })

  test("before any output: released, and no error of the gateway", async () => {
    const counts = async () => {
      const lines = (await gateway.metrics()).split("\n")
      const starting = (start: string) => lines.filter((line) => line.startsWith(start)).join()
      const left = starting(`tollgate_requests_total{route="${CHAT}",status="499"} `)
      return { left: Number(left.split(" ")[1] ?? 0), errors: starting("tollgate_errors_total") }
    }
    const before = await counts()
    const begun = await begin("plain", { stream: true })
    begun.client.leave()
    expect(await within(LEAVE_WAIT_MS + CLOSED_MS, begun.exchange.closed)).toBe(true)
    expect(await closed(begun)).toMatchObject({ state: "released", charge: "0", failure: "client_left" })
    await untilIs(counts, { left: before.left + 1, errors: before.errors })
  })

  test("abort: it is cut at once", async () => {
    const begun = await beginStream("aborting")
    begun.client.leave()
    expect(await within(CLOSED_MS, begun.exchange.closed)).toBe(true)
    expect(await closed(begun)).toMatchObject({ state: "settled", ...LEFT, basis: "estimate" })
  })
})

describe("D9 auto: a stream that may hide output is drained", () => {
  const REASONED = sseEvent(
    usageChunk({ ...usage(10, 5), completion_tokens_details: { reasoning_tokens: 3 } }),
  )

  /** The provider says nothing for longer than leave_wait, then the rest. */
  async function expectDrained(begun: Begun): Promise<void> {
    begun.client.leave()
    await Bun.sleep(LEAVE_WAIT_MS + CLOSED_MS)
    expect(begun.exchange.closed_by).toBeNull()
    await begun.exchange.chunk(text(" more") + sseEvent(chatChunk({}, "stop")) + REASONED + DONE)
    await begun.exchange.end()
    expect(await closed(begun)).toMatchObject({
      state: "settled",
      ...LEFT,
      basis: "usage",
      charge: USAGE_CHARGE,
    })
  }

  test("by its price for reasoning; its connection is used again", async () => {
    const begun = await beginStream("priced")
    await expectDrained(begun)
    const next = await beginStream("priced")
    expect(next.exchange.request.connection).toBe(begun.exchange.request.connection)
    await expectDrained(next)
  })

  test("by reasoning that the usage of this stream counts", async () => {
    const begun = await beginStream("learns", {}, REASONED)
    await expectDrained(begun)
  })

  test("by reasoning that an earlier call counted", async () => {
    const begun = await beginStream("learns")
    await expectDrained(begun)
  })

  test("by what only the provider knows of its prompt: what it adds, and files", async () => {
    const content = [{ type: "file", file: { file_data: dataUrl("application/pdf", pdf(2, "A page.")) } }]
    const requests = [
      { messages: [{ role: "user", content }] },
      { tools: [{ type: "mcp", server_url: "https://x" }] },
    ]
    const begun: Begun[] = []
    for (const more of requests) begun.push(await begin("wide", { stream: true, ...more }))
    await Promise.all(
      begun.map(async (one) => {
        await one.exchange.head(200, { "content-type": "text/event-stream" })
        await one.exchange.chunk(text("first"))
        await one.client.receives("first")
        await expectDrained(one)
      }),
    )
  })
})
