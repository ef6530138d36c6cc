import { describe, expect, test } from "bun:test"
import { gzipSync } from "node:zlib"
import { text } from "../process/stream.ts"
import { CHAT } from "../support/gateway.ts"
import { FAIR } from "../support/link.ts"
import { chatWords, READ_MS, type Script, sseEvent, usage, usageChunk } from "../support/provider.ts"
import {
  COMMIT,
  callOf,
  EVENT_STREAM,
  endless,
  flood,
  JSON_BODY,
  OFFERED_BYTES,
  pour,
  RELEASED,
} from "./hostile.ts"
import { describeMemory, openHostile } from "./hostile-family.ts"

/** A provider that is hostile, and a way to it that breaks: what the client is told, what the ledger says, what it costs. */

const USAGE = sseEvent(usageChunk(usage(10, 5)))
const END = "data: [DONE]\n\n"

const hostile = await openHostile({
  family: "chat",
  path: "/v1",
  draft: (key, stream) => ({
    target: "/v1/chat/completions",
    headers: [`authorization: Bearer ${key}`],
    body: {
      model: CHAT,
      messages: [{ role: "user", content: "hello" }],
      ...(stream && { stream, stream_options: { include_usage: true } }),
    },
  }),
  words: (...words) => [...chatWords(...words).map(sseEvent), USAGE, END],
})
const { scene, victim, begin, ask, events, whole } = hostile

const zeros = Buffer.alloc(OFFERED_BYTES)

function compressed(encoding: string, body: Uint8Array, type: string): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": type, "content-encoding": encoding }, { length: body.length })
    await exchange.chunk(body)
    await exchange.end()
  }
}

const NO_OUTPUT = { ...RELEASED, failure: "no_output" }

describeMemory(hostile, END, [
  [
    "a JSON body without an end",
    false,
    endless(JSON_BODY, '{"choices":[{"message":{"content":"'),
    '"response_too_large"',
    { state: "settled", basis: "estimate", failure: "usage_missing" },
  ],
  [
    "an event without an end",
    true,
    endless(EVENT_STREAM, 'data: {"choices":[{"delta":{"content":"'),
    "HTTP/1.1 200",
    { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
  ],
  ["a million empty events", true, flood(1_000, () => "data:\n\n"), "HTTP/1.1 200", NO_OUTPUT],
  ["a million empty objects", true, flood(1_000, () => "data: {}\n\n"), "HTTP/1.1 200", NO_OUTPUT],
  ["a million heartbeats", true, flood(1_000, () => ": beat\n\n"), "HTTP/1.1 200", RELEASED],
  [
    "300,000 events, each of them new",
    true,
    flood(300, (n) => `data: {"n":${n},"nothing":"to say"}\n\n`),
    "HTTP/1.1 200",
    NO_OUTPUT,
  ],
  [
    "100,000 words, each of them new",
    true,
    flood(100, (n) => `data: {"choices":[{"text":"${n}"}]}\n\n`),
    "HTTP/1.1 200",
    { state: "settled", basis: "estimate", ending: "upstream_lost" },
  ],
  [
    "a gzip bomb in JSON",
    false,
    compressed("gzip", gzipSync(zeros), "application/json"),
    '"usage_invalid"',
    { ...RELEASED, failure: "usage_invalid" },
  ],
  [
    "a gzip bomb in a stream",
    true,
    compressed("gzip", gzipSync(zeros), "text/event-stream"),
    "HTTP/1.1 200",
    { ...RELEASED, ending: "upstream_lost", failure: "upstream_error" },
  ],
  [
    "a gzip bomb in an error",
    false,
    async (exchange) => {
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
    async (exchange) => {
      await exchange.head(400, { "content-type": "application/json" })
      await pour(exchange, "x".repeat(65_536))
    },
    "HTTP/1.1 400",
    RELEASED,
  ],
  [
    "headers without an end",
    true,
    async (exchange) => {
      await exchange.raw("HTTP/1.1 200 OK\r\n")
      for (let sent = 0; sent < 1_000 && (await exchange.raw(`x-${sent}: ${"x".repeat(4_096)}\r\n`)); ) sent++
    },
    '"upstream_error"',
    { ...RELEASED, failure: "upstream_error" },
  ],
])

describe("rule 5, rule 6 the way to the provider", () => {
  test("cuts everything into single bytes: the client has the provider's own bytes, and usage is charged", async () => {
    victim.upstream.weather = { ...FAIR, slice_bytes: 1 }
    scene.provider.replyOnce(whole)
    const { id, client } = await begin(true)
    const { body } = await client.answer("POST")
    expect(body.replace(COMMIT, "")).toBe(events.join(""))
    expect(await callOf(scene, id)).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
  })

  test.each([
    ["is reset", () => victim.upstream.reset(), "upstream_lost"],
    ["is cut", () => victim.upstream.cut(), "upstream_lost"],
    ["says that nothing more will come", () => victim.upstream.halfClose(), "upstream_lost"],
    ["swallows everything", () => victim.upstream.stall(), "upstream_silent"],
  ])(
    "%s in the middle of a stream: an error event, and what was seen is charged",
    async (_, fault, ending) => {
      scene.provider.replyOnce(async (exchange) => {
        await exchange.head(200, EVENT_STREAM)
        await exchange.chunk(text("eight by"))
      })
      const { id, client } = await begin(true)
      await client.receives("eight by")
      fault()
      await client.closed
      expect(client.received).toContain('data: {"error":')
      expect(client.received).not.toContain(END)
      expect(await callOf(scene, id)).toMatchObject({ basis: "estimate", charge: "0.000008", ending })
    },
  )
})

test("rule 5 the way swallows the end: the final usage has come, and is charged", async () => {
  scene.provider.replyOnce(async (exchange) => {
    await exchange.head(200, EVENT_STREAM)
    await exchange.chunk(text("eight by") + USAGE)
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
