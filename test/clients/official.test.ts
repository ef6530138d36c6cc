import { expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { chatChunk, chatWords, json, sse, sseEvent } from "../support/provider.ts"
import { PROMPT } from "./client.ts"
import { testStage } from "./stage.ts"
import { LAST_WORDS } from "./weather.ts"

/** What only the official clients have. */

const stage = await testStage(4)

const messages = [{ role: "user" as const, content: PROMPT }]

async function openai(root = "/v1") {
  const cell = await stage.cell()
  const client = new OpenAI({ baseURL: cell.url + root, apiKey: cell.key })
  return { cell, client, ask: { model: cell.model, messages } }
}

async function anthropic() {
  const cell = await stage.cell()
  cell.answers(json(200, { input_tokens: 12 }))
  const client = new Anthropic({ baseURL: cell.url, apiKey: cell.key })
  return { cell, client, ask: { model: cell.counter, messages } }
}

test("openai: its helper for streams sees every word and the whole completion, also behind comments", async () => {
  const { cell, client, ask } = await openai()
  const asked = Promise.withResolvers<void>()
  cell.answers(async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    await asked.promise
    const [first = {}, ...rest] = chatWords("one", " two")
    await exchange.chunk(`: thinking\n\n${sseEvent(first)}`)
    await exchange.chunk(`${rest.map(sseEvent).join(": still\n\n")}data: [DONE]\n\n`)
    await exchange.end()
  })
  const stream = client.chat.completions.stream(ask)
  const words: string[] = []
  stream.on("content", (word) => words.push(word))
  // Its head is there before any event of the provider: the gateway sent a comment of its own (D36).
  stream.on("connect", asked.resolve)
  expect(await stream.finalContent()).toBe("one two")
  expect(words).toEqual(["one", " two"])
})

test("openai: its base URL works without /v1 too", async () => {
  const { cell, client, ask } = await openai("")
  cell.answers(sse([chatChunk({ content: LAST_WORDS }), chatChunk({}, "stop")]))
  const stream = await client.chat.completions.create({ ...ask, stream: true })
  expect(await Array.fromAsync(stream)).toHaveLength(2)
  expect(await Array.fromAsync(client.models.list())).toMatchObject([{ id: cell.model }])
})

test("D20 D22 @anthropic-ai/sdk: its version, its system prompt and its request id pass, its key does not", async () => {
  const { cell, client, ask } = await anthropic()
  const { data, request_id } = await client.messages
    .countTokens({ ...ask, system: "be brief" })
    .withResponse()
  expect(data).toEqual({ input_tokens: 12 })
  expect(Reflect.get(data, "_request_id")).toBe(request_id)
  const { request } = await cell.exchange(1)
  expect(request.headers).toMatchObject({
    "anthropic-version": "2026-10-21",
    "x-request-id": String(request_id),
  })
  expect(request.json).toEqual({ model: "provider-model", messages, system: "be brief" })
  expect(JSON.stringify(request)).not.toContain(cell.key)
})

test("D22 @anthropic-ai/sdk: it counts by its beta, whose header is forwarded", async () => {
  const { cell, client, ask } = await anthropic()
  const betas = ["context-management-2025-06-27"]
  expect(await client.beta.messages.countTokens({ ...ask, betas })).toMatchObject({ input_tokens: 12 })
  const { "anthropic-beta": beta } = (await cell.exchange(1)).request.headers
  expect(beta).toContain("context-management-2025-06-27")
  expect(beta).toContain("token-counting")
})
