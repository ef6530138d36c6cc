import { afterAll, expect, test } from "bun:test"
import fixture from "../fixtures/request-cases.json"
import type { Sides } from "../http/sides.ts"
import { json, type Script, sseEvent } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { dataUrl, pdf, png } from "./files.ts"
import { type CaseCall, CONTEXT_TOKENS, callOf, cost, openCases } from "./stage.ts"

/** D12, D18, D61, D88, D89: requests that once cost more than was held for them, through a real gateway. */

const stage = await openCases()
afterAll(() => stage.close())

type Fields = Readonly<Record<string, unknown>>

const LARGE_PNG = Buffer.concat([png(1_024, 1_024), Buffer.alloc(999_963)])
const LARGE_PDF = Buffer.concat([pdf(600, "A page. ", true), Buffer.alloc(990_000, 0x20)])
const MADE: Readonly<Record<string, string>> = {
  "data:application/pdf;base64,<1,000,000 bytes>": dataUrl("application/pdf", LARGE_PDF),
  "data:image/png;base64,<1,000,000 bytes of a PNG>": dataUrl("image/png", LARGE_PNG),
  "<40,000 bytes of Base64>": Buffer.alloc(30_000, "any bytes at all").toString("base64"),
}

/** A value of a case, with the bytes that stand for themselves. */
function made(value: unknown): unknown {
  if (typeof value === "string") return MADE[value] ?? value
  if (Array.isArray(value)) return value.map(made)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, made(item)]))
}

/** A case by its name, as the call that it makes. */
function caseOf(name: string): { readonly call: CaseCall; readonly body: Fields; readonly usage: Fields } {
  const at = fixture.cases.findIndex((one) => one.name === name)
  const found = fixture.cases[at]
  if (found === undefined) throw new Error(`there is no case "${name}"`)
  const { body, provider_usage } = typeof found.body === "string" ? (fixture.cases[at - 1] ?? found) : found
  const filled = made(body) as Fields
  const usage = (provider_usage ?? {}) as Fields
  const operation = found.operation === "responses" ? "responses" : "chat"
  return { call: { operation, body: filled, script: answerOf(operation, usage) }, body: filled, usage }
}

function answerOf(operation: "chat" | "responses", usage: Fields): Script {
  if (operation === "responses")
    return json(200, { object: "response", status: "completed", output: [], usage })
  return json(200, { choices: [{ index: 0, message: { role: "assistant", content: "hi" } }], usage })
}

const run = (call: CaseCall): Promise<Sides> => stage.run(callOf(call))
const seen = ({ call }: Sides) => ({ held: call.held, charge: call.charge, notes: call.notes })

test("R1: a PDF in an image_url", async () => {
  const { call } = caseOf("a PDF in an image_url")
  const file_data = MADE["data:application/pdf;base64,<1,000,000 bytes>"]
  const messages = [{ role: "user", content: [{ type: "file", file: { file_data } }] }]
  const as_file = await run({ ...call, body: { messages, max_tokens: 100 } })
  expect(seen(await run(call))).toEqual({
    held: as_file.call.held,
    charge: cost({ input: 258_000, output: 100 }),
    notes: [],
  })
  expect(as_file.call.held).toBe(cost({ written: CONTEXT_TOKENS, images: 100 }))
})

test("R1: a picture in an image_url", async () => {
  const { call, body } = caseOf("a picture in an image_url")
  const data = MADE["data:image/png;base64,<1,000,000 bytes of a PNG>"]?.split(",")[1] ?? ""
  const text_bytes = Buffer.byteLength(JSON.stringify(body.messages)) - data.length
  expect(seen(await run(call))).toEqual({
    held: cost({ written: text_bytes + 4_096, images: 100 }),
    charge: cost({ input: 1_100, output: 100 }),
    notes: [],
  })
})

test("R3: usage beyond the bound", async () => {
  const { call, body } = caseOf("usage beyond the bound")
  const bound = Buffer.byteLength(JSON.stringify(body.messages)) + 131_072
  const { charge, notes } = seen(await run(call))
  expect(charge).toBe(cost({ input: bound, output: 5 }))
  expect(notes).toContain("usage_implausible")
})

test("R4: an MCP server of the client", async () => {
  const { call } = caseOf("an MCP server of the client")
  expect(seen(await run(call))).toEqual({
    held: cost({ written: CONTEXT_TOKENS, images: 100 }),
    charge: cost({ input: 900_000, output: 10 }),
    notes: [],
  })
  await expectRefused({ ...call, model: "without-context" }, "tools")
})

test("R4: the same 40 times at once on 0.02 USD", async () => {
  const { body } = caseOf("the same 40 times at once on 0.02 USD")
  const before = stage.provider.requests.length
  const { id, key } = await stage.gateway.account("0.02")
  const answers = await Promise.all(
    Array.from({ length: 40 }, () =>
      postJson(`${stage.gateway.url}/v1/responses`, key, { model: "default", ...body }),
    ),
  )
  expect(answers.filter(({ status }) => status === 402)).toHaveLength(40)
  expect(await stage.gateway.balance(id)).toMatchObject({ balance: "0.02", held: "0" })
  expect(stage.provider.requests).toHaveLength(before)
})

test.each([
  ["R5", "a known name in another spelling", "Tools"],
  ["R6", "an unknown plugin", "plugins"],
])("%s: %s", async (_, name, param) => {
  await expectRefused(caseOf(name).call, param)
})

test("R7: leaving one event before the end", async () => {
  const { call, usage } = caseOf("leaving one event before the end")
  const left = Promise.withResolvers<void>()
  const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })
  const script: Script = async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    await exchange.chunk(sseEvent(choice({ delta: { content: "hello there" }, finish_reason: null })))
    await left.promise
    await exchange.chunk(sseEvent({ ...choice({ delta: {}, finish_reason: "stop" }), usage }))
    await exchange.end()
  }
  const running = await stage.begin(callOf({ ...call, script }))
  await running.client.received("hello there")
  running.client.leave()
  left.resolve()
  const { call: record } = await running.sidesOnceClosed()
  expect(record.charge).toBe(cost({ input: 28_000, output: 16_000 }))
})

/** A 400 that names the field, before anything is held or sent. */
async function expectRefused(call: CaseCall, param: string): Promise<void> {
  const before = stage.provider.requests.length
  const { script, ...refused } = call
  const { client, account_id } = await stage.begin(callOf(refused))
  const answer = await client.ended
  expect({ status: answer.status, json: answer.json }).toMatchObject({ status: 400, json: { error: {} } })
  const { error } = answer.json as { error: { param: string } }
  expect(error.param).toStartWith(param)
  expect(await stage.gateway.calls(`?account=${account_id}`)).toEqual([])
  expect(stage.provider.requests).toHaveLength(before)
}

test("every case is here", () => {
  expect(fixture.cases).toHaveLength(8)
})
