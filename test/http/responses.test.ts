import { describe, expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import { CHAT, chatModel, PROVIDER_KEY, untilIs } from "../support/gateway.ts"
import { json, type Script } from "../support/provider.ts"
import { jsonDraft } from "../support/request.ts"
import {
  callItem,
  created,
  last,
  responseEvent,
  responseJson,
  responseObject,
  responseStream,
  responseUsage,
  textEvents,
  textItem,
  textStream,
} from "../support/responses.ts"
import { CANARY, testHarness } from "./harness.ts"

/** The responses operation through a whole gateway: what the client and the provider saw, and what the journal says (D66). */

const harness = await testHarness((url) => ({
  limits: { response: "64KiB" },
  upstreams: { first: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY } },
  models: [
    chatModel(CHAT),
    chatModel("small-context", { context_tokens: 5_000 }),
    chatModel("searching", {
      price: { input: "1.00", output: "4.00", web_search: "0.01" },
      context_tokens: 5_000,
    }),
    chatModel("free", { price: undefined, free: true }),
  ],
}))

/** Asks once, on an account of its own, and what became of it. */
async function ask(fields: object = {}, script?: Script, path = "/v1/responses") {
  const { id, key } = await harness.account("10")
  if (script !== undefined) harness.provider.replyOnce(script)
  const before = harness.provider.requests.length
  const answer = await harness.ask(
    jsonDraft(key, path, { model: CHAT, input: CANARY, ...fields }, ["connection: close"]),
  )
  await untilIs(() => harness.gateway.balance(id), { held: "0" })
  const [call] = await harness.gateway.calls(`?account=${id}`)
  return { answer, call, requests: harness.provider.requests.slice(before) }
}

const USAGE = responseUsage(10, 5, 4)
/** 6 tokens at 1,000 nano-USD, 4 cached ones at 100, 5 of output at 4,000. */
const CHARGE = "0.0000264"

describe("a JSON answer", () => {
  test.each(["/v1/responses", "/responses"])(
    "%s: unchanged, and charged by its usage (rule 1)",
    async (path) => {
      const body = responseObject([textItem("Hello")], { usage: USAGE, more: [1e2] })
      const { answer, call, requests } = await ask({ store: false }, json(200, body), path)
      expect(answer.status).toBe(200)
      expect(answer.body).toBe(JSON.stringify(body))
      expect(requests.map((request) => [request.path, request.json])).toEqual([
        ["/v1/responses", { model: "upstream-model", input: CANARY, store: false }],
      ])
      expect(call).toMatchObject({
        operation: "responses",
        state: "settled",
        basis: "usage",
        charge: CHARGE,
        failure: null,
        notes: [],
      })
    },
  )

  const rows: [name: string, body: unknown, status: number, call: object][] = [
    [
      "failed, with usage",
      responseObject([], { status: "failed", error: { code: "server_error", message: "x" }, usage: USAGE }),
      200,
      { charge: CHARGE },
    ],
    [
      "failed, without usage (D10)",
      responseObject([], { status: "failed", error: { code: "server_error", message: "x" }, usage: null }),
      502,
      { state: "released", charge: "0", failure: "upstream_error" },
    ],
  ]
  test.each(rows)("%s", async (_name, body, status, expected) => {
    const { answer, call } = await ask({}, json(200, body))
    expect(answer.status).toBe(status)
    expect(call).toMatchObject(expected)
  })

  test("D5 over the limit: charged by its usage, and not delivered", async () => {
    const body = JSON.stringify(responseObject([textItem("x".repeat(1 << 17))], { usage: USAGE }))
    const { answer, call } = await ask({}, json(200, body))
    expect(answer.status).toBe(502)
    expect(answer.body).toContain("response_too_large")
    expect(call).toMatchObject({ basis: "usage", charge: CHARGE, notes: ["response_too_large"] })
  })
})

const NO_OUTPUT = { state: "released", charge: "0", failure: "no_output" }

describe("a stream", () => {
  test("passes unchanged, and its last event waits for the charge (D32)", async () => {
    const events = textStream(["Hel", "lo"], USAGE)
    const { answer, call } = await ask({ stream: true }, responseStream(events))
    expect(answer.headers["content-type"]).toBe("text/event-stream; charset=utf-8")
    expect(answer.body).toBe(events.join(""))
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      ending: "completed",
      charge: CHARGE,
      failure: null,
    })
  })

  test("asks the provider for nothing that the client did not ask for", async () => {
    const { requests } = await ask({ stream: true, include: ["x"] }, responseStream(textStream(["a"])))
    expect(requests[0]?.json).toEqual({
      model: "upstream-model",
      input: CANARY,
      stream: true,
      include: ["x"],
    })
  })

  const told = /event: error\ndata: \{"type":"error","code":"upstream_error","message":"[^"]+","param":null/
  const rows: [name: string, script: Script, shown: RegExp | string, call: object][] = [
    [
      "failed before output, without usage: the client is told, and pays nothing",
      responseStream([
        created,
        last([], { usage: null, error: { code: "context_length_exceeded" } }, "response.failed"),
      ]),
      /^event: response\.created.*response\.failed.*context_length_exceeded/s,
      { state: "released", charge: "0", failure: "upstream_error" },
    ],
    [
      "an error before output: the client is told, and pays nothing",
      responseStream([created, responseEvent("error", { code: "overloaded", message: "Too much." })]),
      /event: error\n.*Too much\./s,
      { state: "released", charge: "0", failure: "upstream_error" },
    ],
    [
      "a clean end without its last event (rule 5)",
      responseStream([created, ...textEvents(["x".repeat(40)])]),
      told,
      { ending: "upstream_lost", basis: "estimate", charge: "0.00004", failure: "upstream_lost" },
    ],
    [
      "a reset (rule 5)",
      responseStream([created, ...textEvents(["x".repeat(40)])], { ending: "reset" }),
      told,
      { ending: "upstream_lost", basis: "estimate", charge: "0.00004" },
    ],
    [
      "completed without output or usage",
      responseStream([created, last([], { usage: null })]),
      /response\.created.*response\.completed/s,
      NO_OUTPUT,
    ],
    ["nothing but its beginning (rule 6)", responseStream([created]), "", NO_OUTPUT],
  ]
  test.each(rows)("%s", async (_name, script, shown, expected) => {
    const { answer, call } = await ask({ stream: true }, script)
    expect(answer.status).toBe(200)
    expect(call).toMatchObject(expected)
    if (typeof shown === "string") expect(answer.body.replaceAll(": ok\n\n", "")).toBe(shown)
    else expect(answer.body).toMatch(shown)
  })

  test("D29 a JSON object becomes the events that say the same", async () => {
    const response = responseObject([textItem("Hello"), callItem("open", '{"a":1}')], { usage: USAGE })
    const { answer, call } = await ask({ stream: true }, json(200, response))
    const events = answer.body
      .trimEnd()
      .split("\n\n")
      .map((event) => event.split("\n"))
    expect(events.map(([name]) => name)).toEqual([
      "event: response.created",
      "event: response.output_item.added",
      "event: response.content_part.added",
      "event: response.output_text.delta",
      "event: response.output_text.done",
      "event: response.content_part.done",
      "event: response.output_item.done",
      "event: response.output_item.added",
      "event: response.function_call_arguments.delta",
      "event: response.function_call_arguments.done",
      "event: response.output_item.done",
      "event: response.completed",
    ])
    expect(JSON.parse(events.at(-1)?.[1]?.slice("data: ".length) ?? "")).toEqual({
      type: "response.completed",
      response,
      sequence_number: 11,
    })
    expect(call).toMatchObject({ basis: "usage", charge: CHARGE, ending: "completed" })
  })
  test.each([
    ["incomplete", { status: "incomplete", usage: USAGE }, "response.incomplete", { charge: CHARGE }],
    [
      "failed",
      { status: "failed", usage: USAGE },
      "response.failed",
      { charge: CHARGE, ending: "upstream_lost" },
    ],
    ["without usage", { usage: null }, "response.completed", { basis: "estimate", charge: "0.000004" }],
  ])("D29 %s", async (_name, changes, name, expected) => {
    const { answer, call } = await ask({ stream: true }, responseJson([textItem("Hello")], changes))
    expect(answer.body).toContain(`event: ${name}\n`)
    expect(call).toMatchObject(expected)
  })
  test("D29 an error object is an error event, and free", async () => {
    const { answer, call } = await ask(
      { stream: true },
      json(200, { error: { message: "No.", code: "nope" } }),
    )
    expect(answer.body).toMatch(/^event: error\ndata: \{"type":"error","code":"nope","message":"No\."/)
    expect(call).toMatchObject({ state: "released", charge: "0", failure: "upstream_error" })
  })

  test("D17 a failure does not show the provider's credential", async () => {
    const message = `The key ${PROVIDER_KEY} is over its quota.`
    const failed = last(
      [],
      { usage: null, error: { code: "insufficient_quota", message } },
      "response.failed",
    )
    const { answer } = await ask({ stream: true }, responseStream([failed]))
    expect(answer.body).toContain("The key [redacted] is over its quota.")
    expect(answer.body).toContain("insufficient_quota")
    const charged = { usage: USAGE, status: "failed", error: { code: "insufficient_quota", message } }
    const json_call = await ask({}, responseJson([textItem("Hello")], charged))
    expect(json_call.answer.body).toContain("The key [redacted] is over its quota.")
    expect(json_call.call).toMatchObject({ basis: "usage", charge: CHARGE })
  })
})

describe("what is held and what is refused (D12, D61)", () => {
  const rows: [name: string, fields: object, param: string, fields_of_error: object][] = [
    ["background", { background: true }, "background", {}],
    ["a provider to be taken", { provider: { order: ["dear"] } }, "provider", {}],
    ["a service tier", { service_tier: "priority" }, "service_tier", { missing: "service_tier" }],
    ["pictures", { tools: [{ type: "image_generation" }] }, "tools[0]", { missing: "hosted_tool" }],
  ]
  test.each(rows)("%s is a 400, and nothing is sent", async (_name, fields, param, more) => {
    const { answer, call, requests } = await ask(fields)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.body).error).toMatchObject({ code: "invalid_request", param, ...more })
    expect({ call, requests }).toEqual({ call: undefined, requests: [] })
  })

  const CONTEXT = 5_000
  const input = Buffer.byteLength(JSON.stringify(CANARY))
  const held: [name: string, fields: object, nano: number][] = [
    ["a text", {}, input * 1_000 + 4_000_000],
    ["with instructions", { max_output_tokens: 10, instructions: "abc" }, (input + 5) * 1_000 + 40_000],
    [
      "a search: ten of them",
      { model: "searching", max_output_tokens: 10, tools: [{ type: "web_search" }] },
      CONTEXT * 1_000 + 40_000 + 100_000_000,
    ],
  ]
  test.each(held)("%s", async (_name, fields, nano) => {
    const { answer, call } = await ask(fields, responseJson([textItem("Hello")]))
    expect(answer.status).toBe(200)
    expect(call?.held).toBe(printUsd(BigInt(nano)))
    const { key } = await harness.account("10")
    const quote = await harness.ask(
      jsonDraft(key, "/v1/quote", { operation: "responses", model: CHAT, input: CANARY, ...fields }),
    )
    expect(JSON.parse(quote.body)).toMatchObject({ operation: "responses", amount: printUsd(BigInt(nano)) })
  })

  test("a 402 names the field that makes the hold smaller", async () => {
    const { key } = await harness.account("0.001")
    const answer = await harness.ask(jsonDraft(key, "/v1/responses", { model: CHAT, input: CANARY }))
    expect(answer.status).toBe(402)
    expect(JSON.parse(answer.body).error).toMatchObject({
      code: "insufficient_balance",
      message: expect.stringMatching(/set max_output_tokens to at most \d+\.$/),
    })
  })
})
