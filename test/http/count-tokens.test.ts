import { describe, expect, test } from "bun:test"
import { within } from "../support/fair-clock.ts"
import { CHAT, chatModel, MESSAGES, PROVIDER_KEY, untilIs } from "../support/gateway.ts"
import { json, type Script, silent } from "../support/provider.ts"
import { requestBytes } from "../support/request.ts"
import { type Code, expectError, expectIds, ownHeaders, type Said } from "./errors.ts"
import { CANARY, chatDraft, countBody, countDraft, HELD, testHarness } from "./harness.ts"

const PATH = "/v1/messages/count_tokens"
const VERSION = "anthropic-version: 2023-06-01"
/** Nothing listens on it. */
const NOWHERE = "http://127.0.0.1:1"

const harness = await testHarness(configuration)
const account = await harness.account()

/** Two vendors, and a model for each way that an upstream can be. */
function configuration(url: string) {
  const upstreams = {
    chats: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
    counter: { family: "messages", base_url: url, api_key: PROVIDER_KEY },
    down: { family: "messages", base_url: NOWHERE },
    hurried: { family: "messages", base_url: url, timeouts: { total: "100ms" } },
  }
  const model = (name: string, family: string, ...uses: string[]) =>
    chatModel(name, { family, upstreams: uses.map((use) => ({ use, model: `upstream-${name}` })) })
  const models = [
    model(CHAT, "chat", "chats"),
    model(MESSAGES, "messages", "counter"),
    model("down", "messages", "down"),
    model("hurried", "messages", "hurried"),
  ]
  return { vendors: ["anthropic", "acme-ai"], upstreams, models }
}

/** A token count at `target`, with these headers besides the key. */
function count(target: string, headers: readonly string[], fields: object = {}) {
  return harness.ask({ ...countDraft(account.key, fields, headers), target })
}

describe("spec 4.3 the answer is the provider's", () => {
  test("byte for byte, whatever else it holds, with headers of ours", async () => {
    const text = ' {"input_tokens": 2095,\n"context_management": {"original_input_tokens": 1e4}} '
    harness.provider.replyOnce(json(200, text, { "x-provider": "leak", "request-id": "theirs" }))
    const answer = await harness.count(account.key)
    expect(answer).toMatchObject({ status: 200, body: text })
    const id = expectIds(answer)
    expect(ownHeaders(answer)).toEqual({
      "content-type": "application/json",
      "x-request-id": id,
      "request-id": id,
    })
  })

  test("D25 the provider is asked once, with headers built from nothing", async () => {
    const before = harness.provider.requests.length
    const answer = await count(PATH, [VERSION, `x-canary: ${CANARY}`, "user-agent: theirs", "accept: */*"])
    const asked = harness.provider.requests.slice(before)
    expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual([`POST ${PATH}`])
    const { host, connection, "content-length": length, ...headers } = asked[0]?.headers ?? {}
    expect(headers).toEqual({
      accept: "application/json",
      "accept-encoding": "identity",
      "anthropic-version": "2023-06-01",
      "content-type": "application/json",
      "user-agent": "tollgate",
      "x-api-key": PROVIDER_KEY,
      "x-request-id": expectIds(answer),
    })
  })

  test("spec 4.3 rule 3: the six fields of generation are removed at the top, and nothing else is", async () => {
    const kept = {
      system: "s",
      tools: [{ name: "t", input_schema: { stop: 1, top_k: { stream: true } } }],
      thinking: { type: "enabled", budget_tokens: 1024 },
      max_tokens: 5,
      "": null,
    }
    const removed = { stream: "no", temperature: 9, top_p: null, top_k: [], stop: {}, stop_sequences: 1 }
    expect((await harness.count(account.key, { ...removed, ...kept })).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.body).toBe(
      JSON.stringify(countBody({ model: `upstream-${MESSAGES}`, ...kept })),
    )
  })

  test.each(["?beta=true", "?beta=true&x=%zz&x", "?"])("D22 the query %s is ignored", async (query) => {
    expect((await count(`${PATH}${query}`, [VERSION])).status).toBe(200)
    expect(harness.provider.requests.at(-1)?.path).toBe(PATH)
  })
})

describe("D21 whose version, on which path", () => {
  const other = "acme-ai-version: 2024-02-29"
  const accepted: readonly [target: string, headers: string[], sent: Record<string, string>][] = [
    [PATH, [VERSION], { "anthropic-version": "2023-06-01" }],
    [`/acme-ai${PATH}`, [VERSION, other], { "acme-ai-version": "2024-02-29" }],
    [
      PATH,
      [VERSION, "anthropic-beta: a-1", "anthropic-beta: b-2, c"],
      { "anthropic-version": "2023-06-01", "anthropic-beta": "a-1, b-2, c" },
    ],
  ]
  test.each(accepted)("%s with %j sends %j", async (target, headers, sent) => {
    expect((await count(target, headers)).status).toBe(200)
    const { requests } = harness.provider
    const vendors = Object.entries(requests.at(-1)?.headers ?? {}).filter(([name]) =>
      /-(version|beta)$/.test(name),
    )
    expect(Object.fromEntries(vendors)).toEqual(sent)
  })

  const refused: readonly [target: string, headers: string[], param: string][] = [
    [PATH, [VERSION, other], "acme-ai-version"],
    [PATH, ["anthropic-version: 2023-02-29"], "anthropic-version"],
    [PATH, [VERSION, "anthropic-beta: caf\xe9"], "anthropic-beta"],
  ]
  test.each(refused)("%s with %j is a 400", async (target, headers, param) => {
    await harness.untouched(account.id, async () => {
      expectError(await count(target, headers), "invalid_request", { param })
    })
  })
})

test("D15, D21 another method is a 405 on the path of a vendor, and a 404 on that of none, as last configured", async () => {
  const ask = (vendor: string) => harness.ask({ method: "PUT", target: `/${vendor}${PATH}` })
  expectError(await ask("acme-ai"), "method_not_allowed", { headers: { allow: "POST" } })
  expectError(await ask("openai"), "not_found")
  const configured = configuration(harness.provider.url)
  await harness.gateway.reload({ ...configured, vendors: ["anthropic"] })
  expectError(await ask("acme-ai"), "not_found")
  await harness.gateway.reload(configured)
  expectError(await ask("acme-ai"), "method_not_allowed", { headers: { allow: "POST" } })
})

describe("spec 4.3 rule 1: counting is no call", () => {
  test("D22 the balance is as it was, no call is recorded, and the metrics count it", async () => {
    const counted = async () => {
      const body = await harness.gateway.metrics()
      return Number(/^tollgate_token_counts_total\{model="messages-model"\} (\d+)$/m.exec(body)?.[1] ?? 0)
    }
    const before = await counted()
    const balance = await harness.gateway.balance(account.id)
    expect((await harness.count(account.key)).status).toBe(200)
    expect((await count(`/anthropic${PATH}`, [VERSION])).status).toBe(200)
    expect(await harness.gateway.balance(account.id)).toEqual(balance)
    expect(await harness.gateway.calls()).toEqual([])
    expect(await counted()).toBe(before + 2)
  })
})

describe("spec 4.3 rule 2: the key, the balance, the model and the upstream are checked", () => {
  test("D22 a balance of nothing is a 402, and of the least is enough", async () => {
    const { id, key } = await harness.account("0")
    await harness.untouched(
      id,
      async () => void expectError(await harness.count(key), "insufficient_balance"),
    )
    await harness.gateway.admin("POST", `/accounts/${id}/credits`, { amount: "0.000000001" })
    expect((await harness.count(key)).status).toBe(200)
    await harness.gateway.admin("POST", `/accounts/${id}/credits`, { amount: "-1" })
    await harness.untouched(
      id,
      async () => void expectError(await harness.count(key), "insufficient_balance"),
    )
  })

  test("D22 what is held is not available", async () => {
    const { id, key } = await harness.account(HELD)
    const arrived = harness.provider.requests.length + 1
    harness.provider.replyOnce(silent())
    const running = harness.dial()
    running.send(requestBytes(chatDraft(key, { stream: true })))
    await harness.provider.exchange(arrived)
    expect(await harness.gateway.balance(id)).toMatchObject({ available: "0" })
    expectError(await harness.count(key), "insufficient_balance")
    running.leave()
    await untilIs(() => harness.gateway.balance(id), { held: "0" })
    expect((await harness.count(key)).status).toBe(200)
  })

  const rows: readonly [what: string, model: string, code: Code, said: Said][] = [
    [
      "D15 a model of the other family exists, but is not open here",
      CHAT,
      "model_not_allowed",
      { param: "model", message: /does not support messages.*POST \/v1\/chat\/completions/ },
    ],
    ["D15 a model that there is not", "nothing", "model_not_found", { param: "model" }],
    ["D19 a model in capitals", MESSAGES.toUpperCase(), "model_not_found", { param: "model" }],
    ["D19 the provider's own name of it", `upstream-${MESSAGES}`, "model_not_found", { param: "model" }],
    ["D17 no upstream that can be reached", "down", "upstream_unavailable", {}],
  ]
  test.each(rows)("%s", async (_, model, code, said) => {
    await harness.untouched(account.id, async () => {
      expectError(await harness.count(account.key, { model }), code, said)
    })
  })
})

describe("D22 what is no count is a 502", () => {
  const answers: readonly [what: string, script: Script][] = [
    ["an object without it", json(200, {})],
    ["a string", json(200, { input_tokens: "7" })],
    ["negative", json(200, { input_tokens: -1 })],
    ["a fraction", json(200, { input_tokens: 7.5 })],
    ["beyond what a number can say", json(200, '{"input_tokens":9007199254740992}')],
    ["in a list", json(200, [{ input_tokens: 7 }])],
    ["null", json(200, { input_tokens: null })],
    ["infinite", json(200, '{"input_tokens":1e400}')],
    ["an error in a 200", json(200, { type: "error", error: { type: "api_error", message: CANARY } })],
    ["blank", json(200, "")],
    ["cut", json(200, '{"input_tokens":7')],
    [
      "bad UTF-8",
      raw(
        Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{"input_tokens":7,"x":"\xff"}', "latin1"),
      ),
    ],
    ["a 204", raw("HTTP/1.1 204 No Content\r\n\r\n")],
    ["compressed all the same (D25)", json(200, { input_tokens: 7 }, { "content-encoding": "gzip" })],
    [
      "shorter than it said",
      async (exchange) => {
        await exchange.head(200, { "content-type": "application/json" }, { length: 100 })
        await exchange.chunk('{"input_tokens":7}')
        exchange.close()
      },
    ],
    ["a redirect (D17)", json(307, "", { location: "/elsewhere" })],
    ["a status that there is not", json(299.5, { input_tokens: 7 })],
  ]
  test.each(answers)("%s", async (_, script) => {
    const requests = harness.provider.requests.length
    harness.provider.replyOnce(script)
    expectError(await harness.count(account.key), "upstream_error")
    expect(harness.provider.requests).toHaveLength(requests + 1)
  })
})

test("D31 a provider that is silent after its headers is a 504", async () => {
  harness.provider.replyOnce(async (exchange) => void (await exchange.head(200, {}, { length: 10 })))
  expectError(await harness.count(account.key, { model: "hurried" }), "upstream_timeout")
})

test("D25 a client that goes takes the provider's connection with it", async () => {
  const number = harness.provider.requests.length + 1
  harness.provider.replyOnce(silent())
  const line = harness.dial()
  line.send(requestBytes(countDraft(account.key)))
  const exchange = await harness.provider.exchange(number)
  line.leave()
  expect(await within(250, exchange.closed)).toBe(true)
  expect(exchange.closed_by).toBe("gateway")
  await untilIs(() => harness.gateway.service.server.pending, 0)
  expect(harness.gateway.lines.filter((line) => line.includes('"level":50'))).toEqual([])
})

/** Sends these bytes and closes. */
function raw(bytes: string | Uint8Array): Script {
  return async (exchange) => {
    await exchange.raw(bytes)
    exchange.close()
  }
}
