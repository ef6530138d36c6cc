import { describe, expect, test } from "bun:test"
import OpenAI from "openai"
import { chatChunk, chatWords, sse, sseEvent } from "../support/provider.ts"
import { thrown } from "../support/thrown.ts"
import { PROMPT } from "./client.ts"
import { testStage } from "./stage.ts"
import { CALL_CHUNKS, LAST_WORDS } from "./weather.ts"

/** What only the client of OpenAI has. */

const stage = await testStage(10)

const messages = [{ role: "user" as const, content: PROMPT }]

describe("the official SDK", () => {
  async function open(root = (url: string) => `${url}/v1`) {
    const cell = await stage.cell()
    const client = new OpenAI({ baseURL: root(cell.url), apiKey: cell.key })
    return { cell, client, ask: { model: cell.model, messages } }
  }

  test("its helper for streams sees every word and the whole completion, also behind comments", async () => {
    const { cell, client, ask } = await open()
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

  test("rule 6 its helper for streams says that there was nothing, and does not ask again", async () => {
    const { cell, client, ask } = await open()
    cell.answers(sse([chatChunk({ role: "assistant", content: "" })]))
    expect(String(await thrown(client.chat.completions.stream(ask).finalContent()))).toMatch(
      /without sending any chunks/,
    )
    expect(cell.door.requests_ms).toHaveLength(1)
    expect(await cell.calls()).toMatchObject([{ state: "released", charge: "0" }])
  })

  test("D7 rule 4 tool calls of a stream without usage are output that is estimated", async () => {
    const { cell, client, ask } = await open()
    cell.answers(sse(CALL_CHUNKS))
    const completion = await client.chat.completions.stream(ask).finalChatCompletion()
    expect(completion.choices[0]?.message.tool_calls).toMatchObject([{ function: { name: "weather" } }])
    // "weather" and the arguments are 22 bytes: 5 tokens.
    expect(await cell.calls()).toMatchObject([
      { basis: "estimate", charge: "0.00002", failure: "usage_missing" },
    ])
  })

  test("its base URL works without /v1 too", async () => {
    const { cell, client, ask } = await open((url) => url)
    cell.answers(sse([chatChunk({ content: LAST_WORDS }), chatChunk({}, "stop")]))
    const stream = await client.chat.completions.create({ ...ask, stream: true })
    expect(await Array.fromAsync(stream)).toHaveLength(2)
    expect(await Array.fromAsync(client.models.list())).toMatchObject([{ id: cell.model }])
  })
})
