import { describe, expect, test } from "bun:test"
import OpenAI from "openai"
import { CHAT, chat, MESSAGES, PRICE } from "../support/gateway.ts"
import {
  aMessage,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import { chatChunk, chatCompletion, json, sseEvent, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { responseEvent, responseObject, responseUsage, textEvents, textItem } from "../support/responses.ts"
import { testGateway } from "../support/test-gateway.ts"

const model = { family: "chat", price: PRICE, max_output_tokens: 1000 }
const { provider, gateway } = await testGateway((url) => ({
  upstreams: {
    hiding: { family: "chat", base_url: `${url}/v1` },
    passing: { family: "chat", base_url: `${url}/v1`, pass_cost: true },
    messages: { family: "messages", base_url: url },
  },
  models: [
    { ...model, name: CHAT, upstreams: [{ use: "hiding" }] },
    { ...model, name: "passing", upstreams: [{ use: "passing" }] },
    { ...model, name: MESSAGES, family: "messages", upstreams: [{ use: "messages" }] },
  ],
}))

const DONE = "data: [DONE]\n\n"
const own = { cost: 0.5, cost_details: { upstream_inference_cost: 0.4 }, is_byok: false }
const text = (content: string, more: object = {}) => sseEvent({ ...chatChunk({ content }), ...more })
const finish = (more: object = {}) => sseEvent({ ...chatChunk({}, "stop"), ...more })
const EMPTY = { index: 0, delta: {} }

/** Answers with these events, cut at every `bytes`. */
function events(all: readonly string[], bytes = Number.POSITIVE_INFINITY) {
  provider.replyOnce(async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    const body = all.join("")
    for (let at = 0; at < body.length; at += bytes) await exchange.chunk(body.slice(at, at + bytes))
    await exchange.end()
  })
}

/** What providers send, and what is left for a client that asked for no usage. */
const STREAMS: readonly (readonly [who: string, sent: readonly string[], shown: readonly string[]])[] = [
  [
    "LiteLLM, a choice that says nothing",
    [
      text("hi"),
      finish(),
      sseEvent({ ...chatChunk({}), choices: [EMPTY], usage: { ...usage(10, 5), ...own } }),
      DONE,
    ],
    [text("hi"), finish(), DONE],
  ],
  [
    "DeepSeek, beside the end",
    [text("hi", { usage: null }), finish({ usage: usage(10, 5) }), DONE],
    [text("hi", { usage: null }), finish(), DONE],
  ],
  [
    "Perplexity, in every chunk",
    [
      text("h", { usage: usage(10, 2) }),
      text("i", { usage: usage(10, 5) }),
      finish({ usage: { ...usage(10, 5), cost: { total_cost: 1 } } }),
      DONE,
    ],
    [text("h"), text("i"), finish(), DONE],
  ],
  [
    "Moonshot, in the choice",
    [
      text("hi"),
      sseEvent({
        ...chatChunk({}),
        choices: [{ index: 0, delta: {}, finish_reason: "stop", usage: usage(10, 5) }],
      }),
      DONE,
    ],
    [
      text("hi"),
      sseEvent({ ...chatChunk({}), choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
      DONE,
    ],
  ],
  [
    "Groq, in both places",
    [text("hi"), finish({ x_groq: { id: "r", usage: usage(10, 5) }, usage: usage(10, 5) }), DONE],
    [text("hi"), finish({ x_groq: { id: "r" } }), DONE],
  ],
]

describe("D24 usage that nobody asked for never passes", () => {
  for (const [who, sent, shown] of STREAMS) {
    test(`${who}: stripped, charged, and passed to a client that asked`, async () => {
      const { key } = await gateway.account("1")
      for (const bytes of [Number.POSITIVE_INFINITY, 61, 7]) {
        events(sent, bytes)
        const answer = await chat(gateway, key, { stream: true })
        expect(await answer.text()).toBe(shown.join(""))
        expect(await gateway.callOf(answer)).toMatchObject({ basis: "usage", charge: "0.00003" })
      }
      events(sent)
      const asked = await chat(gateway, key, { stream: true, stream_options: { include_usage: true } })
      const received = await asked.text()
      expect(received).toContain('"completion_tokens":5')
      expect(received).not.toMatch(/cost|is_byok/)
    })

    test(`${who}: D49 the cost of the call is told, once, at the top level`, async () => {
      const { key } = await gateway.account("1")
      events(sent)
      const answer = await chat(gateway, key, { stream: true, usage: { include: true } })
      const chunks = (await answer.text())
        .split("\n\n")
        .filter((event) => event.startsWith("data: {"))
        .map((event) => JSON.parse(event.slice(6)))
      expect(chunks.filter((chunk) => chunk.usage?.cost !== undefined)).toEqual([chunks.at(-1)])
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 5, cost: 0.00003 } })
    })
  }

  test("the role stays where it came with usage: SDKs fail without it", async () => {
    const { key } = await gateway.account("1")
    events([
      sseEvent({ ...chatChunk({ role: "assistant" }), usage: usage(10, 0) }),
      text("hi"),
      finish(),
      DONE,
    ])
    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })
    const stream = client.chat.completions.stream(chatBody())
    expect((await stream.finalChatCompletion()).choices[0]?.message).toMatchObject({ content: "hi" })
  })

  test("an event with other lines and a payload of two lines keeps what is not the usage", async () => {
    const { key } = await gateway.account("1")
    const payload =
      '{"choices":[{"index":0,"delta":{"content":"hi"}}],\ndata:"usage":{"prompt_tokens":10,"completion_tokens":5}}'
    events([`id: 7\ndata: ${payload}\n\n`, finish(), DONE])
    const answer = await chat(gateway, key, { stream: true })
    const left = 'id: 7\ndata: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    expect(await answer.text()).toBe(left + finish() + DONE)
  })
})

async function ask(path: string, key: string, body: object): Promise<Response> {
  return await postJson(
    gateway.url + path,
    key,
    { ...body, max_tokens: 100 },
    { "anthropic-version": "2023-06-01" },
  )
}

const message = { model: MESSAGES, messages: [{ role: "user", content: "hello" }] }

describe("D24 the provider's own cost reaches a client only where the operator says so", () => {
  test("of a chat completion", async () => {
    const { key } = await gateway.account("1")
    const plain = chatCompletion("hi", { usage: usage(10, 5) })
    for (const model of [CHAT, "passing"]) {
      const told = chatCompletion("hi", { usage: { ...usage(10, 5), ...own } })
      provider.replyOnce(json(200, told))
      const answer = await chat(gateway, key, { model })
      expect(await answer.text()).toBe(JSON.stringify(model === CHAT ? plain : told))
    }
  })

  test("an answer that is not UTF-8 is refused with its own error", async () => {
    const { key } = await gateway.account("1")
    const told = JSON.stringify(chatCompletion("hi", { usage: { ...usage(10, 5), ...own } }))
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "application/json" })
      await exchange.chunk(Buffer.from(told.replace("hi", "\xff"), "latin1"))
      await exchange.end()
    })
    const answer = await chat(gateway, key)
    expect(answer.status).toBe(502)
    expect(await answer.json()).toMatchObject({ error: { code: "usage_invalid" } })
  })

  test("of a stream, for a client that asked for usage", async () => {
    const { key } = await gateway.account("1")
    for (const model of [CHAT, "passing"]) {
      events([text("hi"), finish({ usage: { ...usage(10, 5), ...own } }), DONE])
      const answer = await chat(gateway, key, {
        model,
        stream: true,
        stream_options: { include_usage: true },
      })
      const last = finish({ usage: { ...usage(10, 5), ...(model === CHAT ? {} : own) } })
      expect(await answer.text()).toBe(text("hi") + last + DONE)
    }
  })

  test("of a message and its stream", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, aMessage("hi", { usage: messageUsage(10, 5, own) })))
    const whole = await ask("/v1/messages", key, message)
    expect(await whole.text()).toBe(JSON.stringify(aMessage("hi")))
    provider.replyOnce(
      namedEvents([
        messageStart(messageUsage(10, 1, own)),
        ...textBlock(0, "hi"),
        messageDelta({ output_tokens: 5, ...own }),
        MESSAGE_STOP,
      ]),
    )
    const streamed = await ask("/v1/messages", key, { ...message, stream: true })
    const received = await streamed.text()
    expect(received).not.toMatch(/cost|is_byok/)
    expect(received).toContain('event: message_delta\ndata: {"type":"message_delta"')
    expect(await gateway.callOf(streamed)).toMatchObject({ basis: "usage", charge: "0.00003" })
  })

  test("of a response and its stream", async () => {
    const { key } = await gateway.account("1")
    const ticks = { ...responseUsage(10, 5), cost_in_usd_ticks: 99 }
    provider.replyOnce(json(200, responseObject([textItem("hi")], { usage: ticks })))
    const whole = await ask("/v1/responses", key, { model: CHAT, input: "hello" })
    expect(await whole.json()).toEqual(responseObject([textItem("hi")], { usage: responseUsage(10, 5) }))
    for (const type of ["response.completed", "response.incomplete", "response.failed"]) {
      const last = (usage: object) =>
        responseEvent(type, { response: responseObject([textItem("hi")], { usage }) })
      events([...textEvents(["hi"]), last(ticks)])
      const streamed = await ask("/v1/responses", key, { model: CHAT, input: "hello", stream: true })
      expect(await streamed.text()).toEndWith(last(responseUsage(10, 5)))
    }
  })
})
