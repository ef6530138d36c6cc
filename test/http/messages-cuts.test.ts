import { expect, test } from "bun:test"
import { parseUsd } from "../../src/money.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import {
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  namedEvent,
  textBlock,
} from "../support/messages.ts"
import { READ_MS } from "../support/provider.ts"
import { send } from "./client.ts"
import { NO_COMMENTS, testStage } from "./sides.ts"

/** A messages stream that ends after any of its bytes (D64): what its client is shown, and what it is charged. */

/** 44 bytes: 11 tokens when they must be estimated. */
const SENTENCE = "The quick brown fox jumps over the lazy dog."
const STOP = namedEvent(MESSAGE_STOP)
const EVENTS = [
  messageStart(messageUsage(10, 1)),
  ...textBlock(0, SENTENCE, SENTENCE),
  messageDelta({ output_tokens: 20 }),
  MESSAGE_STOP,
].map(namedEvent)
const STREAM = EVENTS.join("")
/** Where each event ends. */
const ENDS = EVENTS.map((_, n) => EVENTS.slice(0, n + 1).join("").length)
/** After so many events, in nano-USD: 10 tokens in as reported, 11 out for each sentence that was seen, 20 as counted. */
const CHARGES = [0n, 10_000n, 10_000n, 54_000n, 98_000n, 98_000n, 90_000n, 90_000n]
/** Those after which the message has its stop_reason. */
const WHOLE_ANSWER = 6
/** Of the blank line that ends an event, and the line before it: the data is there without them (D36). */
const LINE_ENDS = 2
const ERROR =
  /^event: error\ndata: \{"type":"error","error":\{.*"code":"upstream_error"\},"request_id":"[^"]+"\}\n\n$/
const AT_ONCE = 16
/** Every place near the end of an event, and some within its data, where one is as good as another. */
const PLACES = [...STREAM]
  .keys()
  .filter((at) => at % 8 === 0 || ENDS.some((end) => Math.abs(end - at) <= 4))
  .toArray()

const stage = await testStage((url) => ({
  ...NO_COMMENTS,
  upstreams: { first: { family: "messages", base_url: url, api_key: PROVIDER_KEY } },
  models: [chatModel("messages-model", { family: "messages" })],
}))

/** So many events have come once `at` bytes have. */
function eventsIn(at: number): number {
  return ENDS.filter((end) => end <= at).length
}

/** One call whose stream ends after `at` bytes. */
async function cut(key: string, at: number, ending: "end" | "reset") {
  const body = {
    model: "messages-model",
    max_tokens: 1_000,
    stream: true,
    metadata: { user_id: String(at) },
    messages: [{ role: "user", content: "hello" }],
  }
  const headers = { "anthropic-version": "2023-06-01" }
  const answer = await send(stage.gateway.url, key, body, { path: "/v1/messages", headers }).ended
  const call = await stage.gateway.call(answer.headers["x-request-id"] ?? "")
  const nano = parseUsd(String(call.charge))
  const told = eventsIn(at)
  const shown = STREAM.slice(0, ENDS[told - 1] ?? 0)
  const known = eventsIn(at + LINE_ENDS)
  expect({ at, nano, body: answer.body.slice(0, shown.length) }).toEqual({
    at,
    nano: CHARGES[known] ?? null,
    body: shown,
  })
  for (const [, data = ""] of answer.body.matchAll(/^data: (.*)$/gm))
    expect(() => JSON.parse(data)).not.toThrow()
  const rest = answer.body.slice(shown.length)
  const is_whole = ending === "end" && known >= WHOLE_ANSWER
  if (known === 0) expect({ at, rest, state: call.state }).toEqual({ at, rest: "", state: "released" })
  else if (is_whole) {
    const stops = answer.body.split(STOP).length - 1
    expect({ at, stops, last: answer.body.endsWith(STOP), ending: call.ending }).toEqual({
      at,
      stops: 1,
      last: true,
      ending: "completed",
    })
  } else {
    expect({ at, rest: rest.slice(rest.indexOf("event: error")) }).toEqual({
      at,
      rest: expect.stringMatching(ERROR),
    })
    expect({ at, stopped: answer.body.includes(STOP), ending: call.ending }).toEqual({
      at,
      stopped: false,
      ending: "upstream_lost",
    })
  }
  return nano ?? 0n
}

test.each(["reset", "end"] as const)(
  "D64 a %s after any byte: what was seen is charged, and no message_stop follows a loss",
  async (ending) => {
    stage.provider.reply(async (exchange) => {
      const { metadata } = Object(exchange.request.json)
      await exchange.head(200, { "content-type": "text/event-stream" })
      const at = Number(metadata.user_id)
      if (at > 0) await exchange.chunk(STREAM.slice(0, at))
      if (ending === "reset") await Bun.sleep(READ_MS)
      await exchange[ending]()
    })
    const { id, key } = await stage.gateway.account("10")
    let charged_nano = 0n
    for (let from = 0; from < PLACES.length; from += AT_ONCE) {
      const places = PLACES.slice(from, from + AT_ONCE)
      const charges = await Promise.all(places.map((at) => cut(key, at, ending)))
      for (const nano of charges) charged_nano += nano
    }
    const { balance, held } = await stage.gateway.balance(id)
    expect([parseUsd(balance), held]).toEqual([10_000_000_000n - charged_nano, "0"])
  },
)
