import { describe, expect, test } from "bun:test"
import { shutOut } from "../support/database.ts"
import { takes } from "../support/fair-clock.ts"
import { ADMIN_TOKEN, CHAT, chatModel, MESSAGES, until, untilIs } from "../support/gateway.ts"
import { chatCompletion, HELLO, heldBack, json, READ_MS, usage } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { chatRequest, jsonDraft } from "../support/request.ts"
import { expectError, expectIds, ownHeaders } from "./errors.ts"
import { CANARY, testHarness } from "./harness.ts"

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
  const call = await untilIs(() => gateway.call(id), { state: "settled" })
  expect(call).toMatchObject({ charge: "0.003", prices: { input: "100" } })
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

test("/metrics has the open calls and what they hold", async () => {
  const { held, release } = heldBack(HELLO)
  harness.provider.replyOnce(held, held)
  const arrived = harness.provider.requests.length + 2
  const running = [harness.chat(account.key), harness.chat(account.key)]
  await harness.provider.exchange(arrived)
  expect(await harness.gateway.metrics()).toMatch(
    /^tollgate_open_holds 2$.*^tollgate_held_nano_usd 8086000$/ms,
  )
  release()
  await Promise.all(running)
  const none = /^tollgate_open_holds 0$.*^tollgate_held_nano_usd 0$/ms
  await until(harness.gateway.metrics, (text) => none.test(text))
})

test("no label of /metrics has a word that a client or a provider makes up", async () => {
  const { key } = account
  await harness.chat(key, { user: CANARY, [CANARY]: CANARY }, [`x-claude-code-session-id: ${CANARY}`])
  for (const model of [CANARY, MESSAGES]) await harness.chat(key, { model })
  await harness.chat(CANARY)
  const asked = [
    ["GET", `/${CANARY}`],
    ["DELETE", `/v1/models?${CANARY}`],
    ["PUT", `/${CANARY}/v1/messages/count_tokens`],
    ["POST", `/${CANARY}/v1/messages/count_tokens`],
    ["GET", `/docs/assets/${CANARY}`],
    ["GET", `/admin/accounts/${CANARY}`],
  ] as const
  for (const [method, target] of asked)
    await harness.ask({ method, target, headers: [`authorization: Bearer ${ADMIN_TOKEN}`] })
  const theirs = "made-up-by-the-provider"
  harness.provider.replyOnce(json(400, { error: { message: theirs, code: theirs, type: theirs } }))
  await harness.chat(key)
  const metrics = await harness.gateway.metrics()
  for (const code of ["not_found", "method_not_allowed"])
    expect(metrics).toContain(`tollgate_errors_total{route="unknown",code="${code}"}`)
  for (const word of [CANARY, theirs]) expect(metrics).not.toContain(word)
})

describe("D27 the database is gone", () => {
  test("/livez stays, /readyz and everything that needs them is a 503 within 2 s; all is well when they are back", async () => {
    const { held, release } = heldBack(HELLO)
    harness.provider.replyOnce(held)
    const arrived = harness.provider.requests.length + 1
    const running = harness.chat(account.key)
    await harness.provider.exchange(arrived)

    const { admit } = await shutOut(harness.gateway.address)
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
    const needy = [
      harness.chat(account.key),
      harness.chat(account.key, { stream: true }),
      harness.chat(account.key, { model: "nothing" }),
      harness.count(account.key),
      harness.ask({ target: "/models", headers: [`authorization: Bearer ${account.key}`] }),
    ]
    const answers = await takes(0, 2_500, Promise.all(needy))
    for (const answer of answers) expectError(answer, "ledger_unavailable")
    expectError(await harness.chat("nonsense"), "invalid_api_key")
    release()
    expect((await running).status).toBe(200)

    await admit()
    await untilIs(() => harness.ask({ target: "/readyz" }), { status: 200 })
    const call = expectIds(await running)
    await untilIs(() => harness.gateway.call(call), { state: "settled" })
    expect((await harness.chat(account.key)).status).toBe(200)
    expect(await harness.gateway.balance(account.id)).toMatchObject({ held: "0" })
  })
})
