import { describe, expect, spyOn, test } from "bun:test"
import { connect } from "../../src/ledger/database/address.ts"
import { Spool } from "../../src/ledger/queue/spool.ts"
import { printUsd } from "../../src/money.ts"
import { SETTLE_WAIT_MS } from "../../src/settlement/settle.ts"
import { chatModel, PRICE, PROVIDER_KEY, untilIs } from "../support/gateway.ts"
import {
  chatChunk,
  chatWords,
  json,
  type Script,
  sse,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { type Client, send } from "./client.ts"
import {
  CHARGED,
  estimated,
  expectLedger,
  expectSent,
  expectSides,
  holdsFor,
  type LedgerCall,
  NO_COMMENTS,
  openStage,
  type Row,
  released,
  SENTENCE,
  type Sees,
  STREAM,
  seesEvents,
  seesStream,
  settled,
  streamText,
  testStage,
} from "./sides.ts"
import { INVALID_USAGE } from "./usages.ts"

/** The rulings on streams as both sides see them: what is usage, what is output, and which bytes pass. */

/** Its usage is shown, wherever it stands. */
const WITH_USAGE = chatBody({ stream: true, stream_options: { include_usage: true } })
const DONE = "data: [DONE]\n\n"

const stage = await testStage(() => ({
  ...NO_COMMENTS,
  models: [
    chatModel("chat-model"),
    chatModel("two-bytes", { bytes_per_token: 2 }),
    chatModel("prompting", { estimate: { prompt: "always" } }),
  ],
}))

const holds = (rows: readonly Row[], body: object = STREAM) => holdsFor(stage, rows, body)

/** A row whose events the client gets as they are. */
function passed(name: string, events: readonly unknown[], recorded: LedgerCall): Row {
  return [name, sse(events), seesEvents(...events, DONE), recorded]
}

/** An answer in pieces, each of which the gateway has time to read on its own. */
function pieces(...parts: readonly (string | Uint8Array)[]): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    for (const part of parts) {
      await exchange.chunk(part)
      await Bun.sleep(2)
    }
    await exchange.end()
  }
}

/** An event stream that comes in one packet with its headers. */
function atOnce(...events: readonly unknown[]): Script {
  return async (exchange) => {
    await exchange.whole(200, { "content-type": "text/event-stream" }, streamText(...events))
    await exchange.end()
  }
}

describe("D1 usage that is not valid is not used", () => {
  const words = chatWords(SENTENCE)
  const withUsage = (text: string) => sseEvent(usageChunk("here")).replace('"here"', text)
  holds(
    INVALID_USAGE.map(([why, text]) => [
      why,
      sse([...words, withUsage(text)]),
      // What is no object is no usage-only chunk either.
      seesEvents(...words, ...(text.startsWith("{") ? [] : [withUsage(text)]), DONE),
      estimated(11, "usage_invalid"),
    ]),
  )
})

describe("D2, D3 zeros and cached tokens", () => {
  const words = chatWords(SENTENCE)
  const shown = seesEvents(...words, DONE)
  const placeholder = estimated(11, "usage_invalid", { notes: ["usage_placeholder"] })
  const first = { ...chatChunk({ role: "assistant" }), usage: usage(0, 0) }
  const silence = chatWords()
  const cached = (tokens: unknown) => ({ ...usage(10, 5), prompt_tokens_details: { cached_tokens: tokens } })
  holds([
    ["0/0 with output is a placeholder", sse(words, { usage: usage(0, 0) }), shown, placeholder],
    [
      "0/0 before the output is judged at the end",
      sse([first, ...words]),
      seesEvents(chatChunk({ role: "assistant" }), ...words, DONE),
      placeholder,
    ],
    [
      "0/0 without output is settled at no charge",
      sse(silence, { usage: usage(0, 0) }),
      seesEvents(...silence, DONE),
      settled("0", [0, 0, 0]),
    ],
    [
      "0 completion tokens are charged as reported",
      sse(words, { usage: usage(9, 0) }),
      shown,
      settled("0.000009", [9, 0, 0]),
    ],
    ["cached", sse(words, { usage: cached(4) }), shown, settled("0.0000264", [10, 4, 5])],
    [
      "cached, clamped",
      sse(words, { usage: cached(99) }),
      shown,
      settled("0.000021", [10, 10, 5], { notes: ["cached_clamped"] }),
    ],
    [
      "cached, malformed",
      sse(words, { usage: cached("4") }),
      shown,
      { ...CHARGED, notes: ["cached_malformed"] },
    ],
    ["cached, null", sse(words, { usage: cached(null) }), shown, CHARGED],
  ])
})

describe("D4 of several usages the last valid one counts, never their sum", () => {
  const word = (reported: unknown) => ({ ...chatChunk({ content: "word" }), usage: reported })
  const end = chatChunk({}, "stop")
  const valid = usage(10, 5)
  /** And one token for the word that came after it. */
  const later = settled("0.000034", [10, 0, 6], { basis: "partial", failure: "usage_missing" })
  const rows: Row[] = [
    passed("growing", [word(usage(10, 1)), word(usage(10, 2)), { ...end, usage: valid }], CHARGED),
    passed("shrinking", [word(usage(99, 99)), { ...end, usage: valid }], CHARGED),
    passed("a later invalid one erases nothing", [word(valid), word({ prompt_tokens: -1 }), end], later),
    passed("an earlier invalid one spoils nothing", [word([]), word(valid), end], CHARGED),
    passed(
      "before the output, then [DONE]",
      [{ ...chatChunk({ role: "assistant" }), usage: valid }, word(null), end],
      later,
    ),
    [
      "after [DONE] nothing is read",
      pieces(streamText(word(valid), end), `${DONE}${sseEvent(usageChunk(usage(99, 99)))}`),
      seesEvents(word(valid), end, DONE),
      CHARGED,
    ],
  ]
  holds(rows, WITH_USAGE)
  holds([
    [
      "two usage-only chunks are both stripped",
      sse([word(null), end, usageChunk(usage(10, 1)), usageChunk(valid)]),
      seesEvents(word(null), end, DONE),
      CHARGED,
    ],
  ])
})

/** test/meter/output.test.ts has every kind of output. */
describe("D6, D7 what counts as output of a stream, and for how much", () => {
  const call = (fields: object) => ({ tool_calls: [{ index: 0, ...fields }] })
  const deltas: [string, Record<string, unknown>[], number][] = [
    [
      "content in several deltas is added up before it is rounded",
      [{ content: "123" }, { content: "456" }, { content: "78" }],
      2,
    ],
    [
      "a tool call: its name, then its arguments",
      [
        call({ id: "call_12345678", type: "function", function: { name: "look", arguments: "" } }),
        call({ function: { arguments: '{"a"' } }),
        call({ function: { arguments: ":1} " } }),
      ],
      3,
    ],
  ]
  holds(
    deltas.map(([name, said, tokens]) =>
      passed(
        name,
        [...said.map((delta) => chatChunk(delta)), chatChunk({}, "stop")],
        estimated(tokens, "usage_missing"),
      ),
    ),
  )

  const choice = (index: number, delta: object, finish_reason: string | null = null) => ({
    choices: [{ index, delta, finish_reason }],
  })
  holds([
    passed(
      "every choice",
      [
        choice(0, { content: "1234" }),
        choice(1, { content: "1234" }),
        choice(0, {}, "stop"),
        choice(1, {}, "stop"),
      ],
      estimated(2, "usage_missing"),
    ),
  ])

  const silent: [string, unknown[]][] = [
    ["a role", [chatChunk({ role: "assistant" })]],
    [
      "numbers and null in place of text",
      [chatChunk({ content: 5 }), chatChunk({ content: { text: 1 } }), chatChunk({ content: null })],
    ],
    [
      "choices that are none",
      [{ choices: "x" }, { choices: [null, "x"] }, { choices: { delta: { content: "x" } } }],
    ],
  ]
  holds(
    silent.map(([name, events]) => [
      `no output: ${name}`,
      sse(events),
      seesStream(""),
      released("no_output"),
    ]),
  )

  test.each([
    ["bytes_per_token", { model: "two-bytes" }, estimated(22, "usage_missing")],
    [
      "estimate.prompt",
      { model: "prompting" },
      settled("0.000052", [8, 0, 11], { basis: "estimate", failure: "usage_missing" }),
    ],
    ["never above the hold", { max_tokens: 1 }, estimated(9, "usage_missing", { held: "0.000039" })],
  ])("%s", async (_, fields, recorded) => {
    const words = chatWords(SENTENCE)
    const trial = { script: sse(words), body: chatBody({ stream: true, ...fields }) }
    await expectSides(stage, trial, seesEvents(...words, DONE), recorded)
  })
})

test("D11 usage larger than the hold is charged in full: and the balance goes negative", async () => {
  const words = chatWords("hi")
  const trial = { script: sse(words, { usage: usage(5_000, 1_000) }), body: STREAM, usd: "0.005" }
  const recorded = settled("0.009", [5_000, 0, 1_000], { overage: "0.004965", notes: ["overage"] })
  await expectSides(stage, trial, seesEvents(...words, DONE), recorded)
})

describe("D24 usage is always asked for, and its chunk shown to who asked", () => {
  const events = [...chatWords("hi").map((event) => ({ ...event, usage: null })), usageChunk(usage(10, 5))]
  const all = seesEvents(...events, DONE)
  const stripped = seesEvents(...events.slice(0, -1), DONE)
  const options: [object | null | undefined, Sees][] = [
    [undefined, stripped],
    [null, stripped],
    [{}, stripped],
    [{ include_usage: false }, stripped],
    [{ include_usage: null }, stripped],
    [{ include_obfuscation: false, other: { deep: [1] } }, stripped],
    [{ include_usage: true }, all],
    [{ other: 1, include_usage: true, include_obfuscation: true }, all],
  ]
  test.each(options)("stream_options %j", async (stream_options, sees) => {
    const body = chatBody({ stream: true, ...(stream_options !== undefined && { stream_options }) })
    await expectSides(stage, { script: sse(events), body }, sees, CHARGED)
  })

  const said = chatChunk({ content: "hi" }, "stop")
  const whole = { ...said, usage: usage(10, 5) }
  holds([
    ["usage beside choices is stripped, not they", sse([whole]), seesEvents(said, DONE), CHARGED],
    [
      "a chunk without choices and usage is not stripped",
      sse([{ choices: [], prompt_filter_results: [] }, whole]),
      seesEvents({ choices: [], prompt_filter_results: [] }, said, DONE),
      CHARGED,
    ],
  ])
})

describe("D24, D36 the provider's bytes pass unchanged", () => {
  const said = JSON.stringify({ ...chatChunk({ content: "é😀\u2028" }, "stop"), usage: usage(10, 5) })
  const exact = (name: string, text: string): Row => [
    name,
    pieces(text, DONE),
    seesStream(text + DONE),
    CHARGED,
  ]
  const rows: Row[] = [
    exact("LF", `data: ${said}\n\n`),
    exact("CRLF", `data: ${said}\r\n\r\n`),
    exact("CR", `data: ${said}\r\r`),
    exact("mixed line ends and blank lines", `data: ${said}\r\n\n\n\r\n`),
    exact("no space after the colon", `data:${said}\n\n`),
    exact("several data lines", `data: {\ndata: ${said.slice(1)}\n\n`),
    exact(
      "event, id and retry lines, comments",
      `: hi\n\nevent: chunk\nid: 7\nretry: 5\n: in it\ndata: ${said}\n\n`,
    ),
    exact("a BOM", `\ufeffdata: ${said}\n\n`),
    exact("spaces, escapes, duplicate keys", `data:  {"usage":{} , "x":"\\u00e9",${said.slice(1)}\n\n`),
    exact("an event that is no JSON", `data: ${said}\n\ndata: {oops\n\nnonsense\n\n`),
    [
      "[DONE] in another spelling",
      pieces(`data: ${said}\n\n`, "data:[DONE]\r\n\r\n"),
      seesStream(`data: ${said}\n\n${DONE}`),
      CHARGED,
    ],
  ]
  holds(rows, WITH_USAGE)

  test.each(["\n", "\r\n"])("cut within characters and line ends (%j)", async (end) => {
    const bytes = Buffer.from(`: ping${end}${end}data: ${said}${end}${end}`)
    const parts = [...bytes].map((byte) => Uint8Array.of(byte)).slice(-12)
    const emoji = bytes.indexOf("😀") + 2
    const script = pieces(bytes.subarray(0, emoji), bytes.subarray(emoji, -12), ...parts, DONE)
    await expectSides(stage, { script, body: WITH_USAGE }, seesStream(bytes.toString() + DONE), CHARGED)
  })

  test("a usage-only chunk whose CRLF was cut is stripped whole", async () => {
    const word = sseEvent(chatChunk({ content: "hi" }, "stop"))
    const script = pieces(word, `data: ${JSON.stringify(usageChunk(usage(10, 5)))}\r\n\r`, "\n", DONE)
    await expectSides(stage, { script, body: STREAM }, seesStream(word + DONE), CHARGED)
  })

  holds([
    passed(
      "held back until the first output, then all of it",
      [": ping\n\n", chatChunk({ role: "assistant" }), "data:\n\n", ...chatWords("hi")],
      estimated(1, "usage_missing"),
    ),
  ])
})

describe("D29 an event stream is read as one whatever its content type", () => {
  const events = [{ ...chatChunk({ content: "hi" }, "stop"), usage: usage(10, 5) }]
  const typed = (type: string) => sse(events, { headers: { "content-type": type } })
  const shown = seesEvents(chatChunk({ content: "hi" }, "stop"), DONE)
  const untyped: Script = async (exchange) => {
    await exchange.head(200)
    await exchange.chunk(streamText(...events, DONE))
    await exchange.end()
  }
  const page = "<html>\n\n<body>sorry</body>\n\n</html>"
  holds([
    ["text/plain", typed("text/plain"), shown, CHARGED],
    ["application/x-ndjson", typed("application/x-ndjson"), shown, CHARGED],
    ["application/json", typed("application/json"), shown, CHARGED],
    ["none", untyped, shown, CHARGED],
    [
      "rule 6: HTML without events",
      json(200, page, { "content-type": "text/html" }),
      seesStream(""),
      released("no_output", { ending: "upstream_lost" }),
    ],
  ])
})

describe("D32 the last byte leaves when the settlement is durable", () => {
  test("100 balances read after the last byte", async () => {
    const { gateway, provider } = stage
    const { id, key } = await gateway.account("1")
    let read_at_once = 0
    for (let calls = 1; calls <= 100; calls++) {
      provider.replyOnce(sse(chatWords("hi"), { usage: usage(10, 5) }))
      const client = send(gateway.url, key, STREAM)
      expect((await client.ended).body).toEndWith(DONE)
      const expected = { balance: printUsd(1_000_000_000n - 30_000n * BigInt(calls)), held: "0" }
      const took_ms = performance.now() - client.sent_ms
      if (took_ms < SETTLE_WAIT_MS) {
        read_at_once += 1
        expect(await gateway.balance(id)).toMatchObject(expected)
      } else {
        await untilIs(() => gateway.balance(id), { balance: expected.balance })
      }
    }
    expect(read_at_once).toBeGreaterThan(0)
  })

  const words = chatWords("hi")
  const said = [...words, usageChunk(usage(10, 5))]

  /** Makes a call whose settlement waits for a lock, from before its answer until `seen` has looked at the answer and its time. */
  async function whileLocked(
    body: object,
    script: Script,
    seen: (client: Client, locked_ms: number) => Promise<void>,
    recorded: LedgerCall,
  ): Promise<void> {
    const sql = connect(stage.gateway.address, { max: 1, onnotice: () => {} })
    const asked = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const running = await stage.begin({
      body,
      script: async (exchange) => {
        asked.resolve()
        await locked.promise
        await script(exchange)
      },
    })
    await asked.promise
    await sql.begin(async (transaction) => {
      await transaction`select from tollgate.accounts where id = ${running.account_id} for update`
      const locked_ms = performance.now()
      locked.resolve()
      await seen(running.client, locked_ms)
      expect(await stage.gateway.calls(`?account=${running.account_id}`)).toMatchObject([{ state: "open" }])
    })
    await sql.end()
    expectLedger(await running.sidesOnceClosed(), recorded)
  }

  const answers: readonly [name: string, script: Script, status: number, recorded: LedgerCall][] = [
    ["a JSON answer", json(200, { usage: usage(10, 5) }), 200, CHARGED],
    ["rule 3", json(200, ""), 502, released("usage_missing")],
    ["a call that no provider took", json(500, ""), 502, released("upstream_error", { ending: null })],
  ]
  test.each(answers)("at the latest after 250 ms: %s", async (_, script, status, recorded) => {
    const seen = async ({ ended }: Client, locked_ms: number) => {
      expect((await ended).status).toBe(status)
      expect(performance.now() - locked_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(chatBody(), script, seen, recorded)
  })

  test("after 250 ms only for the disk", async () => {
    const on_disk = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    const synced = spyOn(Spool.prototype, "synced").mockImplementation(() => {
      asked.resolve()
      return on_disk.promise
    })
    const seen = async ({ ended }: Client) => {
      const order: string[] = []
      const answered = ended.then(() => order.push("answered"))
      await asked.promise
      await stage.gateway.calls("?limit=1")
      order.push("on disk")
      on_disk.resolve()
      await answered
      expect(order).toEqual(["on disk", "answered"])
    }
    const whole = whileLocked(chatBody(), json(200, { usage: usage(10, 5) }), seen, CHARGED)
    await whole.finally(() => synced.mockRestore())
  })

  /** Calls that are in flight until it is called. */
  async function others(count: number): Promise<() => Promise<void>> {
    const over = Promise.withResolvers<void>()
    const asked = Array.from({ length: count }, () => Promise.withResolvers<void>())
    const running = await Promise.all(
      asked.map(({ resolve }) =>
        stage.begin({
          script: async (exchange) => {
            resolve()
            await over.promise
            await json(200, { usage: usage(10, 5) })(exchange)
          },
        }),
      ),
    )
    await Promise.all(asked.map(({ promise }) => promise))
    return async () => {
      over.resolve()
      for (const { client } of running) expect((await client.ended).status).toBe(200)
    }
  }

  test.each([
    ["beside 14 other calls its other bytes pass at once", 14, false],
    ["beside 15 other calls in one piece", 15, true],
  ])("at the latest after 250 ms: a stream that comes in one packet, %s", async (_, count, in_one_piece) => {
    const end = await others(count)
    const seen = async (client: Client, locked_ms: number) => {
      const { headers, body } = await client.head
      expect(performance.now() - locked_ms >= 249).toBe(in_one_piece)
      expect("content-length" in headers).toBe(in_one_piece)
      expect(body).toBe(in_one_piece ? streamText(...words, DONE) : streamText(...words))
      expect((await client.ended).body).toBe(streamText(...words, DONE))
      expect(performance.now() - locked_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(STREAM, atOnce(...said, DONE), seen, CHARGED)
    await end()
  })

  test("at the latest after 250 ms: a stream that comes bit by bit, whose other bytes pass at once", async () => {
    const shown = Promise.withResolvers<void>()
    const script: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(streamText(...said))
      await shown.promise
      await exchange.chunk(streamText(DONE))
      await exchange.end()
    }
    const seen = async (client: Client) => {
      const { body } = await client.received('"finish_reason":"stop"')
      expect(body).toBe(streamText(...words))
      const shown_ms = performance.now()
      shown.resolve()
      expect((await client.ended).body).toBe(streamText(...words, DONE))
      expect(performance.now() - shown_ms).toBeGreaterThanOrEqual(249)
    }
    await whileLocked(STREAM, script, seen, CHARGED)
  })
})

test("a call settles at the price it was admitted at: a reload changes the next one", async () => {
  const priced = (price: object) => (url: string) => ({
    ...NO_COMMENTS,
    upstreams: { first: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY } },
    models: [chatModel("chat-model", { price })],
  })
  const before = priced(PRICE)
  const after = priced({ input: "3.00", cached_input: "2.00", output: "5.00" })
  const moving = await openStage(before)
  const words = chatWords("hi")
  const reloaded = Promise.withResolvers<void>()
  const running = await moving.begin({
    body: STREAM,
    script: async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(streamText(...words))
      await reloaded.promise
      await exchange.chunk(streamText(usageChunk(usage(10, 5, 4)), DONE))
      await exchange.end()
    },
  })
  await running.client.received('"finish_reason":"stop"')
  await moving.gateway.reload(after(moving.provider.url))
  reloaded.resolve()
  const sides = await running.sides()
  seesEvents(...words, DONE)(sides)
  expectSent(sides, STREAM)
  expectLedger(sides, settled("0.0000264", [10, 4, 5]))
  expect(sides.call).toMatchObject({ prices: { input: "1", cached_input: "0.1", output: "4" } })

  const next = await moving.run({ script: sse(words, { usage: usage(10, 5, 4) }), body: STREAM })
  expectLedger(next, settled("0.000051", [10, 4, 5], { held: "0.005105" }))
  expect(next.call).toMatchObject({ prices: { input: "3", cached_input: "2", output: "5" } })
  await moving.close()
})
