import { describe, expect, test } from "bun:test"
import { connect } from "../../src/ledger/database/address.ts"
import { ADMIN_TOKEN, CHAT, chatModel, MESSAGES, until, untilIs } from "../support/gateway.ts"
import { chatCompletion, HELLO, json, READ_MS, type Script, usage } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest, jsonDraft } from "../support/request.ts"
import { expectError, expectIds, ownHeaders } from "./errors.ts"
import { CANARY, type Harness, testHarness } from "./harness.ts"

const harness = await testHarness({ lease: { renew: "200ms", expire: "20s" } })
const account = await harness.account()

describe("D33 what anybody may ask", () => {
  const rows: readonly [target: string, body: object][] = [
    ["/", { name: "tollgate", docs: "/docs", openapi: "/docs/json" }],
    ["/livez", { status: "alive" }],
    ["/health", { status: "alive" }],
    ["/readyz", { status: "ready" }],
  ]
  test.each(rows)("%s", async (target, body) => {
    const answer = await harness.ask({ target, headers: ["authorization: Bearer nonsense"] })
    expect(answer).toMatchObject({ status: 200, json: body })
    const id = expectIds(answer)
    expect(ownHeaders(answer)).toEqual({
      "content-type": "application/json;charset=utf-8",
      "x-request-id": id,
      "request-id": id,
    })
  })

  test("/docs is a page, /docs/json an OpenAPI document", async () => {
    expect(await harness.ask({ target: "/docs" })).toMatchObject({
      status: 200,
      headers: { "content-type": "text/html; charset=utf-8" },
    })
    const answer = await harness.ask({ target: "/docs/json" })
    expect(answer).toMatchObject({ status: 200, headers: { "content-type": "application/json" } })
    const { openapi, paths }: { openapi: string; paths: Record<string, object> } = JSON.parse(answer.body)
    expect(openapi).toStartWith("3.0.")
    expect(Object.keys(paths)).toContain("/v1/chat/completions")
  })
})

test("the examples of /docs can be tried out: they name models of the configuration as last loaded", async () => {
  const models = [chatModel("another", { upstreams: [{ use: "first" }] })]
  const document = async () => (await harness.ask({ target: "/docs/json" })).body
  expect(await document()).toContain(`"model":"${CHAT}"`)
  expect(await document()).toContain(`"model":"${MESSAGES}"`)
  await harness.gateway.reload({ models })
  expect(await document()).toContain('"model":"another"')
  expect(await document()).not.toContain(`"model":"${CHAT}"`)
  await harness.gateway.reload({})
  expect(await document()).toContain(`"model":"${CHAT}"`)
})

test("D44 the price is that of the configuration when the body is there", async () => {
  const { provider, gateway } = harness
  const { key } = await gateway.account()
  const reported = chatCompletion("hi", { usage: usage(10, 5) })
  const dearer = chatModel(CHAT, { upstreams: [{ use: "first" }], price: { input: "100", output: "400" } })
  const request = chatRequest(key)
  const asked = await rawClient(gateway)
  asked.send(request.slice(0, -10))
  await Bun.sleep(READ_MS)
  await gateway.reload({ models: [dearer] })
  provider.replyOnce(async (exchange) => {
    await gateway.reload({})
    await json(200, reported)(exchange)
  })
  asked.send(request.slice(-10))
  const id = (await asked.answer()).headers["x-request-id"] ?? ""
  expect(await gateway.call(id)).toMatchObject({ charge: "0.003", prices: { input: "100" } })
  asked.leave()
})

test("a reload changes the limits of operators' bodies too", async () => {
  const open = (name: string) => harness.ask(jsonDraft(ADMIN_TOKEN, "/admin/accounts", { name }))
  const name = "a".repeat(200)
  expect((await open(name)).status).toBe(201)
  await harness.gateway.reload({ limits: { body: "100B" } })
  expectError(await open(name), "request_too_large")
  await harness.gateway.reload({})
})

describe("/metrics", () => {
  /** The samples of the gateway's own metrics: by name and labels, their value. */
  async function samples(): Promise<Map<string, number>> {
    const answer = await harness.ask({
      target: "/metrics",
      headers: [`authorization: Bearer ${ADMIN_TOKEN}`],
    })
    expect(answer).toMatchObject({
      status: 200,
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    })
    const lines = answer.body.split("\n").filter((line) => /^(tollgate|gen_ai)_/.test(line))
    return new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
    )
  }

  /** Requests of every kind, with whatever a client can make up in each. */
  async function traffic(word: string): Promise<void> {
    const headers = [`authorization: Bearer ${account.key}`]
    await harness.chat(account.key, { user: word, [word]: word })
    await harness.chat(account.key, { stream: true }, [`x-${word}: ${word}`])
    await harness.chat(account.key, { model: word })
    await harness.chat(account.key, { model: MESSAGES })
    await harness.chat(word)
    await harness.chat((await harness.account("0")).key)
    await harness.count(account.key)
    await harness.ask({ target: `/${word}` })
    await harness.ask({ method: "DELETE", target: `/v1/models?${word}` })
    await harness.ask({ method: "PUT", target: `/${word}/v1/messages/count_tokens` })
    await harness.ask({ method: "POST", target: `/${word}/v1/messages/count_tokens` })
    await harness.ask({ target: `/docs/assets/${word}` })
    await harness.ask({
      target: `/admin/accounts/${word}`,
      headers: [`authorization: Bearer ${ADMIN_TOKEN}`],
    })
    await harness.ask({ target: "/models", headers })
    const theirs = word.replace("canary", "theirs")
    harness.provider.replyOnce(json(400, { error: { message: theirs, code: theirs, type: theirs } }))
    await harness.chat(account.key)
    harness.provider.replyOnce(json(200, ""))
    await harness.chat(account.key)
  }

  test("labels are bounded: nothing that a client makes up adds a series", async () => {
    // The ledger's background tasks run when they are due.
    const series = async () =>
      [...(await samples()).keys()].filter((name) => !name.startsWith("tollgate_ledger_"))
    await traffic(CANARY)
    await samples()
    const before = await series()
    for (const word of ["a", "b", "c"]) await traffic(`${CANARY}-${word}`)
    expect(await series()).toEqual(before)
  })

  test("every label has a value of the configuration or of the code", async () => {
    const values = new Map<string, Set<string>>()
    for (const sample of (await samples()).keys()) {
      for (const [, label = "", value = ""] of sample.matchAll(/(\w+)="([^"]*)"/g)) {
        values.set(label, (values.get(label) ?? new Set()).add(value))
      }
    }
    const seen = (label: string) => [...(values.get(label) ?? [])].sort()
    expect(seen("model")).toEqual([CHAT, MESSAGES])
    expect(seen("upstream")).toEqual(["counter", "first"])
    expect(seen("gen_ai_request_model")).toEqual([CHAT])
    expect(seen("gen_ai_provider_name")).toEqual(["first"])
    expect(seen("outcome")).toEqual(["200", "400", "done"])
    expect(seen("failure")).toEqual(["upstream_error", "usage_missing"])
    expect(seen("route")).toEqual(
      [
        "/",
        "/:vendor/v1/messages/count_tokens",
        "/admin/accounts",
        "/admin/accounts/:id",
        "/admin/accounts/:id/credits",
        "/admin/accounts/:id/keys",
        "/admin/calls/:id",
        "/docs",
        "/docs/assets/:file",
        "/docs/json",
        "/health",
        "/livez",
        "/metrics",
        "/models",
        "/readyz",
        "/v1/chat/completions",
        "/v1/messages/count_tokens",
        "unknown",
      ].sort(),
    )
  })

  test("they say what the ledger says", async () => {
    const before = await samples()
    const { id, key } = await harness.account("1")
    for (let call = 0; call < 3; call++) await harness.chat(key)
    harness.provider.replyOnce(json(200, "{"))
    await harness.chat(key)
    const { balance } = await untilIs(() => harness.gateway.balance(id), { held: "0" })
    const after = await samples()
    const grown = (sample: string) => (after.get(sample) ?? 0) - (before.get(sample) ?? 0)
    expect(balance).toBe("0.99991")
    expect(grown(`tollgate_charged_nano_usd_total{model="${CHAT}"}`)).toBe(90_000)
    expect(grown(`tollgate_calls_settled_total{model="${CHAT}",operation="chat",basis="usage"}`)).toBe(3)
    expect(
      grown(`tollgate_calls_released_total{model="${CHAT}",operation="chat",failure="usage_invalid"}`),
    ).toBe(1)
    expect(grown('tollgate_requests_total{route="/v1/chat/completions",status="200"}')).toBe(3)
    expect(grown('tollgate_requests_total{route="/v1/chat/completions",status="502"}')).toBe(1)
    expect(grown(`tollgate_tokens_total{model="${CHAT}",kind="prompt"}`)).toBe(30)
    expect(grown(`tollgate_tokens_total{model="${CHAT}",kind="completion"}`)).toBe(15)
    expect(grown('tollgate_upstream_attempt_seconds_count{upstream="first",outcome="200"}')).toBe(4)
  })

  test("the open calls and what they hold", async () => {
    const { held, release } = gate()
    harness.provider.replyOnce(held, held)
    const arrived = harness.provider.requests.length + 2
    const running = [harness.chat(account.key), harness.chat(account.key)]
    await harness.provider.exchange(arrived)
    const during = await samples()
    expect(during.get("tollgate_open_holds")).toBe(2)
    expect(during.get("tollgate_held_nano_usd")).toBe(2 * 4_043_000)
    release()
    await Promise.all(running)
    const after = await samples()
    expect(after.get("tollgate_open_holds")).toBe(0)
    expect(after.get("tollgate_held_nano_usd")).toBe(0)
  })
})

describe("D27 the database is gone", () => {
  test("/livez stays, /readyz and everything that needs them is a 503 within 2 s; all is well when they are back", async () => {
    const database = await doorOf(harness)
    const { held, release } = gate()
    harness.provider.replyOnce(held)
    const arrived = harness.provider.requests.length + 1
    const running = harness.chat(account.key)
    await harness.provider.exchange(arrived)

    await database.shut()
    const unready = await until(
      () => harness.ask({ target: "/readyz" }),
      ({ status }) => status !== 200,
    )
    expect(unready).toMatchObject({
      status: 503,
      json: { status: "not ready", reason: expect.stringContaining("ledger") },
      headers: { "retry-after": "1" },
    })
    expectIds(unready)
    expect((await harness.ask({ target: "/livez" })).status).toBe(200)
    const asked_ms = performance.now()
    const needy = [
      harness.chat(account.key),
      harness.chat(account.key, { stream: true }),
      harness.chat(account.key, { model: "nothing" }),
      harness.count(account.key),
      harness.ask({ target: "/models", headers: [`authorization: Bearer ${account.key}`] }),
    ]
    for (const answer of await Promise.all(needy)) expectError(answer, "ledger_unavailable")
    expect(performance.now() - asked_ms).toBeLessThan(2_500)
    expectError(await harness.chat("nonsense"), "invalid_api_key")
    release()
    expect((await running).status).toBe(200)

    await database.open()
    await untilIs(() => harness.ask({ target: "/readyz" }), { status: 200 })
    const call = expectIds(await running)
    await untilIs(() => harness.gateway.call(call), { state: "settled" })
    expect((await harness.chat(account.key)).status).toBe(200)
    expect(await harness.gateway.balance(account.id)).toMatchObject({ held: "0" })
  })
})

/** Answers when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const held: Script = async (exchange) => {
    await promise
    await HELLO(exchange)
  }
  return { held, release: resolve }
}

/** A proxy between a gateway and its database. When it is shut, open connections end and new ones are refused. */
async function doorOf({ gateway: { address } }: Harness) {
  if (!("database" in address)) throw new Error("the cluster of the tests is reached by its socket")
  const { database } = address
  const operator = connect({ ...address, database: "tollgate" }, { max: 1 })
  return {
    async shut() {
      await operator.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`)
      await operator`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database}`
    },
    async open() {
      await operator.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`)
      await operator.end()
    },
  }
}
