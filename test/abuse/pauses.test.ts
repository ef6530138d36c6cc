import { afterAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { CHAT } from "../support/gateway.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"

/**
 * How long the worst request and the worst answer keep the event loop of a gateway, which has a process of its own. On a
 * quiet machine all of this is below 50 ms, honest bodies below 150 ms; the limits leave room for a busy one. What they
 * are here to find took 0.3 to 2 s on a quiet one.
 */
const HOSTILE_MS = 400
const HONEST_MS = 600
const MIB = 1024 ** 2

interface Paused {
  readonly url: string
  readonly key: string
  /** The longest pause since it was asked last, in milliseconds. */
  longest(): Promise<number>
  stop(): Promise<void>
}

const provider = await startProvider()
provider.reply(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
const gateway = await startPaused(provider.url)
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
})

/** What the process of the gateway says: where it is at first, then its longest pause. */
interface Said {
  readonly url: string
  readonly key: string
  readonly longest_ms: number
}

async function startPaused(provider_url: string): Promise<Paused> {
  let heard = Promise.withResolvers<Said>()
  const next = async () => {
    const message = await heard.promise
    heard = Promise.withResolvers<Said>()
    return message
  }
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "paused-gateway.ts"), provider_url], {
    stdio: ["ignore", "inherit", "inherit"],
    ipc: (message) => heard.resolve(message),
  })
  const { url, key } = await next()
  return {
    url,
    key,
    async longest() {
      child.send("longest")
      return (await next()).longest_ms
    },
    async stop() {
      child.send("stop")
      await child.exited
    },
  }
}

function ask(body: string | Uint8Array): Promise<Response> {
  const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" }
  return fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body })
}

/** The longest pause while `work` runs, the shorter one of two tries. */
async function paused(work: () => Promise<unknown>): Promise<number> {
  const tries: number[] = []
  for (let number = 0; number < 2; number++) {
    await gateway.longest()
    await work()
    tries.push(await gateway.longest())
  }
  return Math.min(...tries)
}

const text = (content: string) => `{"model":"${CHAT}","messages":[{"role":"user","content":"${content}"}]}`
const beside = (value: string) =>
  `{"model":"${CHAT}","messages":[{"role":"user","content":"x"}],"x":${value}}`
const filling = (piece: string, mib: number) => piece.repeat(Math.floor((mib * MIB - 200) / piece.length))
const names = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(",")}}`

describe("D41 no request keeps the event loop", () => {
  const hostile: readonly [what: string, body: () => string][] = [
    ["escaped quotes", () => text(filling('\\"', 20))],
    ["escaped backslashes", () => text(filling("\\\\", 20))],
    ["as many escapes as pass", () => text('\\"'.repeat(1_990_000))],
    ["brackets", () => beside(filling("[", 20))],
    ["objects in objects", () => beside(filling('{"a":', 20))],
    ["different names", () => beside(names(1_000_000))],
    ["as many different names as pass", () => beside(names(25_000))],
    ["digits", () => beside(filling("1", 20))],
    ["long numbers", () => beside(`[${filling(`${"1".repeat(200)},`, 19)}1]`)],
    ["a name", () => beside(`{"${filling("Ⓜ", 6)}":1}`)],
    ["white space", () => `${text("x")}${filling(" ", 20)}`],
  ]
  test.each(hostile)("%s", async (_, body) => {
    const bytes = Buffer.from(body())
    const longest_ms = await paused(async () => {
      await (await ask(bytes)).text()
    })
    expect(longest_ms).toBeLessThan(HOSTILE_MS)
  })

  const honest: readonly [what: string, body: () => string][] = [
    ["a long text", () => text(filling("hello world ", 20))],
    ["a text with line ends", () => text(filling(`${"x".repeat(40)}\\n`, 20))],
    ["a text that is not ASCII", () => text("你好".repeat(3_300_000))],
    [
      "many parts",
      () =>
        `{"model":"${CHAT}","messages":[{"role":"user","content":[${filling(`{"type":"text","text":"${"a".repeat(800)}"},`, 19)}{"type":"text","text":"a"}]}]}`,
    ],
  ]
  test.each(honest)("%s of 20 MiB", async (_, body) => {
    const bytes = Buffer.from(body())
    const longest_ms = await paused(async () => {
      await (await ask(bytes)).text()
    })
    expect(longest_ms).toBeLessThan(HONEST_MS)
  })
})

describe("D41 no answer keeps the event loop", () => {
  const events: readonly [what: string, data: () => string][] = [
    ["brackets", () => filling("[", 7)],
    ["objects in objects", () => filling('{"a":', 7)],
    ["different names", () => names(500_000)],
    ["escapes", () => text(filling('\\"', 7))],
    ["numbers", () => `{"choices":[${filling("1,", 7)}1]}`],
  ]
  test.each(events)("an event of 7 MiB: %s", async (_, data) => {
    const event = `data: ${data()}\n\n`
    const longest_ms = await paused(async () => {
      provider.replyOnce(async (exchange) => {
        await exchange.head(200, { "content-type": "text/event-stream" })
        await exchange.chunk(event)
        await exchange.end()
      })
      await (await ask(text("x").replace("{", '{"stream":true,'))).text()
    })
    expect(longest_ms).toBeLessThan(HOSTILE_MS)
  })

  const answers: readonly [what: string, body: () => string][] = [
    ["brackets", () => `{"a":${filling("[", 20)}`],
    ["different names", () => `{"a":${names(1_000_000)}}`],
    [
      "embeddings",
      () => `{"data":[${filling("-0.0123456789,", 20)}1],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
    ],
    ["escapes", () => `{"choices":[{"message":{"content":"${filling('\\"', 20)}"}}]}`],
    ["costs (D24)", () => `{"choices":[${filling('{"usage":{"cost":1}},', 20)}{}],"usage":{"cost":1}}`],
  ]
  test.each(answers)("a JSON answer of 20 MiB: %s", async (_, body) => {
    const answer = body()
    const longest_ms = await paused(async () => {
      provider.replyOnce(json(200, answer))
      await (await ask(text("x"))).text()
    })
    expect(longest_ms).toBeLessThan(HOSTILE_MS)
  })
})
