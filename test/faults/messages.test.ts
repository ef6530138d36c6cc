import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { FAIR } from "../support/link.ts"
import {
  blockDelta,
  blockStart,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageWords,
  namedEvent,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import { READ_MS, type Script } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { requestBytes } from "../support/request.ts"
import {
  allowedBytes,
  COMMIT,
  callOf,
  EVENT_STREAM,
  endless,
  flood,
  growthOf,
  hostileTo,
  JSON_BODY,
  mend,
  RELEASED,
} from "./hostile.ts"
import { Scene } from "./scene.ts"

/** The faults of provider.test.ts, as far as messages are read in their own way (D64). */

const scene = await Scene.open()
const victim = await scene.victim((url) => hostileTo(url, "messages", "10s"))
// What runs for the first time is compiled, which takes memory of its own.
scene.provider.reply(namedEvents(messageWords(...Array.from({ length: 2_000 }, () => "warm"))))
for (let call = 0; call < 20; call++) await ask(true)
afterEach(() => mend(victim))
afterAll(() => scene.close())

async function begin(stream: boolean) {
  const { id, key } = await scene.steady.account("10")
  const client = await rawClient(victim)
  client.send(
    requestBytes({
      method: "POST",
      target: "/v1/messages",
      headers: [
        `x-api-key: ${key}`,
        "anthropic-version: 2023-06-01",
        "content-type: application/json",
        "connection: close",
      ],
      body: {
        model: "messages-model",
        max_tokens: 1_000,
        messages: [{ role: "user", content: "hello" }],
        stream,
      },
    }),
  )
  return { id, client }
}

async function ask(stream: boolean) {
  const { id, client } = await begin(stream)
  await client.closed
  return { received: client.received, call: await callOf(scene, id) }
}

const LOST = { state: "settled", basis: "partial", ending: "upstream_lost" }
const START = namedEvent(messageStart())

function startAndFlood(thousands: number, event: (n: number) => { readonly type: string }): Script {
  return flood(thousands, (n) => (n === 0 ? START : "") + namedEvent(event(n)))
}

describe("rule 3, rule 6, D31 a hostile provider costs no more memory than the limits", () => {
  const rows: readonly [name: string, stream: boolean, script: Script, told: string, recorded: object][] = [
    [
      "a JSON body without an end",
      false,
      endless(JSON_BODY, '{"content":[{"type":"text","text":"'),
      '"response_too_large"',
      { state: "settled", basis: "estimate", failure: "usage_missing" },
    ],
    [
      "a JSON body without an end in answer to a stream",
      true,
      endless(JSON_BODY, '{"content":[{"type":"text","text":"'),
      '"response_too_large"',
      { state: "settled", basis: "estimate", ending: "upstream_lost" },
    ],
    [
      "an event without an end, before anything else",
      true,
      endless(EVENT_STREAM, 'event: content_block_delta\ndata: {"delta":"'),
      "HTTP/1.1 200",
      { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
    ],
    [
      "an event without an end, after the start: the input is charged",
      true,
      endless(EVENT_STREAM, `${START}event: content_block_delta\ndata: {"delta":"`),
      "event: error\n",
      { ...LOST, charge: "0.00001" },
    ],
    [
      "a million empty objects",
      true,
      flood(1_000, () => "data: {}\n\n"),
      "HTTP/1.1 200",
      { ...RELEASED, failure: "no_output" },
    ],
    ["a million heartbeats", true, flood(1_000, () => ": beat\n\n"), "HTTP/1.1 200", RELEASED],
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
  ]
  test.each(rows)("%s", async (name, stream, script, told, recorded) => {
    const grown_bytes = await growthOf(victim, async () => {
      scene.provider.replyOnce(script)
      const { received, call } = await ask(stream)
      expect(received).toContain(told)
      expect(received).not.toContain("message_stop")
      expect(call).toMatchObject(recorded)
    })
    expect(grown_bytes).toBeLessThan(allowedBytes(name))
  })
})

describe("rule 5, rule 6 the way to the provider", () => {
  const events = messageWords("one ", "two ", "three ", "four")
  const text = events.map(namedEvent).join("")

  test("cuts everything into single bytes: the client has the provider's own bytes, and usage is charged", async () => {
    victim.upstream.weather = { ...FAIR, slice_bytes: 1 }
    scene.provider.replyOnce(namedEvents(events))
    const { id, client } = await begin(true)
    const { body } = await client.answer("POST")
    expect(body.replace(COMMIT, "")).toBe(text)
    expect(await callOf(scene, id)).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
  })

  const breaks: readonly [name: string, fault: () => void, recorded: object][] = [
    ["is reset", () => victim.upstream.reset(), LOST],
    ["is cut", () => victim.upstream.cut(), LOST],
    ["says that nothing more will come", () => victim.upstream.halfClose(), LOST],
    ["swallows everything", () => victim.upstream.stall(), { ...LOST, ending: "upstream_silent" }],
  ]
  test.each(breaks)(
    "%s in the middle of a stream: an error event, and the input and what was seen are charged",
    async (_, fault, recorded) => {
      scene.provider.replyOnce(async (exchange) => {
        await exchange.head(200, EVENT_STREAM)
        for (const event of [messageStart(), ...textBlock(0, "eight by").slice(0, 2)])
          await exchange.chunk(namedEvent(event))
      })
      const { id, client } = await begin(true)
      await client.receives("eight by")
      fault()
      await client.closed
      expect(client.received).toContain('event: error\ndata: {"type":"error",')
      expect(client.received).not.toContain("message_stop")
      // 10 tokens in, as reported; 8 bytes out.
      expect(await callOf(scene, id)).toMatchObject({ ...recorded, charge: "0.000018" })
    },
  )

  test("breaks before the first word: the input is charged", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      await exchange.chunk(START)
    })
    const { id, client } = await begin(true)
    await client.receives("message_start")
    victim.upstream.reset()
    await client.closed
    expect(client.received).toContain("event: error\n")
    expect(await callOf(scene, id)).toMatchObject({ ...LOST, charge: "0.00001" })
  })

  test("breaks within the last event: the usage was final, and the event is not shown", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      for (const event of events.slice(0, -1)) await exchange.chunk(namedEvent(event))
      await exchange.chunk(namedEvent(MESSAGE_STOP).slice(0, -8))
      await Bun.sleep(READ_MS)
      exchange.reset()
    })
    const { received, call } = await ask(true)
    expect(received).not.toContain("message_stop")
    expect(received).toContain("event: error\n")
    expect(call).toMatchObject({ ...LOST, basis: "usage", charge: "0.00003" })
  })

  test("swallows the end of the body: the last event has come, and the stream is whole", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      for (const event of events) await exchange.chunk(namedEvent(event))
      await Bun.sleep(READ_MS)
      victim.upstream.stall()
      await exchange.end()
    })
    const { received, call } = await ask(true)
    expect(received).toContain(namedEvent(MESSAGE_STOP))
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      charge: "0.00003",
      ending: "completed",
      failure: null,
    })
  })
})
