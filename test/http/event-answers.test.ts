import { describe, expect, test } from "bun:test"
import { CHAT, MESSAGES } from "../support/gateway.ts"
import { aMessage, messageWords, namedEvents } from "../support/messages.ts"
import {
  chatChunk,
  chatCompletion,
  chatWords,
  type Script,
  sse,
  usage,
  usageChunk,
} from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { responseEvent, responseObject, responseUsage, textItem } from "../support/responses.ts"
import { testGateway } from "../support/test-gateway.ts"
import { SENTENCE } from "./sides.ts"

/** D5: a JSON call that a provider answers with an event stream (quantities Q15). */

const { provider, gateway } = await testGateway({
  limits: { response: "64KiB", response_read: "256KiB" },
  idempotency: { keep_answers: "1h" },
})

const messages = [{ role: "user", content: "hello" }]

interface Asking {
  readonly path: string
  readonly body: object
}

const asking: Readonly<Record<"chat" | "messages" | "responses", Asking>> = {
  chat: { path: "/v1/chat/completions", body: { model: CHAT, messages } },
  messages: { path: "/v1/messages", body: { model: MESSAGES, messages, max_tokens: 100 } },
  responses: { path: "/v1/responses", body: { model: CHAT, input: "hello" } },
}

async function ask(
  family: keyof typeof asking,
  script: Script,
  more: object = {},
  headers: Record<string, string> = {},
) {
  const { id, key } = await gateway.account("1")
  const { path, body } = asking[family]
  provider.replyOnce(script)
  const request = () =>
    postJson(
      `${gateway.url}${path}`,
      key,
      { ...body, ...more },
      { "anthropic-version": "2023-06-01", ...headers },
    )
  const answer = await request()
  const said: unknown = await answer.json()
  const call = await gateway.callOf(answer)
  return { answer, said, call, request, balance: (await gateway.balance(id)).balance }
}

const whole = [...chatWords(SENTENCE), usageChunk(usage(10, 5, 4))]
/** 6 tokens at 1,000 nano-USD, 4 cached ones at 100, 5 of output at 4,000. */
const CHARGE = "0.0000264"
const completion = chatCompletion(SENTENCE, { usage: usage(10, 5, 4) })
const response = responseObject([textItem("Hello")], { usage: responseUsage(10, 5, 4) })

describe("D5 events in answer to a JSON call are charged by their usage, and answered as JSON", () => {
  test.each<[string, keyof typeof asking, Script, object, string]>([
    ["chat", "chat", sse(whole), completion, CHARGE],
    [
      "chat, labelled JSON",
      "chat",
      sse(whole, { headers: { "content-type": "application/json" } }),
      completion,
      CHARGE,
    ],
    ["messages", "messages", namedEvents(messageWords("Hel", "lo")), aMessage("Hello"), "0.00003"],
    [
      "responses",
      "responses",
      sse([responseEvent("response.completed", { response })], { done: false }),
      response,
      CHARGE,
    ],
  ])("%s", async (_, family, script, expected, charge) => {
    const { answer, said, call, balance } = await ask(family, script)
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/json"])
    expect(said).toMatchObject({
      ...JSON.parse(JSON.stringify(expected)),
      ...(family === "chat" && { choices: [{}] }),
    })
    expect(JSON.stringify(said)).toContain(family === "chat" ? SENTENCE : "Hello")
    expect(call).toMatchObject({ stream: false, basis: "usage", ending: "completed", failure: null, charge })
    expect(Number(balance)).toBeCloseTo(1 - Number(charge), 9)
  })

  test("D49 D90 the charge is told if it was asked for, and never the provider's own cost", async () => {
    const script = sse([...chatWords("Hi"), usageChunk({ ...usage(10, 5, 4), cost: 99 })])
    const silent = await ask("chat", script)
    expect(silent.said).toMatchObject({ usage: { ...usage(10, 5, 4) } })
    expect(JSON.stringify(silent.said)).not.toContain("cost")
    const { said } = await ask("chat", script, { usage: { include: true } })
    expect(said).toMatchObject({ usage: { cost: Number(CHARGE) } })
  })

  test("D43 the JSON answer is kept for its Idempotency-Key", async () => {
    const { said, request } = await ask("chat", sse(whole), {}, { "idempotency-key": "once" })
    const again = await request()
    expect([again.status, await again.json()]).toEqual([200, said])
  })
})

describe("D5 rules 1 to 3 hold for events in answer to a JSON call", () => {
  const cut = { done: false }
  const released = { state: "released", charge: "0" }
  test.each<[string, keyof typeof asking, Script, number, object]>([
    [
      "rule 3: cut by the connection, after its usage",
      "chat",
      sse(whole, { ...cut, ending: "close" }),
      502,
      { ...released, failure: "usage_invalid", ending: "upstream_lost" },
    ],
    [
      "over limits.response",
      "chat",
      sse([chatChunk({ content: "x".repeat(70_000) }), ...whole]),
      502,
      { ...released, failure: "usage_invalid" },
    ],
  ])("%s", async (_, family, script, status, recorded) => {
    const { answer, call } = await ask(family, script, family === "chat" ? { n: status === 200 ? 2 : 1 } : {})
    expect(answer.status).toBe(status)
    expect(call).toMatchObject(recorded)
  })
})
