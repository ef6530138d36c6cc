import { describe, expect, test } from "bun:test"
import { chat } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const { provider, gateway } = await testGateway()

const ask = { usage: { include: true } }

describe("D49 a JSON answer", () => {
  test("tells the charge as a number, all else is the provider's bytes, and the field is not sent upstream", async () => {
    const { key } = await gateway.account("1")
    const body =
      '{"id":"x", "n":1e400, "seed":12345678901234567890, "z":-0,\n"choices":[{"message":{"content":"hi"}}], "usage" : {"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}\n'
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "application/json" })
      await exchange.chunk(body)
      await exchange.end()
    })
    const answer = await chat(gateway, key, { ...ask, temperature: 0.5 })
    expect(await answer.text()).toBe(body.replace("4}}", '4},"cost":0.0000264}'))
    expect(await gateway.callOf(answer)).toMatchObject({ basis: "usage", charge: "0.0000264" })
    expect(provider.requests.at(-1)?.json).toEqual({
      model: "upstream-model",
      messages: [{ role: "user", content: "hello" }],
      temperature: 0.5,
    })
  })

  test.each([
    ["invalid usage", chatCompletion("hi", { usage: { prompt_tokens: "9", completion_tokens: 1 } })],
  ])("rule 2 with %s is the provider's bytes: an estimate is told by the receipt alone", async (_, body) => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, body))
    const answer = await chat(gateway, key, ask)
    expect(await answer.text()).toBe(JSON.stringify(body))
    expect(await gateway.callOf(answer)).toMatchObject({ basis: "estimate" })
  })

  test.each<[object, unknown]>([
    [{}, undefined],
    [{ usage: { include: null } }, undefined],
    [{ usage: { include: false, detail: 1 } }, { detail: 1 }],
  ])(
    "passes unchanged for a client that did not ask: %j; D18 what is not ours is sent",
    async (fields, sent) => {
      const { key } = await gateway.account("1")
      const body = chatCompletion("hi", { usage: usage(10, 5) })
      provider.replyOnce(json(200, body))
      expect(await (await chat(gateway, key, fields)).text()).toBe(JSON.stringify(body))
      expect(provider.requests.at(-1)?.json).toEqual({
        model: "upstream-model",
        messages: [{ role: "user", content: "hello" }],
        ...(sent === undefined ? {} : { usage: sent }),
      })
    },
  )

  test.each([[{ usage: true }], [{ usage: { include: "true" } }]])("D15 %j is 400", async (fields) => {
    const { key } = await gateway.account("1")
    const answer = await chat(gateway, key, fields)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ error: { code: "invalid_request", param: "usage" } })
  })
})

describe("D49 a stream", () => {
  test("ends with a usage chunk that tells the charge, asked for by include_usage or not", async () => {
    const { key } = await gateway.account("1")
    for (const stream_options of [undefined, null, { include_usage: false }, { include_usage: true }]) {
      provider.replyOnce(sse(chatWords("one", " two"), { usage: usage(10, 5, 4) }))
      const answer = await chat(gateway, key, { ...ask, stream: true, stream_options })
      const events = (await answer.text()).split("\n\n").filter((event) => event.startsWith("data: {"))
      const chunks = events.map((event) => JSON.parse(event.slice(6)))
      expect(chunks.filter((chunk) => chunk.usage)).toEqual([chunks.at(-1)])
      expect(chunks.at(-1)).toMatchObject({
        choices: [],
        usage: { prompt_tokens: 10, completion_tokens: 5, cost: 0.0000264 },
      })
      expect(await gateway.callOf(answer)).toMatchObject({ basis: "usage", charge: "0.0000264" })
      expect(provider.requests.at(-1)?.json).not.toHaveProperty("usage")
    }
  })

  test("D29 answered in JSON tells it in its last chunk", async () => {
    const { key } = await gateway.account("1")
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
    const answer = await chat(gateway, key, { ...ask, stream: true })
    expect(await answer.text()).toContain('"cost":0.00003}')
  })
})
