import { describe, expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import { chatChunk, type Script, silent, sse, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { chatBody } from "../support/request.ts"
import { CANARY } from "./harness.ts"
import {
  BROKEN,
  CHARGED,
  errorEvent,
  estimated,
  expectCut,
  expectLedger,
  expectSent,
  expectSides,
  holdsFor,
  NO_COMMENTS,
  type Row,
  released,
  reset,
  SENTENCE,
  seesError,
  seesEvents,
  seesStream,
  settled,
  streamText,
  testStage,
} from "./sides.ts"

/** How a stream ends (D8, D10, D31, D36): what the client is shown last, what becomes of the provider, and what it costs. */

const DONE = "data: [DONE]\n\n"
const LATE = errorEvent(
  "upstream_timeout",
  "timeout_error",
  "The provider did not answer in time. Retry with streaming, or with a lower max_tokens.",
)
const TOO_LARGE = errorEvent(
  "response_too_large",
  "api_error",
  "The provider's response is too large to deliver. The call was charged. Request less output, or use streaming.",
)
const EVENT_LIMIT = 4_096
const IDLE_MS = 300
const TOTAL_MS = 300

const upstream = (url: string, timeouts: object) => ({
  family: "chat",
  base_url: `${url}/v1`,
  api_key: PROVIDER_KEY,
  timeouts,
})
const upstreams = (use: string) => ({ upstreams: [{ use, model: "upstream-model" }] })
const stage = await testStage((url) => ({
  ...NO_COMMENTS,
  limits: { event: `${EVENT_LIMIT / 1024}KiB` },
  upstreams: {
    first: upstream(url, {}),
    idle: upstream(url, { idle: `${IDLE_MS}ms` }),
    total: upstream(url, { total: `${TOTAL_MS}ms` }),
    first_byte: upstream(url, { first_byte: `${IDLE_MS}ms` }),
  },
  models: [
    chatModel("chat-model"),
    chatModel("idle", upstreams("idle")),
    chatModel("total", upstreams("total")),
    chatModel("first-byte", upstreams("first_byte")),
  ],
}))

function holds(rows: readonly Row[], model = "chat-model"): void {
  holdsFor(stage, rows, chatBody({ stream: true, model }))
}

/** A clean end of the body without `[DONE]`, after exactly these bytes. */
function plain(...events: readonly unknown[]): Script {
  return sse([streamText(...events)], { done: false })
}

/** The same without any framing: the body ends with its connection. */
function connected(...events: readonly unknown[]): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" }, "close")
    await exchange.chunk(streamText(...events))
    await exchange.end()
  }
}

/** Events, and then nothing: neither bytes nor an end. */
function hanging(...events: readonly unknown[]): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    if (events.length > 0) await exchange.chunk(streamText(...events))
  }
}

const word = chatChunk({ content: SENTENCE })
const role = chatChunk({ role: "assistant", content: "" })
const stop = chatChunk({}, "stop")
const partial = { ...chatChunk({ content: "." }), usage: usage(10, 5) }
const counted = usageChunk(usage(10, 5))
const lost = { ending: "upstream_lost" }
const ESTIMATED = estimated(11, "usage_missing")

describe("D8 completed: [DONE], or a clean end when everything was said; a missing [DONE] is added", () => {
  const whole = seesEvents(word, stop, DONE)
  holds([
    ["a clean end after the finish_reason", plain(word, stop), whole, ESTIMATED],
    ["a clean end of a body that its connection ends", connected(word, stop), whole, ESTIMATED],
  ])
})

describe("D8, rule 5 upstream_lost: any other clean end, a reset, a truncated body; never shown as a clean end", () => {
  const shown = seesEvents(word, BROKEN)
  const estimate = estimated(11, "upstream_lost", lost)
  holds([
    ["a clean end without anything final", plain(word), shown, estimate],
    ["a reset", reset(word), shown, estimate],
    [
      "a reset after final usage: all of it is charged, on the provider's word",
      reset(word, stop, counted),
      seesEvents(word, stop, BROKEN),
      { ...CHARGED, failure: "upstream_lost", ...lost },
    ],
  ])
})

describe("D10 an error event", () => {
  const boom = {
    error: { message: "boom", type: "server_error", code: "engine_down", param: "n", trace: CANARY },
  }
  const ours = sseEvent({ error: { type: "server_error", message: "boom", param: "n", code: "engine_down" } })
  const nothing = seesStream("")
  const failed = released("upstream_error", lost)
  const shown = seesEvents(word, ours)
  const estimate = estimated(11, "upstream_lost", lost)
  holds([
    ["before any output: rule 6", sse([role, boom, word, counted]), nothing, failed],
    ["after output: once, in our shape, and no [DONE]", sse([word, boom, boom]), shown, estimate],
    [
      "rule 1: its own usage is charged, and it is shown, before any output",
      sse([role, { ...boom, usage: usage(10, 5) }]),
      seesEvents(role, ours),
      { ...CHARGED, failure: "upstream_lost", ...lost },
    ],
    [
      "that repeats the provider's credential",
      sse([word, { error: { message: `bad key ${PROVIDER_KEY}`, code: PROVIDER_KEY } }]),
      seesEvents(word, errorEvent("upstream_error", "api_error", "bad key [redacted]")),
      estimate,
    ],
  ])

  test("the provider is cut", async () => {
    const body = chatBody({ stream: true })
    await expectSides(stage, { script: hanging(word, boom), body }, shown, estimate)
    await expectCut(stage)
  })
})

describe("D17 a failure of one choice", () => {
  const failing = (credential: string) => ({
    ...chatChunk({}),
    choices: [{ index: 0, delta: {}, error: { message: `bad key ${credential}` } }],
  })
  const sent = [word, failing(PROVIDER_KEY), failing(PROVIDER_KEY), failing(PROVIDER_KEY), stop, counted]
  const redacted = failing("[redacted]")
  holds([
    [
      "that repeats the provider's credential, however often",
      sse(sent),
      seesEvents(word, redacted, redacted, redacted, stop, DONE),
      CHARGED,
    ],
  ])
})

describe("D24 after [DONE] the stream ends at once, whatever the provider still does", () => {
  const body = chatBody({ stream: true })
  const shown = seesEvents(word, stop, DONE)
  const said = streamText(word, stop, counted, DONE)

  test("it stays open: the client's answer has ended before the provider is cut", async () => {
    const running = await stage.begin({ script: hanging(said), body })
    await running.client.ended
    const ended_ms = performance.now()
    const sides = await running.sides()
    shown(sides)
    expectSent(sides, body)
    expectLedger(sides, CHARGED)
    await expectCut(stage)
    expect(await stage.provider.exchanges.at(-1)?.closed).toBeGreaterThan(ended_ms)
  })

  test("it goes on: nothing of that is forwarded or charged", async () => {
    const script: Script = async (exchange) => {
      await hanging(said)(exchange)
      while (await exchange.chunk(streamText(word, usageChunk(usage(99, 99)), DONE))) await Bun.sleep(1)
    }
    await expectSides(stage, { script, body }, shown, CHARGED)
    await expectCut(stage)
  })
})

describe("D31 upstream_silent: the idle timeout between bytes", () => {
  const silence = { ending: "upstream_silent" }
  holds(
    [
      ["rule 6: after the headers", hanging(), seesStream(""), released("upstream_timeout", silence)],
      [
        "rule 5: after output",
        hanging(word),
        seesEvents(word, LATE),
        estimated(11, "upstream_silent", silence),
      ],
      [
        "D36 an unterminated event is dropped, and read for the settlement",
        hanging(word, sseEvent(counted).trimEnd()),
        seesEvents(word, LATE),
        { ...CHARGED, failure: "upstream_silent", ...silence },
      ],
    ],
    "idle",
  )

  test("the provider is cut, and heartbeats keep it alive", async () => {
    const body = chatBody({ stream: true, model: "idle" })
    const beats = 8
    const script: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      for (let beat = 0; beat < beats; beat++) {
        await exchange.chunk(": ping\n\n")
        await Bun.sleep(IDLE_MS / 6)
      }
      await exchange.chunk(streamText(word, counted))
    }
    const pings = ": ping\n\n".repeat(beats)
    const sees = seesStream(pings + streamText(word, LATE))
    await expectSides(stage, { script, body }, sees, { ...CHARGED, failure: "upstream_silent", ...silence })
    await expectCut(stage)
  })
})

describe("D31 deadline and first_byte", () => {
  const deadline = { ending: "deadline" }
  const dribble =
    (...events: readonly unknown[]): Script =>
    async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(streamText(...events))
      while (await exchange.chunk(": ping\n\n")) await Bun.sleep(20)
    }
  const body = chatBody({ stream: true, model: "total" })

  test("rule 6: the total timeout before output", async () => {
    await expectSides(
      stage,
      { script: dribble(role), body },
      seesStream(""),
      released("upstream_timeout", deadline),
    )
    await expectCut(stage)
  })

  test("rule 5: the total timeout after output", async () => {
    const sides = await stage.run({ script: dribble(word), body })
    expect(sides.answer.body.replace(/(: ping\n\n)+/, "")).toBe(streamText(word, LATE))
    expect(sides.answer).toMatchObject({ status: 200, whole: true })
    expectSent(sides, body)
    expectLedger(sides, estimated(11, "deadline", deadline))
    await expectCut(stage)
  })

  test("no headers within first_byte: 504, released, and the provider is cut", async () => {
    const trial = { script: silent(), body: chatBody({ stream: true, model: "first-byte" }) }
    const late = seesError("upstream_timeout")
    await expectSides(stage, trial, late, released("upstream_timeout", { ending: null }))
    await expectCut(stage)
  })
})

describe("D31 an event over limits.event ends the stream, and the provider is cut", () => {
  const sized = (bytes: number) => {
    const empty = sseEvent(chatChunk({ content: "" })).length
    return sseEvent(chatChunk({ content: "x".repeat(bytes - empty) }))
  }
  const too_large = { ...lost, notes: ["response_too_large"] }
  /** 35 bytes of a prompt, at four bytes a token. */
  const withPrompt = (output: number) =>
    settled(printUsd(8_000n + BigInt(output) * 4_000n), [8, 0, output], {
      ...too_large,
      basis: "estimate",
      failure: "upstream_lost",
    })
  const tokens = (bytes: number) => Math.floor((bytes - sseEvent(chatChunk({ content: "" })).length) / 4)
  holds([
    [
      "rule 6: the first one",
      sse([role, sized(EVENT_LIMIT + 1), counted]),
      seesStream(""),
      released("upstream_error", too_large),
    ],
    [
      "rule 5: a later one; what stood before it in the same chunk passes, and the prompt is estimated too (D6)",
      plain(word, sized(EVENT_LIMIT), sized(EVENT_LIMIT + 1), counted),
      seesEvents(word, sized(EVENT_LIMIT), TOO_LARGE),
      withPrompt(11 + tokens(EVENT_LIMIT)),
    ],
  ])
})

describe("D36 an unterminated last event", () => {
  const open = (event: unknown, left = "") => `data: ${JSON.stringify(event)}${left}`
  const cut = (text: string, ending: "reset" | "close") => sse([text], { done: false, ending })
  holds([
    [
      "is completed and forwarded at a clean end",
      plain(word, open(stop)),
      seesEvents(word, stop, DONE),
      ESTIMATED,
    ],
    ["usage in it is charged", plain(word, stop, open(counted)), seesEvents(word, stop, DONE), CHARGED],
    [
      "is dropped at a reset, and read for the settlement",
      cut(streamText(word, open(partial)), "reset"),
      seesEvents(word, BROKEN),
      settled("0.00003", [10, 0, 5], { basis: "partial", failure: "upstream_lost", ...lost }),
    ],
    [
      "D10 what is charged is never shown as a clean end, though nothing else was shown",
      cut(streamText(role, open(word)), "reset"),
      seesEvents(role, BROKEN),
      estimated(11, "upstream_lost", lost),
    ],
  ])
})
