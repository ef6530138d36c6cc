import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { brotliCompressSync, constants, gzipSync } from "node:zlib"
import { text } from "../process/stream.ts"
import { FAIR } from "../support/link.ts"
import { READ_MS, type Script, sse, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import {
  allowedBytes,
  callOf,
  EVENT_STREAM,
  endless,
  flood,
  growthOf,
  hostileTo,
  JSON_BODY,
  mend,
  OFFERED_BYTES,
  pour,
  RELEASED,
} from "./hostile.ts"
import { Scene } from "./scene.ts"

/** A provider that is hostile, and a way to it that breaks: what the client is told, what the ledger says, what it costs. */

const scene = await Scene.open()
const victim = await scene.victim((url) => hostileTo(`${url}/v1`, "chat", "700ms"))
// What runs for the first time is compiled, which takes memory of its own.
scene.provider.reply(sse([...Array.from({ length: 2_000 }, () => text("warm"))], { usage: usage(1, 1) }))
for (let call = 0; call < 20; call++) await ask(true)
afterEach(() => mend(victim))
afterAll(() => scene.close())

async function ask(stream: boolean) {
  const { id, key } = await scene.steady.account("10")
  const client = await rawClient(victim)
  client.send(chatRequest(key, { stream }, ["connection: close"]))
  await client.closed
  return { received: client.received, call: await callOf(scene, id) }
}

const zeros = Buffer.alloc(OFFERED_BYTES)

function compressed(encoding: string, body: Uint8Array, type: string): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": type, "content-encoding": encoding }, { length: body.length })
    await exchange.chunk(body)
    await exchange.end()
  }
}

const NO_OUTPUT = { ...RELEASED, failure: "no_output" }

describe("rule 3, rule 6, D31 a hostile provider costs no more memory than the limits", () => {
  const rows: readonly [
    name: string,
    stream: boolean,
    script: () => Script,
    told: string,
    recorded: object,
  ][] = [
    [
      "a JSON body without an end",
      false,
      () => endless(JSON_BODY, '{"choices":[{"message":{"content":"'),
      '"response_too_large"',
      { state: "settled", basis: "estimate", failure: "usage_missing" },
    ],
    [
      "an event without an end",
      true,
      () => endless(EVENT_STREAM, 'data: {"choices":[{"delta":{"content":"'),
      "HTTP/1.1 200",
      { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
    ],
    ["a million empty events", true, () => flood(1_000, () => "data:\n\n"), "HTTP/1.1 200", NO_OUTPUT],
    ["a million empty objects", true, () => flood(1_000, () => "data: {}\n\n"), "HTTP/1.1 200", NO_OUTPUT],
    ["a million heartbeats", true, () => flood(1_000, () => ": beat\n\n"), "HTTP/1.1 200", RELEASED],
    [
      "300,000 events, each of them new",
      true,
      () => flood(300, (n) => `data: {"n":${n},"nothing":"to say"}\n\n`),
      "HTTP/1.1 200",
      NO_OUTPUT,
    ],
    [
      "100,000 words, each of them new",
      true,
      () => flood(100, (n) => `data: {"choices":[{"text":"${n}"}]}\n\n`),
      "HTTP/1.1 200",
      { state: "settled", basis: "estimate", ending: "upstream_lost" },
    ],
    [
      "a gzip bomb in JSON",
      false,
      () => compressed("gzip", gzipSync(zeros), "application/json"),
      '"usage_invalid"',
      { ...RELEASED, failure: "usage_invalid" },
    ],
    [
      "a gzip bomb in a stream",
      true,
      () => compressed("gzip", gzipSync(zeros), "text/event-stream"),
      "HTTP/1.1 200",
      { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
    ],
    [
      "a br bomb",
      false,
      () =>
        compressed(
          "br",
          brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
          "application/json",
        ),
      '"usage_invalid"',
      { ...RELEASED, failure: "usage_invalid" },
    ],
    [
      "a gzip bomb in an error",
      false,
      () => async (exchange) => {
        const body = gzipSync(zeros)
        await exchange.head(400, { "content-type": "application/json", "content-encoding": "gzip" })
        await exchange.chunk(body)
        await exchange.end()
      },
      "HTTP/1.1 ",
      RELEASED,
    ],
    [
      "an error without an end",
      false,
      () => async (exchange) => {
        await exchange.head(400, { "content-type": "application/json" })
        await pour(exchange, "x".repeat(65_536))
      },
      "HTTP/1.1 400",
      RELEASED,
    ],
    [
      "headers without an end",
      true,
      () => async (exchange) => {
        await exchange.raw("HTTP/1.1 200 OK\r\n")
        for (let sent = 0; sent < 1_000 && (await exchange.raw(`x-${sent}: ${"x".repeat(4_096)}\r\n`)); )
          sent++
      },
      '"upstream_error"',
      { ...RELEASED, failure: "upstream_error" },
    ],
  ]
  test.each(rows)("%s", async (name, stream, script, told, recorded) => {
    const prepared = script()
    const from = scene.provider.exchanges.length
    const grown_bytes = await growthOf(victim, async () => {
      scene.provider.replyOnce(prepared)
      const { received, call } = await ask(stream)
      expect(received).toContain(told)
      expect(call).toMatchObject(recorded)
    })
    expect(grown_bytes).toBeLessThan(allowedBytes(name))
    expect(scene.provider.exchanges.length).toBe(from + 1)
  })
})

describe("rule 5, rule 6 the way to the provider", () => {
  const words = ["one ", "two ", "three ", "four"]
  const whole = sse(
    words.map((word) => JSON.parse(text(word).slice(6))),
    { usage: usage(10, 5) },
  )
  const OBSERVED = { state: "settled", basis: "estimate", ending: "upstream_lost" }

  test("cuts everything into single bytes: the client has the provider's own bytes, and usage is charged", async () => {
    victim.upstream.weather = { ...FAIR, slice_bytes: 1 }
    scene.provider.replyOnce(whole)
    const { received, call } = await ask(true)
    for (const word of words) expect(received).toContain(text(word))
    expect(received).toContain("data: [DONE]\n\n")
    expect(call).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
  })

  test("is slow: the stream is as slow, and whole", async () => {
    victim.upstream.weather = { ...FAIR, delay_ms: 100, bytes_per_s: 5_000 }
    scene.provider.replyOnce(whole)
    const { received, call } = await ask(true)
    expect(received).toContain("data: [DONE]\n\n")
    expect(call).toMatchObject({ state: "settled", basis: "usage" })
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
        await exchange.chunk(text("eight by"))
      })
      const { id, key } = await scene.steady.account("10")
      const client = await rawClient(victim)
      client.send(chatRequest(key, { stream: true }, ["connection: close"]))
      await client.receives("eight by")
      fault()
      await client.closed
      expect(client.received).toContain('data: {"error":')
      expect(client.received).not.toContain("[DONE]")
      const [call] = await scene.steady.calls(`?account=${id}`)
      expect(call).toMatchObject({ ...recorded, charge: "0.000008" })
    },
  )

  test("swallows the request: 504 within first_byte, and nothing is charged", async () => {
    victim.upstream.stall()
    const { received, call } = await ask(true)
    expect(received).toStartWith("HTTP/1.1 504")
    expect(call).toMatchObject({ ...RELEASED, failure: "upstream_timeout" })
  })

  test("swallows the end: the final usage has come, and is charged", async () => {
    scene.provider.replyOnce(async (exchange) => {
      await exchange.head(200, EVENT_STREAM)
      await exchange.chunk(text("eight by") + sseEvent(usageChunk(usage(10, 5))))
      await Bun.sleep(READ_MS)
      victim.upstream.stall()
      await exchange.end()
    })
    const { call } = await ask(true)
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      charge: "0.00003",
      failure: "upstream_silent",
    })
  })
})
