import { describe, expect, test } from "bun:test"
import { expectError, expectIds } from "../http/errors.ts"
import { CANARY, testHarness } from "../http/harness.ts"
import { CHAT, chatModel, PRICE } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"

/** A second model, a thousand times as dear, under which the same provider is asked. */
const DEAR = "dear-model"

const harness = await testHarness((url) => {
  const model = (name: string, price: object) =>
    chatModel(name, { upstreams: [{ use: "first", model: `upstream-${name}` }], price })
  return {
    upstreams: { first: { family: "chat", base_url: `${url}/v1` } },
    models: [model(CHAT, PRICE), model(DEAR, { input: "1000", output: "4000" })],
  }
})
const account = await harness.account("100")

function sendText(body: string | Uint8Array) {
  const headers = [`authorization: Bearer ${account.key}`, "content-type: application/json"]
  return harness.ask({ method: "POST", target: "/v1/chat/completions", headers, body })
}

const MESSAGES = `"messages":[{"role":"user","content":"${CANARY}"}]`

describe("the billed model is the sent model, and the billed bound is the sent bound", () => {
  const cheap = { model: CHAT, prices: { input: "1" } }
  const dear = { model: DEAR, prices: { input: "1000" } }
  const rows: readonly [what: string, text: string, billed: { model: string; prices: { input: string } }][] =
    [
      ["a second model", `{"model":"${CHAT}",${MESSAGES},"model":"${DEAR}"}`, dear],
      ["a second model, first", `{"model":"${DEAR}",${MESSAGES},"model":"${CHAT}"}`, cheap],
      ["an escaped second model", `{"model":"${CHAT}",${MESSAGES},"\\u006dodel":"${DEAR}"}`, dear],
      [
        "an escaped first model",
        `{"\\u006d\\u006f\\u0064\\u0065\\u006c":"${DEAR}",${MESSAGES},"model":"${CHAT}"}`,
        cheap,
      ],
      ["a model whose name is escaped", `{"model":"\\u0063hat-model",${MESSAGES}}`, cheap],
      ["a model within __proto__", `{"model":"${CHAT}",${MESSAGES},"__proto__":{"model":"${DEAR}"}}`, cheap],
      [
        "a model within a message",
        `{"model":"${CHAT}",${MESSAGES.replace("{", `{"model":"${DEAR}",`)}}`,
        cheap,
      ],
    ]
  test.each(rows)("D18 %s", async (_, text, billed) => {
    const answer = await sendText(text)
    expect(answer.status).toBe(200)
    const sent = harness.provider.requests.at(-1)
    expect(sent?.json).toMatchObject({ model: `upstream-${billed.model}` })
    expect(sent?.body.split(`"model":"upstream-`)).toHaveLength(2)
    expect(await harness.gateway.call(expectIds(answer))).toMatchObject(billed)
  })

  test("D18 a second bound of the output: the held one is the sent one", async () => {
    const answer = await sendText(`{"model":"${CHAT}",${MESSAGES},"max_tokens":1000,"max_tok\\u0065ns":1}`)
    expect(answer.status).toBe(200)
    expect(harness.provider.requests.at(-1)?.json).toMatchObject({ max_tokens: 1 })
    expect(await harness.gateway.call(expectIds(answer))).toMatchObject({ held: "0.000047" })
  })
})

describe("rule 1 what a client says of usage, cost and price is no evidence", () => {
  const claims = {
    usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, cost: 0 },
    cost: 0,
    price: { input: "0", output: "0" },
    prices: { input: 0 },
    charge: "-5",
    amount_nano: "0",
    held: 0,
    billing: { skip: true },
    account_id: "00000000-0000-7000-8000-000000000000",
  }
  test("D18 they pass to the provider, and change no amount, and nor do headers", async () => {
    harness.provider.replyOnce(HELLO)
    const headers = ["x-usage: 0", "x-cost: 0", "x-price: 0", "x-account-id: other", "x-model: none"]
    const answer = await harness.chat(account.key, claims, headers)
    expect(answer.status).toBe(200)
    expect(harness.provider.requests.at(-1)?.json).toMatchObject(claims)
    expect(await harness.gateway.call(expectIds(answer))).toMatchObject({
      charge: "0.00003",
      account_id: account.id,
      model: CHAT,
    })
  })
})

test("bodies of the token count are read by the same rules", async () => {
  await harness.gateway.reload({})
  const body = (text: string) => `{"model":"messages-model",${MESSAGES},${text}}`
  const ask = (text: string) =>
    harness.ask({
      method: "POST",
      target: "/v1/messages/count_tokens",
      headers: [
        `x-api-key: ${account.key}`,
        "content-type: application/json",
        "anthropic-version: 2023-06-01",
      ],
      body: body(text),
    })
  expect((await ask('"usage":{"input_tokens":0},"cost":0')).status).toBe(200)
  expect((await ask('"m\\u006fdel":"none"')).status).toBe(404)
  expectError(await ask(`"x":${"[".repeat(1_000_000)}`), "invalid_request", {
    message: /more than 64 levels deep/,
  })
  expectError(await ask(`"x":[${"1,".repeat(200_000)}1]`), "invalid_request", { message: /100000 keys/ })
})
