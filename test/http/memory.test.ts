import { afterAll, expect, test } from "bun:test"
import { startGateway } from "../support/gateway.ts"
import { chatChunk, sseEvent } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest } from "../support/request.ts"
import { usedBytes } from "../support/used-bytes.ts"

const STREAMS = 20
const PROMPT_BYTES = 1024 * 1024

/** Sends the first event of each stream. Unlike the provider of other tests, it does not record what it was asked. */
const provider = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    await request.arrayBuffer()
    const start = (controller: ReadableStreamDefaultController) =>
      controller.enqueue(sseEvent(chatChunk({ content: "first" })))
    return new Response(new ReadableStream({ start }), { headers: { "content-type": "text/event-stream" } })
  },
})

const gateway = await startGateway({ url: `http://127.0.0.1:${provider.port}` })
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

/** The gateway runs in this process. */
test("an open stream keeps nothing of its request in memory", async () => {
  const { key } = await gateway.account("100")
  const messages = [{ role: "user", content: "x".repeat(PROMPT_BYTES) }]
  const request = chatRequest(key, { stream: true, messages })
  const before_bytes = usedBytes()
  const clients = []
  for (let opened = 0; opened < STREAMS; opened++) {
    const client = await rawClient(gateway)
    client.send(request)
    await client.receives("first")
    clients.push(client)
  }
  expect(usedBytes() - before_bytes).toBeLessThan((STREAMS * PROMPT_BYTES) / 4)
  for (const client of clients) client.leave()
})
