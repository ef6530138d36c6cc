import { afterAll, beforeAll, expect, test } from "bun:test"
import { inParts } from "../../src/routes/in-parts.ts"
import { rawClient } from "../support/raw-client.ts"

const SIZE = 16 * 1024 ** 2

let sent: Uint8Array
let asked: PromiseWithResolvers<void>
let ended: PromiseWithResolvers<void>
let server: Bun.Server<undefined>

beforeAll(() => {
  server = Bun.serve({
    port: 0,
    fetch: ({ signal }) => {
      asked.resolve()
      return new Response(inParts(sent, signal, () => ended.resolve()))
    },
  })
})
afterAll(() => server.stop(true))

function send(): string {
  sent = Buffer.alloc(SIZE, "0123456789abcdef")
  asked = Promise.withResolvers()
  ended = Promise.withResolvers()
  return `http://127.0.0.1:${server.port}`
}

test("D77 a large answer comes whole, and its memory is freed", async () => {
  const url = send()
  const { buffer } = sent
  const answer = await (await fetch(url)).text()
  expect(answer).toBe("0123456789abcdef".repeat(SIZE / 16))
  await ended.promise
  expect(buffer.byteLength).toBe(0)
})

test.each(["leave", "reset"] as const)("D77 of a client that reads nothing until its %s too", async (way) => {
  const url = send()
  const client = await rawClient({ url })
  client.stopReading()
  client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
  await asked.promise
  const length = sent.byteLength
  client[way]()
  await ended.promise
  expect([length, sent.byteLength]).toEqual([SIZE, 0])
})

test("D77 an answer whose client has left is freed immediately", () => {
  send()
  let ends = 0
  inParts(sent, AbortSignal.abort(), () => {
    ends += 1
  })
  expect([ends, sent.byteLength]).toEqual([1, 0])
})
