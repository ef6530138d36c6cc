import {
  blockDelta,
  blockStart,
  messageDelta,
  messageStart,
  messageWords,
  namedEvent,
} from "../support/messages.ts"
import type { Script } from "../support/provider.ts"
import { EVENT_STREAM, endless, flood, JSON_BODY, RELEASED } from "./hostile.ts"
import { describeMemory, openHostile } from "./hostile-family.ts"

/** The floods of provider.test.ts, as far as messages are read in their own way (D64). */

const hostile = await openHostile({
  family: "messages",
  path: "",
  draft: (key, stream) => ({
    target: "/v1/messages",
    headers: [`x-api-key: ${key}`, "anthropic-version: 2023-06-01"],
    body: {
      model: "messages-model",
      max_tokens: 1_000,
      messages: [{ role: "user", content: "hello" }],
      stream,
    },
  }),
  words: (...words) => messageWords(...words).map(namedEvent),
})

const LOST = { state: "settled", basis: "partial", ending: "upstream_lost" }
const START = namedEvent(messageStart())
const END = "message_stop"

function startAndFlood(thousands: number, event: (n: number) => { readonly type: string }): Script {
  return flood(thousands, (n) => (n === 0 ? START : "") + namedEvent(event(n)))
}

describeMemory(hostile, END, [
  [
    "a JSON body without an end in answer to a stream",
    true,
    endless(JSON_BODY, '{"content":[{"type":"text","text":"'),
    '"response_too_large"',
    { state: "settled", basis: "estimate", ending: "upstream_lost" },
  ],
  [
    "an event without an end, after the start: the input is charged",
    true,
    endless(EVENT_STREAM, `${START}event: content_block_delta\ndata: {"delta":"`),
    "event: error\n",
    { ...LOST, charge: "0.00001" },
  ],
  [
    "300,000 pings, each of them new",
    true,
    flood(300, (n) => namedEvent({ type: "ping", ...{ n } })),
    "HTTP/1.1 200",
    { ...RELEASED, failure: "no_output" },
  ],
  [
    "100,000 words, each of them new",
    true,
    startAndFlood(100, (n) => blockDelta(0, { type: "text_delta", text: `${n}` })),
    "event: error\n",
    LOST,
  ],
  [
    "100,000 blocks, each of them new",
    true,
    startAndFlood(100, (n) => blockStart(n, { type: "tool_use", id: `toolu_${n}`, name: "x", input: {} })),
    "event: error\n",
    LOST,
  ],
  [
    "100,000 fields of a delta, each of them new",
    true,
    startAndFlood(100, (n) => blockDelta(0, { type: `future_${n}`, [`field_${n}`]: "x" })),
    "event: error\n",
    LOST,
  ],
  [
    "100,000 fields of the usage, each of them new",
    true,
    startAndFlood(100, (n) => messageDelta({ output_tokens: 5, [`field_${n}`]: n }, null)),
    "event: error\n",
    { state: "settled", ending: "upstream_lost", charge: "0.00003" },
  ],
])
