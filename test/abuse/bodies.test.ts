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

  test.each(["Model", "MODEL", "mode\u{2113}"])("D18 a second model as %s is refused", async (name) => {
    const answer = await sendText(`{"model":"${CHAT}",${MESSAGES},"${name}":"${DEAR}"}`)
    expect(answer.status).toBe(400)
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
  const CHARGED = "0.00003"

  test.each(Object.entries(claims))(
    "D18 %s passes to the provider, and changes no amount",
    async (name, value) => {
      harness.provider.replyOnce(HELLO)
      const answer = await harness.chat(account.key, { [name]: value })
      expect(answer.status).toBe(200)
      expect(harness.provider.requests.at(-1)?.json).toMatchObject({ [name]: value })
      expect(await harness.gateway.call(expectIds(answer))).toMatchObject({
        charge: CHARGED,
        account_id: account.id,
      })
    },
  )

  test("nor does a header", async () => {
    const headers = [
      "x-usage: 0",
      "x-cost: 0",
      "x-price: 0",
      "x-account-id: other",
      "x-request-cost: -5",
      "x-model: none",
    ]
    const answer = await harness.chat(account.key, {}, headers)
    expect(await harness.gateway.call(expectIds(answer))).toMatchObject({
      charge: CHARGED,
      account_id: account.id,
      model: CHAT,
    })
  })
})

describe("D18 texts that are strange but whole pass as they are", () => {
  const rows: readonly [what: string, content: string][] = [
    ["a lone high surrogate", "\\ud800"],
    ["a lone low surrogate", "a\\udfffb"],
    ["surrogates in the wrong order", "\\udc00\\ud800"],
    ["an escaped NUL", "a\\u0000b"],
    [
      "every control character",
      Array.from({ length: 32 }, (_, at) => `\\u00${at.toString(16).padStart(2, "0")}`).join(""),
    ],
    ["what ends a line elsewhere", "\\u2028\\u2029\\u0085"],
    ["what looks like an event", "\\n\\ndata: [DONE]\\n\\n"],
    ["what looks like markup", "</script><script>alert(1)</script>"],
    ["what looks like SQL", "'; DROP TABLE tollgate.accounts; --"],
    ["what looks like a reference", "$(HOME) {{7*7}} %s %n"],
  ]
  test.each(rows)("%s", async (_, content) => {
    const text = `{"model":"${CHAT}","messages":[{"role":"user","content":"${content}"}]}`
    expect((await sendText(text)).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.json).toEqual({ ...JSON.parse(text), model: `upstream-${CHAT}` })
  })

  const names: readonly string[] = [
    "\\ud800",
    "\\u0000",
    `${CHAT}\\u0000`,
    "'; --",
    "\\u202e",
    "../..",
    "$(HOME)",
  ]
  test.each(names.map((name) => [name]))(
    "D19 a model named %s is none, and reaches no statement of the ledger",
    async (name) => {
      await harness.untouched(account.id, async () => {
        expectError(await sendText(`{"model":"${name}",${MESSAGES}}`), "model_not_found", { param: "model" })
      })
    },
  )
})

describe("bodies that are made to be dear to read", () => {
  const M = 1_000_000
  const within = (text: string) => `{"model":"${CHAT}",${MESSAGES},"x":${text}}`
  const refused: readonly [what: string, text: () => string, message: RegExp][] = [
    ["D18 a million brackets", () => within("[".repeat(M) + "]".repeat(M)), /more than 64 levels deep/],
    ["D41 ten million numbers", () => within(`[${"1,".repeat(9 * M)}1]`), /100000 keys/],
  ]
  test.each(refused)("%s: a 400 before any hold", async (_, text, message) => {
    const body = text()
    await harness.untouched(account.id, async () => {
      expectError(await sendText(body), "invalid_request", { message })
    })
  })

  const taken: readonly [what: string, text: () => string, status: number][] = [
    ["a number of a million digits", () => within("1".repeat(M)), 200],
    ["D19 a model's name of a million characters", () => `{"model":"${"a".repeat(M)}",${MESSAGES}}`, 400],
  ]
  test.each(taken)("%s is answered", async (_, text, status) => {
    expect((await sendText(text())).status).toBe(status)
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
