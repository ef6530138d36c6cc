import { describe, expect, test } from "bun:test"
import { chatModel, PRICE, PROVIDER_KEY } from "../support/gateway.ts"
import {
  aMessage,
  blockDelta,
  blockStart,
  blockStop,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  messageWords,
  namedEvent,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import { json, type Script } from "../support/provider.ts"
import { send } from "./client.ts"
import {
  expectLedger,
  type LedgerCall,
  NO_COMMENTS,
  released,
  SENTENCE,
  type Sees,
  seesError,
  seesJson,
  seesStream,
  settled,
  type Trial,
  testStage,
} from "./sides.ts"

/** Messages calls as all three sides see them (D64). */

const VERSION = { "anthropic-version": "2023-06-01" }
/** In nano-USD: 1,250 for a token written to the cache, 2,000 for an hour, 10,000,000 for a search. */
const RATES = { ...PRICE, cache_write: "1.25", cache_write_1h: "2.00", web_search: "0.01" }
const MODEL = "messages-model"
const body = (fields: object = {}) => ({
  model: MODEL,
  max_tokens: 1000,
  messages: [{ role: "user", content: "hello" }],
  ...fields,
})
const STREAM = body({ stream: true })

const stage = await testStage((url) => {
  const ways = { family: "messages", upstreams: [{ use: "first", model: "upstream-model" }] }
  return {
    ...NO_COMMENTS,
    upstreams: { first: { family: "messages", base_url: url, api_key: PROVIDER_KEY } },
    models: [
      chatModel(MODEL, ways),
      chatModel("rated-model", { ...ways, price: RATES, context_tokens: 200_000 }),
    ],
  }
})

const sending = { path: "/v1/messages", headers: VERSION }
const run = (trial: Trial) => stage.run({ body: body(), sending, ...trial })

/** The text of named events; a string stands as it is. */
function text(...events: readonly (string | { readonly type: string })[]): string {
  return events.map((event) => (typeof event === "string" ? event : namedEvent(event))).join("")
}

type Row = readonly [name: string, script: Script, sees: Sees, recorded: LedgerCall]

function holds(rows: readonly Row[], asked: object = STREAM): void {
  test.each(rows)("%s", async (_, script, sees, recorded) => {
    const sides = await run({ script, body: asked })
    sees(sides)
    expectLedger(sides, recorded)
  })
}

const CHARGED = settled("0.00003", [10, 0, 5])

describe("D64 a messages call", () => {
  test.each([
    ["/v1/messages", false],
    ["/v1/messages?beta=true", true],
    ["/anthropic/v1/messages", true],
    ["/anthropic/v1/messages?beta=true", false],
  ])("POST %s, stream %p: the provider is asked for the same, and its bytes pass", async (path, stream) => {
    const message = JSON.stringify(aMessage("hello there"))
    const events = messageWords("hello", " there")
    const script = stream ? namedEvents(events) : json(200, message)
    const headers = {
      ...VERSION,
      "anthropic-beta": "interleaved-thinking-2025-05-14",
      "anthropic-dangerous-direct-browser-access": "true",
      "x-stainless-lang": "js",
    }
    const asked = body({
      stream,
      system: [{ type: "text", text: "x", cache_control: { type: "ephemeral" } }],
    })
    const sides = await run({ script, body: asked, sending: { path, headers } })
    const sees = stream ? seesStream(text(...events)) : seesJson(message)
    sees(sides)
    const { requests, id } = sides
    expect(requests).toHaveLength(1)
    expect(requests[0]?.path).toBe(path.replace("/anthropic", ""))
    const { host, connection, "content-length": length, ...sent } = requests[0]?.headers ?? {}
    expect(sent).toEqual({
      accept: stream ? "text/event-stream, application/json" : "application/json",
      "accept-encoding": "identity",
      "anthropic-beta": "interleaved-thinking-2025-05-14",
      "anthropic-dangerous-direct-browser-access": "true",
      "anthropic-version": "2023-06-01",
      "content-type": "application/json",
      "user-agent": "tollgate",
      "x-api-key": PROVIDER_KEY,
      "x-request-id": id,
    })
    expect(requests[0]?.body).toBe(JSON.stringify({ ...asked, model: "upstream-model" }))
    expectLedger(sides, { ...CHARGED, held: "0.0041" })
  })

  test.each([
    ["no version header", { headers: {} }, {}, "anthropic-version"],
    ["no max_tokens", {}, { max_tokens: undefined }, "max_tokens"],
    [
      "a key of ours in a header",
      { headers: { ...VERSION, "anthropic-auth": "tg_live_x" } },
      {},
      "anthropic-auth",
    ],
    ["a key of ours in the query", { path: "/v1/messages?key=tg_live_x" }, {}, "query"],
  ])("%s is a 400, and no provider is asked", async (_, changes, fields, param) => {
    const { key } = await stage.gateway.account("1")
    const before = stage.provider.requests.length
    const { ended } = send(stage.gateway.url, key, body(fields), { ...sending, ...changes })
    const { status, json: said } = await ended
    expect(status).toBe(400)
    expect(said).toMatchObject({ error: { type: "invalid_request_error", param } })
    expect(stage.provider.requests).toHaveLength(before)
  })

  test("D21 a vendor that is not configured is a 404", async () => {
    const { key } = await stage.gateway.account("1")
    const { ended } = send(stage.gateway.url, key, body(), { ...sending, path: "/other/v1/messages" })
    expect((await ended).status).toBe(404)
  })

  test("D63 a messages model is not for chat completions, which says where it is", async () => {
    const { key } = await stage.gateway.account("1")
    const { status, json: said } = await send(stage.gateway.url, key, body()).ended
    expect(status).toBe(403)
    expect(said).toMatchObject({ error: { message: expect.stringContaining("POST /v1/messages.") } })
  })
})

describe("D64 usage", () => {
  const cached = messageUsage(10, 5, {
    cache_read_input_tokens: 100,
    cache_creation_input_tokens: 50,
    cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
    server_tool_use: { web_search_requests: 2 },
  })
  // 10 x 1,000 + 100 x 100 + 30 x 1,250 + 20 x 2,000 + 5 x 4,000 + 2 x 10,000,000
  const charge = "0.0201175"

  const SEARCH = [{ type: "web_search_20250305", name: "web_search" }]

  test("every part of it at its price, and every part on the receipt", async () => {
    const sides = await run({
      script: json(200, aMessage("hi", { usage: cached })),
      body: body({ model: "rated-model", tools: SEARCH }),
    })
    expectLedger(sides, { ...settled(charge, [160, 100, 5]), held: expect.any(String) })
    expect(sides.call.lines).toEqual([
      { kind: "input", count: 10, price: "1", cost: "0.00001" },
      { kind: "cached_input", count: 100, price: "0.1", cost: "0.00001" },
      { kind: "output", count: 5, price: "4", cost: "0.00002" },
      { kind: "cache_write", count: 30, price: "1.25", cost: "0.0000375" },
      { kind: "cache_write_1h", count: 20, price: "2", cost: "0.00004" },
      { kind: "web_search", count: 2, price: "0.01", cost: "0.02" },
    ])
  })

  test("in a stream, words that come after the usage are estimated", async () => {
    const start = messageStart({ ...cached, output_tokens: 1, server_tool_use: null })
    const late = textBlock(1, SENTENCE)
    const usage = messageDelta({ output_tokens: 5 })
    const events = [start, ...textBlock(0, "Hello", " there."), usage, ...late, MESSAGE_STOP]
    const sides = await run({ script: namedEvents(events), body: STREAM })
    seesStream(text(...events))(sides)
    // 60 x 1,000 + 100 x 100 + 5 x 4,000 nano-USD, and 11 tokens for 44 bytes.
    expectLedger(sides, settled("0.000134", [160, 100, 16], { basis: "partial", failure: "usage_missing" }))
  })
})

describe("D64 a stream that is cut pays for its input, and for the output that was seen", () => {
  const start = messageStart(messageUsage(10, 1))
  const lost = (charge: string, out: number) =>
    settled(charge, [10, 0, out], { basis: "partial", ending: "upstream_lost", failure: "upstream_lost" })
  holds([
    [
      "by an error event, whose words pass",
      namedEvents([
        start,
        { type: "error", ...{ error: { type: "overloaded_error", message: "Overloaded" } } },
      ]),
      ({ answer }) =>
        expect(answer.body).toEndWith(
          `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded","param":null,"code":"upstream_error"},"request_id":"${answer.headers["request-id"]}"}\n\n`,
        ),
      lost("0.00001", 0),
    ],
    [
      "but not after its stop_reason: a missing message_stop is added (D8)",
      namedEvents(messageWords("hello").slice(0, -1)),
      seesStream(text(...messageWords("hello"))),
      CHARGED,
    ],
  ])
})

describe("D64 what passes and what counts", () => {
  test("D32 message_stop leaves as the provider sent it, with what else it says", async () => {
    const stop = 'event: message_stop\r\ndata: {"type":"message_stop","metrics":{"latency":1}}\r\n\r\n'
    const events = [...messageWords("hello").slice(0, -1), stop]
    const sides = await run({ script: namedEvents([...events, "event: late\ndata: {}\n\n"]), body: STREAM })
    // The LF of a CRLF after the last event has nothing to belong to.
    expect(sides.answer.body.trimEnd()).toBe(text(...events).trimEnd())
    expectLedger(sides, CHARGED)
  })

  test("D29 a JSON answer to a stream request becomes the events that say the same", async () => {
    const content = [
      { type: "thinking", thinking: "Hm.", signature: "sig" },
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
    ]
    const message = aMessage("", { content, stop_reason: "tool_use" })
    const sides = await run({ script: json(200, message), body: STREAM })
    const { content: _, ...rest } = message
    seesStream(
      text(
        {
          type: "message_start",
          ...{
            message: {
              ...without(rest, "stop_reason", "stop_sequence"),
              content: [],
              stop_reason: null,
              stop_sequence: null,
            },
          },
        },
        blockStart(0, { type: "thinking", thinking: "", signature: "" }),
        blockDelta(0, { type: "thinking_delta", thinking: "Hm." }),
        blockDelta(0, { type: "signature_delta", signature: "sig" }),
        blockStop(0),
        ...textBlock(1, "Let me look."),
        blockStart(2, { type: "tool_use", id: "toolu_1", name: "weather", input: {} }),
        blockDelta(2, { type: "input_json_delta", partial_json: '{"city":"Bern"}' }),
        blockStop(2),
        messageDelta(message.usage, "tool_use"),
        MESSAGE_STOP,
      ),
    )(sides)
    expectLedger(sides, CHARGED)
  })
})

function without(object: object, ...names: readonly string[]): object {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)))
}

describe("D64 JSON answers", () => {
  test("a call that only fills the cache holds no more output than one token", async () => {
    const sides = await run({
      script: json(200, aMessage("", { usage: messageUsage(9, 0) })),
      body: body({ max_tokens: 0 }),
    })
    const bytes = Buffer.byteLength(JSON.stringify(body().messages))
    expect(sides.call).toMatchObject({ state: "settled", held: `0.0000${bytes + 4}` })
  })
  holds(
    [
      [
        "D10 an error in a 200",
        json(200, { type: "error", error: { type: "api_error", message: "x" } }),
        seesError("upstream_error"),
        released("upstream_error"),
      ],
    ],
    body(),
  )
})

describe("D64 a provider's errors pass as they are", () => {
  const refusal = (type: string, message = "prompt is too long: 210000 tokens > 200000 maximum") => ({
    type: "error",
    error: { type, message, details: { error_visibility: "user_facing" } },
    request_id: "req_011CS",
  })
  test.each([
    [400, "invalid_request_error"],
    [429, "rate_limit_error"],
    [500, "api_error"],
    [529, "overloaded_error"],
  ])("%d %s", async (status, type) => {
    for (const stream of [false, true]) {
      // Breakers count failures in a row (D33): an answer in between keeps them shut.
      await run({ script: json(200, aMessage("x")) })
      const said = JSON.stringify(refusal(type))
      const sides = await run({ script: json(status, said, { "retry-after": "7" }), body: body({ stream }) })
      expect([sides.answer.status, sides.answer.body]).toEqual([status, said])
      const { "content-type": content_type, "x-request-id": id, "request-id": same } = sides.answer.headers
      expect([content_type, id, same]).toEqual(["application/json", sides.id, sides.id])
      expect(sides.answer.headers["retry-after"]).toBe("7")
      expect(sides.call).toMatchObject({ state: "released", charge: "0" })
    }
  })

  test.each([600, 999])("D17 %d, which is no status of HTTP: 502", async (status) => {
    const { answer } = await run({ script: json(status, JSON.stringify(refusal("api_error"))) })
    expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([502, "upstream_error"])
  })

  test("D43 an Idempotency-Key stands for the headers and the query that are forwarded, too", async () => {
    const { key } = await stage.gateway.account("1")
    stage.provider.replyOnce(json(200, aMessage("once")))
    const again = async (headers: Record<string, string>, path = "/v1/messages?beta=true") => {
      const sent = { "idempotency-key": "order-1", ...VERSION, ...headers }
      const { body: answered } = await send(stage.gateway.url, key, body(), { path, headers: sent }).ended
      return JSON.parse(answered).error?.code ?? "made"
    }
    const beta = { "anthropic-beta": "one" }
    expect(await again(beta)).toBe("made")
    expect(await again(beta)).toBe("idempotency_key_used")
    for (const headers of [{}, { "anthropic-beta": "two" }, { ...beta, "anthropic-version": "2023-06-02" }])
      expect(await again(headers)).toBe("idempotency_key_reused")
    expect(await again(beta, "/v1/messages")).toBe("idempotency_key_reused")
    expect(await again({ ...beta, "user-agent": "another" })).toBe("idempotency_key_used")
  })

  test("without the gateway's credential", async () => {
    const script = json(400, refusal("invalid_request_error", `the key ${PROVIDER_KEY} is x`))
    const { answer } = await run({ script })
    expect(answer.json).toEqual(refusal("invalid_request_error", "the key [redacted] is x"))
  })

  test.each([
    [401, refusal("authentication_error")],
    [403, refusal("permission_error")],
    [500, "<html>"],
  ])("but not what is about that credential, or no JSON error: %d", async (status, said) => {
    await run({ script: json(200, aMessage("x")) })
    const sides = await run({ script: json(status, said) })
    seesError("upstream_error")(sides)
  })
})

describe("D61 what has no price is refused before a provider is asked", () => {
  const HOUR = { type: "ephemeral", ttl: "1h" }
  const saying = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })
  test.each<[string, object, string, string]>([
    ["a service tier", { service_tier: "priority" }, "service_tier", "service_tier"],
    [
      "a cache of an hour in the system prompt",
      { system: [{ type: "text", text: "x", cache_control: HOUR }] },
      "system",
      "cache_write_1h",
    ],
  ])("%s", async (_, fields, param, missing) => {
    const { key } = await stage.gateway.account("1")
    const before = stage.provider.requests.length
    const { status, json: said } = await send(stage.gateway.url, key, body(fields), sending).ended
    expect(status).toBe(400)
    expect(said).toMatchObject({ error: { param, missing } })
    expect(stage.provider.requests).toHaveLength(before)
  })

  test("D60 a cache of an hour passes where it has a price, is held at that, and is charged so without a split", async () => {
    const fields = { ...saying({ type: "text", text: "x", cache_control: HOUR }), model: "rated-model" }
    const bytes = Buffer.byteLength(JSON.stringify(fields.messages))
    const written = messageUsage(10, 5, { cache_creation_input_tokens: 30 })
    const stream = [messageStart(written), ...messageWords("hi").slice(1)]
    // 10 x 1,000 + 30 x 2,000 + 5 x 4,000
    for (const [script, more] of [
      [json(200, aMessage("hi", { usage: written })), {}],
      [namedEvents(stream), { stream: true }],
    ] as const) {
      const { answer, call } = await run({ script, body: body({ ...fields, ...more }) })
      expect(answer.status).toBe(200)
      expect(call).toMatchObject({ held: `0.00${4_000 + 2 * bytes}`, charge: "0.00009" })
    }
  })
})

describe("D65 the session and the agent of a call", () => {
  const named = (session: string, agent?: string) => ({
    ...VERSION,
    "x-claude-code-session-id": session,
    ...(agent !== undefined && { "x-claude-code-agent-id": agent }),
  })
  const call = (headers: Record<string, string>, usd?: string) =>
    run({
      script: json(200, aMessage("hi")),
      sending: { ...sending, headers },
      ...(usd !== undefined && { usd }),
    })

  test("are on its receipt, and do not reach the provider", async () => {
    const sides = await call(named("7a3c-41.x:y_z", "agent-1"))
    expectLedger(sides, CHARGED)
    expect(sides.call).toMatchObject({ session_id: "7a3c-41.x:y_z", agent_id: "agent-1" })
    expect(JSON.stringify(sides.requests)).not.toContain("7a3c-41")
  })

  test.each([
    ["a space", "a b"],
    ["a comma", "a,b"],
    ["too long", "x".repeat(129)],
    ["no word for the ledger", "NULL"],
    ["empty", ""],
  ])("are left out where they cannot be recorded: %s", async (_, session) => {
    const sides = await call(named(session))
    expectLedger(sides, CHARGED)
    expect(sides.call).toMatchObject({ session_id: null, agent_id: null })
  })

  test("are what calls are listed and summed by", async () => {
    const { id: account_id, key } = await stage.gateway.account("1")
    const sent = async (headers: Record<string, string>) => {
      stage.provider.replyOnce(json(200, aMessage("hi")))
      return (await send(stage.gateway.url, key, body(), { ...sending, headers }).ended).headers[
        "x-request-id"
      ]
    }
    const first = [await sent(named("one")), await sent(named("one", "a"))]
    await sent(named("two"))
    await sent(VERSION)
    await stage.gateway.endedCalls(account_id, 4)
    const listed = await stage.gateway.calls(`?account=${account_id}&session=one`)
    expect(listed.map(({ id }) => id)).toEqual(first.toReversed())
    const sums = { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 5, overage: "0" }
    const expected = {
      by: "session",
      data: [
        {
          group: "one",
          name: null,
          calls: 2,
          charge: "0.00006",
          ...sums,
          prompt_tokens: 20,
          completion_tokens: 10,
        },
        { group: "", name: null, calls: 1, charge: "0.00003", ...sums },
        { group: "two", name: null, calls: 1, charge: "0.00003", ...sums },
      ],
      total: { calls: 4, charge: "0.00012" },
    }
    expect(await stage.gateway.own("/v1/usage?by=session", key)).toMatchObject(expected)
    expect(await stage.gateway.admin("GET", `/usage?by=session&account=${account_id}`)).toMatchObject(
      expected,
    )
  })
})
