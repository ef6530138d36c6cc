import { describe, expect, test } from "bun:test"
import { gzipSync } from "node:zlib"
import { chatModel, EARLY_COMMENTS, PROVIDER_KEY } from "../support/gateway.ts"
import {
  chatCompletion,
  json,
  READ_MS,
  type Script,
  silent,
  sse,
  sseEvent,
  usage,
} from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { CANARY } from "./harness.ts"
import {
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
    chatModel("half-bytes", { bytes_per_token: 1.5 }),
    chatModel("hasty", { upstreams: [{ use: "hasty", model: "upstream-model" }] }),
  ],
}))

const holds = (rows: readonly Row[], body?: object) => holdsFor(stage, rows, body)

/** A completion that says `SENTENCE` and whose usage is the JSON text given. */
function withUsage(text: string): string {
  return JSON.stringify(chatCompletion(SENTENCE, { usage: "here" })).replace('"here"', text)
}

function compressed(text: string): Script {
  const body = gzipSync(text)
  const headers = { "content-type": "application/json", "content-encoding": "gzip" }
  return async (exchange) => {
    await exchange.head(200, headers, { length: body.length })
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

describe("D5, rule 3, spec 7 blank is usage_missing", () => {
  const missing = [seesError("usage_missing"), released("usage_missing")] as const
  holds([
    ["no bytes", json(200, ""), ...missing],
    [
      "204",
      async (exchange) => {
        await exchange.head(204, {}, { length: 0 })
        await exchange.end()
      },
      ...missing,
    ],
  ])
})

describe("D5, rule 3, spec 7 whatever else is no JSON object is usage_invalid", () => {
  const invalid = [seesError("usage_invalid"), released("usage_invalid")] as const
  const lost = [seesError("usage_invalid"), released("usage_invalid", { ending: "upstream_lost" })] as const
  const whole = JSON.stringify(chatCompletion(CANARY))
  holds([
    ["HTML", json(200, `<html><p>${CANARY}</p></html>`, { "content-type": "text/html" }), ...invalid],
    ["cut by a reset", cut(whole.slice(0, 60), { length: whole.length }, "reset"), ...lost],
    ["cut by a close: no last chunk", cut(whole.slice(0, 60), "chunked", "close"), ...lost],
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
      "an object over limits.response that does not arrive whole",
      cut(whole.padEnd(2 * RESPONSE_LIMIT).slice(0, -1), "chunked", "close"),
      ...lost,
    ],
  ])
})

describe("D5 an answer over limits.response is charged, and not delivered", () => {
  const too_large = seesError("response_too_large")
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
    ["by its usage, chunked", sse([large(usage(9, 5))], { done: false }), too_large, charged],
    [
      "rule 2: without usage by its output, as far as the hold goes",
      json(200, large(undefined)),
      too_large,
      estimated(1_008, "usage_missing", noted),
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
})

describe("D6 an output estimate: at least one token, rounded down, charged alone, never above the hold", () => {
  const said = (content: string) => chatCompletion(content, { usage: undefined })

  test.each([["bytes_per_token, not whole", { model: "half-bytes" }, estimated(29, "usage_missing")]])(
    "%s",
    async (_, fields, recorded) => {
      const text = JSON.stringify(said(SENTENCE))
      await expectSides(stage, { script: json(200, text), body: chatBody(fields) }, seesJson(text), recorded)
    },
  )
})

describe("D10 an error object in a 2xx is an upstream failure", () => {
  const failed = [seesError("upstream_error"), released("upstream_error")] as const
  holds([
    ["an error", json(200, { error: { message: CANARY, code: CANARY } }), ...failed],
    passed(
      "rule 1: with usage it is an answer",
      { error: { message: "x" }, usage: usage(10, 5) },
      settled("0.00003", [10, 0, 5]),
    ),
  ])
})

describe("D11 more than was held is charged in full", () => {
  test.each([
    [
      "into the negative",
      "0.005",
      usage(5_000, 1_000),
      settled("0.009", [5_000, 0, 1_000], { overage: "0.004965", notes: ["overage"] }),
    ],
  ])("%s", async (_, usd, reported, recorded) => {
    const text = JSON.stringify(chatCompletion("hi", { usage: reported }))
    await expectSides(stage, { script: json(200, text), usd }, seesJson(text), recorded)
  })

  const beyond: [string, object, string, string, [number, number, number]][] = [
    ["a prompt", usage(35 + 131_073, 5), "0.131127", "0.127092", [131_107, 0, 5]],
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
})

describe("D24 the provider's bytes pass unchanged, its headers do not", () => {
  const charged = settled("0.00003", [10, 0, 5])
  const compact = JSON.stringify(chatCompletion("é😀", { usage: usage(10, 5) }))
  holds([
    passed(
      "escapes and numbers as they were written",
      compact.replace("é", "\\u00E9").replace("1760000000", "1.76e9"),
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
    ["decoded, if they are compressed (D25)", compressed(compact), seesJson(compact), charged],
  ])
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
  const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } }
  const calling = { role: "assistant", content: null, tool_calls: [call] }
  const nothing = released("no_output", { ending: "upstream_lost" })
  holds(
    [
      streamed("a JSON object is one chunk and [DONE]", "application/json", whole, shown, charged),
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
      streamed("rule 6: the empty object", "application/json", "{}", "", released("no_output")),
      streamed(
        "rule 6, D41: nested so deep that it takes seconds to print",
        "application/json",
        DEEP,
        "",
        nothing,
      ),
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
    const late = seesError("upstream_timeout")
    await expectSides(stage, trial, late, released("upstream_timeout", { ending }))
    await expectCut(stage)
  })
})
