import { describe, expect, test } from "bun:test"
import { chatModel, EARLY_COMMENTS, PROVIDER_KEY } from "../support/gateway.ts"
import {
  chatCompletion,
  chatWords,
  json,
  READ_MS,
  type Script,
  silent,
  sse,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { send } from "./client.ts"
import {
  CANARY,
  estimated,
  expectCut,
  expectLedger,
  expectSent,
  expectSides,
  holdsFor,
  type LedgerCall,
  NO_COMMENTS,
  openStage,
  passed,
  type Row,
  released,
  SENTENCE,
  seesError,
  seesJson,
  seesStream,
  settled,
  streamText,
  testStage,
} from "./sides.ts"
import { INVALID_USAGE } from "./usages.ts"

/** The rulings on JSON answers as both sides see them: what is usage, what is output, what is an answer at all. */

const DONE = "data: [DONE]\n\n"
const DEEP = `{"choices":[{"message":{"content":${"[".repeat(30_000)}${"]".repeat(30_000)}}}]}`
const RESPONSE_LIMIT = 65_536
const READ_LIMIT = 4 * RESPONSE_LIMIT

const stage = await testStage((url) => ({
  ...NO_COMMENTS,
  limits: { response: `${RESPONSE_LIMIT / 1024}KiB`, response_read: `${READ_LIMIT / 1024}KiB` },
  upstreams: {
    first: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
    hasty: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY, timeouts: { total: "200ms" } },
  },
  models: [
    chatModel("chat-model"),
    chatModel("two-bytes", { bytes_per_token: 2 }),
    chatModel("half-bytes", { bytes_per_token: 1.5 }),
    chatModel("prompting", { estimate: { prompt: "always" } }),
    chatModel("hasty", { upstreams: [{ use: "hasty", model: "upstream-model" }] }),
  ],
}))

const holds = (rows: readonly Row[], body?: object) => holdsFor(stage, rows, body)

/** A completion that says `SENTENCE` and whose usage is the JSON text given. */
function withUsage(text: string): string {
  return JSON.stringify(chatCompletion(SENTENCE, { usage: "here" })).replace('"here"', text)
}

/** Bytes of any kind as a body of the right length. */
function bytes(body: Uint8Array): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "application/json" }, { length: body.length })
    await exchange.chunk(body)
    await exchange.end()
  }
}

/** A body that promises more than it brings, and how its connection then goes. */
function cut(text: string, framing: "chunked" | { length: number }, how: "reset" | "close"): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "application/json" }, framing)
    if (text !== "") await exchange.chunk(text)
    await Bun.sleep(READ_MS)
    exchange[how]()
  }
}

describe("D1, rule 2 usage that is not valid is not used, nothing is coerced, and the answer passes", () => {
  holds(INVALID_USAGE.map(([why, text]) => passed(why, withUsage(text), estimated(11, "usage_invalid"))))
  holds([
    passed("null is missing", withUsage("null"), estimated(11, "usage_missing")),
    passed(
      "absent is missing",
      chatCompletion(SENTENCE, { usage: undefined }),
      estimated(11, "usage_missing"),
    ),
  ])
  const counts = (prompt: string, completion: string) =>
    withUsage(`{"prompt_tokens":${prompt},"completion_tokens":${completion}}`)
  holds([
    passed("9.0 and 1e1 are whole numbers", counts("9.0", "1e1"), settled("0.000049", [9, 0, 10])),
    passed("-0 is 0", counts("-0", "1"), settled("0.000004", [0, 0, 1])),
  ])
})

describe("D2 zero is a number, but beside output 0/0 is a placeholder", () => {
  const nothing = { ...chatCompletion("", { usage: usage(0, 0) }) }
  holds([
    passed(
      "0/0 with output",
      chatCompletion(SENTENCE, { usage: usage(0, 0) }),
      estimated(11, "usage_invalid", { notes: ["usage_placeholder"] }),
    ),
    passed("0/0 without output", nothing, settled("0", [0, 0, 0])),
    passed(
      "0 completion tokens with output",
      chatCompletion(SENTENCE, { usage: usage(9, 0) }),
      settled("0.000009", [9, 0, 0]),
    ),
    passed(
      "0 prompt tokens",
      chatCompletion(SENTENCE, { usage: usage(0, 2) }),
      settled("0.000008", [0, 0, 2]),
    ),
  ])
})

describe("D3 cached tokens are part of the prompt's, clamped to them, and never a reason to doubt the rest", () => {
  const cached = (details: unknown) =>
    chatCompletion("hi", {
      usage: { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: details },
    })
  const uncached = settled("0.00003", [10, 0, 5])
  const malformed = { ...uncached, notes: ["cached_malformed"] }
  holds([
    passed("some", cached({ cached_tokens: 4 }), settled("0.0000264", [10, 4, 5])),
    passed("all", cached({ cached_tokens: 10 }), settled("0.000021", [10, 10, 5])),
    passed(
      "more than all",
      cached({ cached_tokens: 11 }),
      settled("0.000021", [10, 10, 5], { notes: ["cached_clamped"] }),
    ),
    passed("null", cached({ cached_tokens: null }), uncached),
    passed("absent", cached({ text_tokens: 3 }), uncached),
    passed("no details", cached(null), uncached),
    passed("malformed", cached({ cached_tokens: "4" }), malformed),
    passed("details that are no object", cached([4]), malformed),
  ])
})

describe("D5, rule 3, spec 7 blank is usage_missing", () => {
  const missing = [seesError(502, "usage_missing"), released("usage_missing")] as const
  holds([
    ["no bytes", json(200, ""), ...missing],
    [
      "no bytes, chunked",
      sse([], { done: false, headers: { "content-type": "application/json" } }),
      ...missing,
    ],
    [
      "204",
      async (exchange) => {
        await exchange.head(204, {}, { length: 0 })
        await exchange.end()
      },
      ...missing,
    ],
    ["white space", json(200, " \t\r\n \n"), ...missing],
    ["a BOM", bytes(Buffer.from("\ufeff")), ...missing],
    ["a BOM and white space", bytes(Buffer.from("\ufeff \n")), ...missing],
  ])
})

describe("D5, rule 3, spec 7 whatever else is no JSON object is usage_invalid", () => {
  const invalid = [seesError(502, "usage_invalid"), released("usage_invalid")] as const
  const lost = [
    seesError(502, "usage_invalid"),
    released("usage_invalid", { ending: "upstream_lost" }),
  ] as const
  const whole = JSON.stringify(chatCompletion(CANARY))
  holds([
    ["HTML", json(200, `<html><p>${CANARY}</p></html>`, { "content-type": "text/html" }), ...invalid],
    ["truncated", json(200, whole.slice(0, -1)), ...invalid],
    ["more after it", json(200, `${whole}{}`), ...invalid],
    ["an array", json(200, `[${whole}]`), ...invalid],
    ["null", json(200, "null"), ...invalid],
    ["a string", json(200, `"${CANARY}"`), ...invalid],
    ["a number", json(200, "5"), ...invalid],
    ["true", json(200, "true"), ...invalid],
    ["NaN in it", json(200, `{"x":NaN,"choices":["${CANARY}"]}`), ...invalid],
    ["bad UTF-8", bytes(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), ...invalid],
    ["UTF-16", bytes(Buffer.from(`\ufeff${whole}`, "utf16le")), ...invalid],
    ["an event stream that is cut", sse(chatWords(CANARY).slice(0, -1), { done: false }), ...invalid],
    ["cut by a reset", cut(whole.slice(0, 60), { length: whole.length }, "reset"), ...lost],
    [
      "cut by a close: too short for its length",
      cut(whole.slice(0, 60), { length: whole.length }, "close"),
      ...lost,
    ],
    ["cut by a close: no last chunk", cut(whole.slice(0, 60), "chunked", "close"), ...lost],
    ["cut though its object is whole", cut(whole, { length: whole.length + 1 }, "reset"), ...lost],
    ["nothing, then a reset", cut("", { length: 100 }, "reset"), ...lost],
    ["nothing, then a close", cut("", "chunked", "close"), ...lost],
    ["white space, then a reset", cut("\r\n", { length: 100 }, "reset"), ...lost],
  ])

  const padded = (size: number) => withUsage('{"prompt_tokens":9,"completion_tokens":5}').padEnd(size)
  holds([
    passed("limits.response is the largest body", padded(RESPONSE_LIMIT), settled("0.000029", [9, 0, 5])),
    [
      "a page over limits.response",
      json(200, CANARY.repeat(10_000), { "content-type": "text/html" }),
      ...invalid,
    ],
    [
      "an object over limits.response that ends within, in a whole body",
      json(
        200,
        JSON.stringify(chatCompletion("x".repeat(RESPONSE_LIMIT), { usage: usage(9, 5) })).slice(0, -9),
      ),
      ...invalid,
    ],
    [
      "an object over limits.response that does not arrive whole",
      cut(whole.padEnd(2 * RESPONSE_LIMIT).slice(0, -1), "chunked", "close"),
      ...lost,
    ],
  ])
})

describe("D5 an answer over limits.response is charged, and not delivered", () => {
  const too_large = seesError(502, "response_too_large")
  const noted = { notes: ["response_too_large"] }
  const large = (reported: unknown) =>
    JSON.stringify({ ...chatCompletion("x".repeat(RESPONSE_LIMIT), { usage: undefined }), usage: reported })
  const charged = settled("0.000029", [9, 0, 5], { failure: "upstream_error", ...noted })
  holds([
    [
      "by its usage",
      json(200, withUsage('{"prompt_tokens":9,"completion_tokens":5}').padEnd(RESPONSE_LIMIT + 1)),
      too_large,
      charged,
    ],
    ["by its usage, behind all output", json(200, large(usage(9, 5))), too_large, charged],
    ["by its usage, chunked", sse([large(usage(9, 5))], { done: false }), too_large, charged],
    [
      "rule 2: without usage by its output, as far as the hold goes",
      json(200, large(undefined)),
      too_large,
      estimated(1_008, "usage_missing", noted),
    ],
    [
      "D1 by as much of its usage as can be",
      json(200, large(usage(1_000_000, 5))),
      too_large,
      settled("0.131127", [131_107, 0, 5], {
        failure: "upstream_error",
        overage: "0.127092",
        notes: ["response_too_large", "usage_implausible", "overage"],
      }),
    ],
  ])

  test("beyond limits.response_read by what was read, and the provider is cut", async () => {
    const endless: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "application/json" })
      await exchange.chunk(`{"usage":${JSON.stringify(usage(9, 5))},"choices":[{"message":{"content":"`)
      while (await exchange.chunk(CANARY.repeat(1_000)));
    }
    await expectSides(stage, { script: endless }, too_large, charged)
    await expectCut(stage)
  })

  test("D43 it is not kept for its Idempotency-Key, and the call is not made again", async () => {
    const { gateway, provider } = stage
    const { key } = await gateway.account("1")
    const headers = { "idempotency-key": "large" }
    provider.replyOnce(json(200, large(usage(9, 5))))
    expect((await send(gateway.url, key, chatBody(), { headers }).ended).status).toBe(502)
    const again = await send(gateway.url, key, chatBody(), { headers }).ended
    expect({ status: again.status, body: again.body }).toEqual({
      status: 400,
      body: expect.stringContaining("idempotency_key_used"),
    })
  })
})

describe("D6 an output estimate: at least one token, rounded down, charged alone, never above the hold", () => {
  const said = (content: string) => chatCompletion(content, { usage: undefined })
  holds([
    passed("3 bytes", said("abc"), estimated(1, "usage_missing")),
    passed("7 bytes", said("abcdefg"), estimated(1, "usage_missing")),
    passed("8 bytes", said("abcdefgh"), estimated(2, "usage_missing")),
    passed("UTF-8 bytes, not characters", said("ééé😀"), estimated(2, "usage_missing")),
    passed(
      "as the text is, not as it is escaped",
      JSON.stringify(said("ééé😀")).replace("é", "\\u00e9"),
      estimated(2, "usage_missing"),
    ),
    passed("white space counts", said(" ".repeat(8)), estimated(2, "usage_missing")),
    passed(
      "D7 every choice, and the name and arguments of its calls",
      {
        choices: [
          { message: { content: "12345678" } },
          { index: 1, message: { tool_calls: [{ function: { name: "look", arguments: "{}  " } }] } },
        ],
      },
      estimated(4, "usage_missing"),
    ),
  ])

  test.each([
    ["bytes_per_token", { model: "two-bytes" }, estimated(22, "usage_missing")],
    ["bytes_per_token, not whole", { model: "half-bytes" }, estimated(29, "usage_missing")],
    [
      "estimate.prompt: the prompt's 35 bytes too",
      { model: "prompting" },
      estimated(11, "usage_missing", {
        charge: "0.000052",
        usage: { prompt_tokens: 8, cached_tokens: 0, completion_tokens: 11 },
      }),
    ],
    [
      "no more than the hold pays for",
      { max_tokens: 1 },
      estimated(9, "usage_missing", { held: "0.000039" }),
    ],
    [
      "no more than the hold pays for, the prompt first",
      { max_tokens: 1, model: "prompting" },
      estimated(7, "usage_missing", {
        held: "0.000039",
        charge: "0.000036",
        usage: { prompt_tokens: 8, cached_tokens: 0, completion_tokens: 7 },
      }),
    ],
  ])("%s", async (_, fields, recorded) => {
    const text = JSON.stringify(said(SENTENCE))
    await expectSides(stage, { script: json(200, text), body: chatBody(fields) }, seesJson(text), recorded)
  })
})

describe("D10 an error object in a 2xx is an upstream failure", () => {
  const failed = [seesError(502, "upstream_error"), released("upstream_error")] as const
  const completion = chatCompletion(SENTENCE, { usage: usage(10, 5) })
  holds([
    ["an error", json(200, { error: { message: CANARY, code: CANARY } }), ...failed],
    ["a text", json(200, { error: CANARY }), ...failed],
    ["with empty choices", json(200, { error: { message: CANARY }, choices: [] }), ...failed],
    ["with invalid usage", json(200, { error: { message: CANARY }, usage: {} }), ...failed],
    passed(
      "rule 1: with usage it is an answer",
      { error: { message: "x" }, usage: usage(10, 5) },
      settled("0.00003", [10, 0, 5]),
    ),
    passed(
      "rule 1: with usage and empty choices too",
      { error: { message: "x" }, choices: [], usage: usage(10, 5) },
      settled("0.00003", [10, 0, 5]),
    ),
    passed("null is none", { ...completion, error: null }, settled("0.00003", [10, 0, 5])),
    passed("beside choices it is an answer", { ...completion, error: {} }, settled("0.00003", [10, 0, 5])),
    passed("null, without choices or usage", { error: null }, estimated(1, "usage_missing")),
    passed("false, without choices or usage", { error: false }, estimated(1, "usage_missing")),
  ])
})

describe("D11 more than was held is charged in full", () => {
  test.each([
    [
      "a little",
      "1",
      usage(3_000, 300),
      settled("0.0042", [3_000, 0, 300], { overage: "0.000165", notes: ["overage"] }),
    ],
    [
      "into the negative",
      "0.005",
      usage(5_000, 1_000),
      settled("0.009", [5_000, 0, 1_000], { overage: "0.004965", notes: ["overage"] }),
    ],
    [
      "up to the bounds of D1",
      "1",
      usage(35 + 131_072, 32_768),
      settled("0.262179", [131_107, 0, 32_768], { overage: "0.258144", notes: ["overage"] }),
    ],
    [
      "exactly what was held is no overage",
      "0.004035",
      usage(35, 1_000),
      settled("0.004035", [35, 0, 1_000]),
    ],
  ])("%s", async (_, usd, reported, recorded) => {
    const text = JSON.stringify(chatCompletion("hi", { usage: reported }))
    await expectSides(stage, { script: json(200, text), usd }, seesJson(text), recorded)
  })

  const beyond: [string, object, string, string, [number, number, number]][] = [
    ["a prompt", usage(35 + 131_073, 5), "0.131127", "0.127092", [131_107, 0, 5]],
    ["an output", usage(35, 32_769), "0.131107", "0.127072", [35, 0, 32_768]],
    ["a fortune", usage(100_000_000, 100_000_000), "0.262179", "0.258144", [131_107, 0, 32_768]],
  ]
  test.each(beyond)(
    "D1 %s beyond what can be is charged at its bound, with a warning",
    async (_, reported, usd, overage, tokens) => {
      const text = JSON.stringify(chatCompletion(SENTENCE, { usage: reported }))
      const sides = await stage.run({ script: json(200, text) })
      seesJson(text)(sides)
      expectLedger(sides, settled(usd, tokens, { overage, notes: ["usage_implausible", "overage"] }))
      const warned = stage.gateway.lines.map((line): { level: number; request_id?: string } =>
        JSON.parse(line),
      )
      expect(warned.filter(({ request_id, level }) => request_id === sides.id && level === 40)).toHaveLength(
        1,
      )
    },
  )

  test("the next reservation is refused", async () => {
    const { gateway, provider } = stage
    const { key } = await gateway.account("0.005")
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(5_000, 1_000) })))
    expect((await send(gateway.url, key, chatBody()).ended).status).toBe(200)
    const before = provider.requests.length
    const answer = await send(gateway.url, key, chatBody({ max_tokens: 1 })).ended
    seesError(402, "insufficient_balance", {
      type: "billing_error",
      needed: "0.000039",
      available: "-0.004",
    })({
      answer,
      id: answer.headers["x-request-id"] ?? "",
    })
    expect(provider.requests.length).toBe(before)
  })
})

describe("D18 the request passes upstream as it was billed", () => {
  const completion = JSON.stringify(chatCompletion("hi", { usage: usage(10, 5) }))

  test("unknown fields pass unchanged at every depth", async () => {
    const unknown = { a: [{ b: { c: [null, true, 1.5, "é\u2028\n", { "": [] }] } }], __proto__x: 0 }
    const body = {
      vendor_option: unknown,
      ...chatBody({
        messages: [
          {
            role: "user",
            content: [{ type: "text", text: "hello", cache_control: unknown }],
            name: null,
            x: unknown,
          },
        ],
        metadata: { x: unknown },
        temperature: 0,
        constructor: "c",
        stream_options: null,
      }),
    }
    const sides = await stage.run({ script: json(200, completion), body })
    seesJson(completion)(sides)
    expectSent(sides, body)
    expect(sides.call).toMatchObject({ state: "settled", charge: "0.00003" })
  })

  test("duplicate keys: the last wins, and what was billed is what is sent", async () => {
    const { gateway, provider } = stage
    const { id, key } = await gateway.account("1")
    provider.replyOnce(json(200, completion))
    const text = `{"model":"no-model","max_tokens":1000,"messages":[{"role":"user","content":"${"x".repeat(500)}"}],
      "max_tokens":2,"model":"chat-model","n":100,"n":2,"messages":[{"role":"system","role":"user","content":"hello"}]}`
    const answer = await send(gateway.url, key, text).ended
    expect(answer.body).toBe(completion)
    expect(provider.requests.at(-1)?.body).toBe(
      '{"model":"upstream-model","max_tokens":2,"messages":[{"role":"user","content":"hello"}],"n":2}',
    )
    // 35 bytes of prompt, two choices of two tokens.
    expect(await gateway.calls(`?account=${id}`)).toMatchObject([{ held: "0.000051", charge: "0.00003" }])
  })

  test("a key named __proto__ is data", async () => {
    const { gateway, provider } = stage
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, completion))
    const text =
      '{"model":"chat-model","messages":[{"role":"user","content":"hi","__proto__":{"x":1}}],"__proto__":{"y":2}}'
    expect((await send(gateway.url, key, text).ended).status).toBe(200)
    expect(provider.requests.at(-1)?.body).toBe(text.replace("chat-model", "upstream-model"))
  })
})

describe("D24 the provider's bytes pass unchanged, its headers do not", () => {
  const charged = settled("0.00003", [10, 0, 5])
  const compact = JSON.stringify(chatCompletion("é😀", { usage: usage(10, 5) }))
  holds([
    passed(
      "spaces and lines",
      JSON.stringify(chatCompletion("hi", { usage: usage(10, 5) }), null, "\t"),
      charged,
    ),
    passed(
      "escapes and numbers as they were written",
      compact.replace("é", "\\u00E9").replace("1760000000", "1.76e9"),
      charged,
    ),
    passed(
      "duplicate keys: the last is read, both pass",
      compact.replace('"usage"', '"usage":{},"usage"'),
      charged,
    ),
    passed("a BOM", `\ufeff${compact}`, charged),
    passed("a foreign content type", compact, charged, { "content-type": "text/plain; charset=latin1" }),
    passed("no header of the provider's", compact, charged, {
      server: "nginx",
      "set-cookie": "a=b",
      "x-request-id": "theirs",
      "openai-organization": "org",
      "x-ratelimit-remaining-tokens": "5",
      "cache-control": "public",
      "content-encoding": "identity",
      "retry-after": "7",
    }),
  ])

  test("a body that comes in many pieces, cut within characters", async () => {
    const script: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "application/json" })
      for (const byte of Buffer.from(compact)) await exchange.chunk(Uint8Array.of(byte))
      await exchange.end()
    }
    await expectSides(stage, { script }, seesJson(compact), charged)
  })
})

describe("D29 a stream request is answered as a stream", () => {
  const body = chatBody({ stream: true, stream_options: { include_usage: true } })
  const streamed = (
    name: string,
    type: string,
    answer: unknown,
    shown: string,
    recorded: LedgerCall,
  ): Row => [
    name,
    json(200, typeof answer === "string" ? answer : JSON.stringify(answer), { "content-type": type }),
    seesStream(shown),
    recorded,
  ]
  const whole = chatCompletion(SENTENCE, { usage: usage(10, 5) })
  const chunk = (completion: object, delta: object) => ({
    ...completion,
    object: "chat.completion.chunk",
    choices: [{ index: 0, logprobs: null, finish_reason: "stop", delta }],
  })
  const said = { role: "assistant", content: SENTENCE, refusal: null }
  const shown = streamText(chunk(whole, said), DONE)
  const charged = settled("0.00003", [10, 0, 5])
  const words = chatWords(SENTENCE)
  const events = streamText(...words, usageChunk(usage(10, 5)), DONE)
  const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } }
  const calling = { role: "assistant", content: null, tool_calls: [call] }
  const unfinished = { usage: usage(10, 5), choices: [{ index: 0, message: { content: "hi" } }] }
  const nothing = released("no_output", { ending: "upstream_lost" })
  holds(
    [
      streamed("a JSON object is one chunk and [DONE]", "application/json", whole, shown, charged),
      streamed("whatever its label", "text/event-stream", whole, shown, charged),
      streamed(
        "in white space",
        "application/json",
        ` \n${JSON.stringify(whole, null, 2)}\n`,
        shown,
        charged,
      ),
      streamed(
        "without a finish_reason too",
        "application/json",
        unfinished,
        streamText({ usage: usage(10, 5), choices: [{ index: 0, delta: { content: "hi" } }] }, DONE),
        charged,
      ),
      streamed(
        "calls of tools have their index",
        "application/json",
        { ...whole, choices: [{ index: 0, message: calling }] },
        streamText(
          {
            ...whole,
            object: "chat.completion.chunk",
            choices: [{ index: 0, delta: { ...calling, tool_calls: [{ index: 0, ...call }] } }],
          },
          DONE,
        ),
        charged,
      ),
      streamed(
        "an event stream labelled JSON",
        "application/json",
        events,
        streamText(...words, usageChunk(usage(10, 5)), DONE),
        charged,
      ),
      streamed(
        "rule 4: usage missing",
        "application/json",
        { ...whole, usage: undefined },
        streamText(chunk(chatCompletion(SENTENCE, { usage: undefined }), said), DONE),
        estimated(11, "usage_missing"),
      ),
      streamed("rule 6: the empty object", "application/json", "{}", "", released("no_output")),
      streamed("rule 6: blank", "application/json", "", "", nothing),
      streamed("rule 6: white space", "application/json", " \r\n ", "", nothing),
      streamed("rule 6: malformed", "application/json", `["${CANARY}"]`, "", nothing),
      streamed("rule 6: truncated", "application/json", `{"x":"${CANARY}`, "", nothing),
      streamed(
        "rule 6, D41: nested so deep that it takes seconds to print",
        "application/json",
        DEEP,
        "",
        nothing,
      ),
      streamed("rule 6: HTML", "text/html", `<html>${CANARY}</html>`, "", nothing),
      streamed(
        "rule 6, D10: an error",
        "application/json",
        { error: CANARY },
        "",
        released("upstream_error", { ending: "upstream_lost" }),
      ),
      [
        "rule 6: cut in the middle",
        cut(JSON.stringify(whole).slice(0, 60), { length: 500 }, "reset"),
        seesStream(""),
        released("upstream_error", { ending: "upstream_lost" }),
      ],
      streamed(
        "D5: an object over limits.response is charged by its usage, and an error",
        "application/json",
        chatCompletion("x".repeat(RESPONSE_LIMIT), { usage: usage(10, 5) }),
        sseEvent({
          error: {
            type: "api_error",
            message:
              "The provider's response is too large to deliver. The call was charged. Request less output, or use streaming.",
            param: null,
            code: "response_too_large",
          },
        }),
        {
          ...charged,
          failure: "upstream_lost",
          ending: "upstream_lost",
          notes: ["response_too_large"],
        },
      ),
      streamed(
        "rule 6, D5: an object over limits.response that ends within, in a whole body",
        "application/json",
        JSON.stringify(chatCompletion("x".repeat(RESPONSE_LIMIT), { usage: usage(10, 5) })).slice(0, -9),
        "",
        nothing,
      ),
    ],
    body,
  )

  test("D49 the cost is told in a chunk of its own", async () => {
    const script = json(200, whole)
    const asking = chatBody({ stream: true, usage: { include: true } })
    const { answer, call } = await stage.run({ script, body: asking })
    expect(answer.body).toContain('"cost":0.00003}')
    expect(answer.body.split("\n\n").filter((event) => event.includes('"usage":{'))).toHaveLength(1)
    expect(call).toMatchObject({ charge: "0.00003" })
  })

  test("spec 4.1 the headers are out before the body has come", async () => {
    const sent = Promise.withResolvers<void>()
    const text = JSON.stringify(whole)
    const prompt = await openStage(() => EARLY_COMMENTS)
    const running = await prompt.begin({
      body,
      script: async (exchange) => {
        await exchange.head(200, { "content-type": "application/json" }, { length: text.length })
        await exchange.chunk(text.slice(0, 100))
        await sent.promise
        await exchange.chunk(text.slice(100))
        await exchange.end()
      },
    })
    const { status, body: first } = await running.client.head
    expect({ status, first }).toEqual({ status: 200, first: ": ok\n\n" })
    sent.resolve()
    const sides = await running.sides()
    seesStream(`: ok\n\n${shown}`)(sides)
    expectLedger(sides, charged)
    await prompt.close()
  })
})

describe("D31 a JSON call has the total timeout alone", () => {
  const begun: Script = async (exchange) => {
    await exchange.head(200, { "content-type": "application/json" }, { length: 100 })
    await exchange.chunk(`{"x":"${CANARY}`)
  }
  const bodiless: Script = async (exchange) => {
    await exchange.head(200, { "content-type": "application/json" })
  }
  const rows: readonly [name: string, script: Script, ending: string | null][] = [
    ["no answer", silent(), null],
    ["no body", bodiless, "deadline"],
    ["half a body", begun, "deadline"],
  ]
  test.each(rows)("%s: 504, released, and the provider is cut", async (_, script, ending) => {
    const trial = { script, body: chatBody({ model: "hasty" }) }
    const late = seesError(504, "upstream_timeout", { type: "timeout_error" })
    await expectSides(stage, trial, late, released("upstream_timeout", { ending }))
    await expectCut(stage)
  })
})

test("D32 a JSON answer leaves when its settlement is durable: 100 balances read after the last byte", async () => {
  const { gateway, provider } = stage
  const { id, key } = await gateway.account("1")
  for (let calls = 1; calls <= 100; calls++) {
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    expect((await send(gateway.url, key, chatBody()).ended).status).toBe(200)
    const balance = (1_000_000 - 30 * calls) / 1_000_000
    expect(await gateway.balance(id)).toMatchObject({ balance: String(balance), held: "0" })
  }
})
