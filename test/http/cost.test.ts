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

/** One call that the provider answers with this usage; its record for operators, and the receipt for the customer. */
async function call(reported: object | undefined) {
  const { key, id: account_id } = await gateway.account("1")
  provider.replyOnce(json(200, chatCompletion("hello there", { usage: reported })))
  const answer = await chat(gateway, key)
  const id = answer.headers.get("x-request-id") ?? ""
  await answer.text()
  const receipt = await gateway.receipt(answer, key)
  return { id, account_id, record: await gateway.call(id), receipt }
}

const linesOf = (id: string) =>
  gateway.lines
    .map((line): { msg: string; request_id?: string } => JSON.parse(line))
    .filter(({ request_id }) => request_id === id)

describe("D90 what the provider says that a call costs", () => {
  test("is kept beside the charge, for operators only, and summed", async () => {
    const { record, receipt, account_id } = await call({ ...usage(10, 5), cost: 0.00000123 })
    expect(record).toMatchObject({ charge: "0.00003", provider_cost: "0.00000123" })
    expect(receipt).toMatchObject({ charge: "0.00003", unread: [], unexplained_tokens: 0, estimate: null })
    expect(JSON.stringify(receipt)).not.toContain("provider_cost")
    const report = await gateway.admin("GET", `/usage?account=${account_id}`)
    expect(report).toMatchObject({ total: { charge: "0.00003", provider_cost: "0.00000123" } })
  })

  test("above the charge it warns, once an hour for each model", async () => {
    const first = await call({ ...usage(10, 5), cost_in_usd_ticks: 10_000_000 })
    expect(first.record.provider_cost).toBe("0.001")
    const second = await call({ ...usage(10, 5), cost_in_usd_ticks: 10_000_000 })
    const warned = [...linesOf(first.id), ...linesOf(second.id)].filter(({ msg }) =>
      msg.includes("charged less"),
    )
    expect(warned).toHaveLength(1)
    const metrics = await gateway.metrics()
    expect(metrics).toMatch(/tollgate_charges_below_cost_total\{[^}]*\} 2\n/)
  })
})

describe("D87 what nobody reads, and a total that does not add up", () => {
  test("are named on the receipt, counted, and logged once an hour", async () => {
    const odd = { ...usage(10, 5), total_tokens: 20, odd: { gpu_seconds: 7, "é\u0000\ud800": 1 } }
    const first = await call(odd)
    const said = { unread: ["odd.gpu_seconds", "odd.???"], unexplained_tokens: 5 }
    expect(first.receipt).toMatchObject({ ...said, notes: ["total_unexplained", "usage_unread"] })
    expect(first.record).toMatchObject(said)
    const second = await call(odd)
    const warned = [...linesOf(first.id), ...linesOf(second.id)].filter(({ msg }) =>
      msg.includes("numbers that Tollgate does not know"),
    )
    expect(warned).toHaveLength(1)
    const metrics = await gateway.metrics()
    expect(metrics).toMatch(/tollgate_usage_notes_total\{[^}]*note="usage_unread"[^}]*\} 2\n/)
    expect(metrics).toMatch(/tollgate_usage_notes_total\{[^}]*note="total_unexplained"[^}]*\} 2\n/)
  })

  test("operators list the models with such calls", async () => {
    const report = await gateway.admin("GET", "/usage-notes?days=7")
    expect(report).toMatchObject({
      data: [
        {
          model: expect.any(String),
          upstream: "first",
          calls: 4,
          unread: ["odd.???", "odd.gpu_seconds"],
          notes: { usage_unread: 2, total_unexplained: 2, usage_implausible: 0, unpriced: 0 },
          below_cost_calls: 2,
        },
      ],
    })
  })
})

test("D6 an estimate can be computed again from its receipt", async () => {
  const { receipt } = await call(undefined)
  const { estimate, usage: counts } = receipt
  expect(estimate).toEqual({ output_bytes: 11, prompt_bytes: 35, bytes_per_token: 4 })
  expect(counts).toMatchObject({ completion_tokens: Math.max(1, Math.floor(11 / 4)) })
})
