import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { FAIR } from "../support/link.ts"
import { READ_MS, type Script } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { requestBytes } from "../support/request.ts"
import {
  created,
  last,
  responseEvent,
  responseStream,
  responseUsage,
  textEvents,
  textItem,
  textStream,
} from "../support/responses.ts"
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

/** The faults of provider.test.ts, as far as responses are read in their own way (D66). */

const scene = await Scene.open()
const victim = await scene.victim((url) => hostileTo(`${url}/v1`, "chat", "10s"))
// What runs for the first time is compiled, which takes memory of its own.
scene.provider.reply(responseStream(textStream(Array.from({ length: 2_000 }, () => "warm"))))
for (let call = 0; call < 20; call++) await ask(true)
afterEach(() => mend(victim))
afterAll(() => scene.close())

async function begin(stream: boolean) {
  const { id, key } = await scene.steady.account("10")
  const client = await rawClient(victim)
  client.send(
    requestBytes({
      method: "POST",
      target: "/v1/responses",
      headers: [`authorization: Bearer ${key}`, "content-type: application/json", "connection: close"],
      body: { model: "chat-model", input: "hello", stream },
    }),
  )
  return { id, client }
}

async function ask(stream: boolean) {
  const { id, client } = await begin(stream)
  await client.closed
  return { received: client.received, call: await callOf(scene, id) }
}

const OBSERVED = { state: "settled", basis: "estimate", ending: "upstream_lost" }

describe("rule 3, rule 6, D31 a hostile provider costs no more memory than the limits", () => {
  const rows: readonly [name: string, stream: boolean, script: Script, told: string, recorded: object][] = [
    [
      "a JSON body without an end",
      false,
      endless(JSON_BODY, '{"output":[{"content":[{"text":"'),
      '"response_too_large"',
      { state: "settled", basis: "estimate", failure: "usage_missing" },
    ],
    [
      "a JSON body without an end in answer to a stream",
      true,
      endless(JSON_BODY, '{"output":[{"content":[{"text":"'),
      '"response_too_large"',
      { state: "settled", basis: "estimate", ending: "upstream_lost" },
    ],
    [
      "an event without an end",
      true,
      endless(EVENT_STREAM, 'event: response.output_text.delta\ndata: {"delta":"'),
      "HTTP/1.1 200",
      { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
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
      "300,000 states, each of them new",
      true,
      flood(300, (n) => responseEvent("response.web_search_call.searching", { output_index: n })),
      "HTTP/1.1 200",
      { ...RELEASED, failure: "no_output" },
    ],
    [
      "100,000 words, each of them new",
      true,
      flood(100, (n) =>
        responseEvent("response.output_text.delta", {
          item_id: "m",
          output_index: 0,
          content_index: 0,
          sequence_number: n,
          delta: `${n}`,
        }),
      ),
      "event: error\n",
      OBSERVED,
    ],
    [
      "100,000 items, each of them new",
      true,
      flood(100, (n) =>
        responseEvent("response.output_item.done", { output_index: n, item: textItem("x", `m${n}`) }),
      ),
      "event: error\n",
      OBSERVED,
    ],
    [
      "100,000 parts of an item, each of them new",
      true,
      flood(100, (n) =>
        responseEvent("response.output_text.delta", {
          item_id: "m",
          output_index: 0,
          content_index: n,
          delta: "x",
        }),
      ),
      "event: error\n",
      OBSERVED,
    ],
  ]
  test.each(rows)("%s", async (name, stream, script, told, recorded) => {
    const grown_bytes = await growthOf(victim, async () => {
      scene.provider.replyOnce(script)
      const { received, call } = await ask(stream)
      expect(received).toContain(told)
      expect(call).toMatchObject(recorded)
    })
    expect(grown_bytes).toBeLessThan(allowedBytes(name))
  })
})

describe("rule 5, rule 6 the way to the provider", () => {
  const USAGE = responseUsage(10, 5)
  const events = textStream(["one ", "two ", "three ", "four"], USAGE)

  test("cuts everything into single bytes: the client has the provider's own bytes, and usage is charged", async () => {
    victim.upstream.weather = { ...FAIR, slice_bytes: 1 }
    scene.provider.replyOnce(responseStream(events))
    const { id, client } = await begin(true)
    const { body } = await client.answer("POST")
    expect(body.replace(COMMIT, "")).toBe(events.join(""))
    expect(await callOf(scene, id)).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
  })

  const breaks: readonly [name: string, fault: () => void, recorded: object][] = [
    ["is reset", () => victim.upstream.reset(), OBSERVED],
    ["is cut", () => victim.upstream.cut(), OBSERVED],
    ["says that nothing more will come", () => victim.upstream.halfClose(), OBSERVED],
    ["swallows everything", () => victim.upstream.stall(), { ...OBSERVED, ending: "upstream_silent" }],
  ]
  test.each(breaks)(
    "%s in the middle of a stream: an error event, and what was observed is charged",
    async (_, fault, recorded) => {
      scene.provider.replyOnce(async (exchange) => {
        await exchange.head(200, EVENT_STREAM)
        for (const event of [created, ...textEvents(["eight by"]).slice(0, 3)]) await exchange.chunk(event)
      })
      const { id, client } = await begin(true)
      await client.receives("eight by")
      fault()
      await client.closed
      expect(client.received).toContain('event: error\ndata: {"type":"error",')
      expect(await callOf(scene, id)).toMatchObject({ ...recorded, charge: "0.000008" })
    },
  )

  test("breaks within the last event: what was observed is charged, and the event is not shown", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      for (const event of events.slice(0, -1)) await exchange.chunk(event)
      await exchange.chunk(events.at(-1)?.slice(0, -20) ?? "")
      await Bun.sleep(READ_MS)
      exchange.reset()
    })
    const { received, call } = await ask(true)
    expect(received).not.toContain("event: response.completed")
    expect(received).toContain("event: error\n")
    expect(call).toMatchObject({ ...OBSERVED, charge: "0.000016" })
  })

  test("swallows the end of the body: the last event has come, and the stream is whole", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      for (const event of events) await exchange.chunk(event)
      await Bun.sleep(READ_MS)
      victim.upstream.stall()
      await exchange.end()
    })
    const { received, call } = await ask(true)
    expect(received).toContain(last([textItem("one two three four")], { usage: USAGE }))
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      charge: "0.00003",
      ending: "completed",
      failure: null,
    })
  })
})
