import { expect, test } from "bun:test"
import { chat, until } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const { provider, gateway } = await testGateway()

test("rule 1 a JSON call is held, sent, and settled from the provider's usage", async () => {
  const { id, key } = await gateway.account("1")
  provider.replyOnce(json(200, chatCompletion("hello there", { usage: usage(10, 5, 4) })))
  const answer = await chat(gateway, key)
  expect(answer.status).toBe(200)
  expect(await answer.json()).toMatchObject({ choices: [{ message: { content: "hello there" } }] })
  const call = await until(
    () => gateway.callOf(answer),
    ({ state }) => state !== "open",
  )
  expect(call).toMatchObject({
    state: "settled",
    basis: "usage",
    ending: "completed",
    charge: "0.0000264",
    usage: { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 5 },
  })
  expect(await gateway.balance(id)).toMatchObject({ balance: "0.9999736", held: "0" })
})

test("rule 1 a stream is relayed, its usage asked for and stripped, and settled before [DONE]", async () => {
  const { id, key } = await gateway.account("1")
  provider.replyOnce(sse(chatWords("one", " two"), { usage: usage(10, 5) }))
  const answer = await chat(gateway, key, { stream: true })
  const text = await answer.text()
  expect(text).toEndWith("data: [DONE]\n\n")
  expect(text).not.toContain('"prompt_tokens"')
  expect(provider.requests.at(-1)?.json).toMatchObject({
    stream_options: { include_usage: true },
    model: "upstream-model",
  })
  const call = await until(
    () => gateway.callOf(answer),
    ({ state }) => state !== "open",
  )
  expect(call).toMatchObject({ state: "settled", basis: "usage", charge: "0.00003" })
  expect(await gateway.balance(id)).toMatchObject({ balance: "0.99997", held: "0" })
})
