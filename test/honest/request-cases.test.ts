import { expect, test } from "bun:test"
import type { Sides } from "../http/sides.ts"
import { json, type Script, sseEvent } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { dataUrl, pdf, png } from "./files.ts"
import { type CaseCall, CONTEXT_TOKENS, callOf, cost, testCases } from "./stage.ts"

/** D12, D18, D61, D88, D89: requests that once cost more than was held for them, through a real gateway. */

const stage = await testCases()

type Fields = Readonly<Record<string, unknown>>

const LARGE_PNG = Buffer.concat([png(1_024, 1_024), Buffer.alloc(999_963)])
const LARGE_PDF = Buffer.concat([pdf(600, "A page. ", true), Buffer.alloc(990_000, 0x20)])
const PDF_URL = dataUrl("application/pdf", LARGE_PDF)
const PNG_URL = dataUrl("image/png", LARGE_PNG)
const BASE64 = Buffer.alloc(30_000, "any bytes at all").toString("base64")

const asks = (content: unknown, more: Fields = {}) => ({ messages: [{ role: "user", content }], ...more })
const shows = (url: string) => asks([{ type: "image_url", image_url: { url } }], { max_tokens: 100 })
const MCP = {
  input: "hi",
  max_output_tokens: 100,
  tools: [{ type: "mcp", server_label: "m", server_url: "https://mcp.example.com" }],
  max_tool_calls: 2,
}

/** A chat call, and the usage that the provider reports. */
function chatCall(body: Fields, usage: Fields = {}): CaseCall {
  const choices = [{ index: 0, message: { role: "assistant", content: "hi" } }]
  return { body, script: json(200, { choices, usage }) }
}

const run = (call: CaseCall): Promise<Sides> => stage.run(callOf(call))
const seen = ({ call }: Sides) => ({ held: call.held, charge: call.charge, notes: call.notes })

test("R1: a PDF in an image_url is held as a file of the same bytes", async () => {
  const call = chatCall(shows(PDF_URL), { prompt_tokens: 258_000, completion_tokens: 100 })
  const as_file = asks([{ type: "file", file: { file_data: PDF_URL } }], { max_tokens: 100 })
  const held = cost({ written: CONTEXT_TOKENS, images: 100 })
  expect(seen(await run(call))).toEqual({ held, charge: cost({ input: 258_000, output: 100 }), notes: [] })
  expect((await run({ ...call, body: as_file })).call.held).toBe(held)
})

test("R1: a picture in an image_url is held as one picture", async () => {
  const body = shows(PNG_URL)
  const call = chatCall(body, { prompt_tokens: 1_100, completion_tokens: 100 })
  const data = PNG_URL.split(",")[1] ?? ""
  const text_bytes = Buffer.byteLength(JSON.stringify(body.messages)) - data.length
  expect(seen(await run(call))).toEqual({
    held: cost({ written: text_bytes + 4_096, images: 100 }),
    charge: cost({ input: 1_100, output: 100 }),
    notes: [],
  })
})

test("R3: usage beyond the bound is charged at the bound", async () => {
  const body = asks("hi", { max_tokens: 10 })
  const bound = Buffer.byteLength(JSON.stringify(body.messages)) + 131_072
  const call = chatCall(body, { prompt_tokens: 90_000_000, completion_tokens: 5 })
  const { charge, notes } = seen(await run(call))
  expect(charge).toBe(cost({ input: bound, output: 5 }))
  expect(notes).toContain("usage_implausible")
})

test("R4: an MCP server of the client holds what its prompt can cost", async () => {
  const usage = { input_tokens: 900_000, output_tokens: 10 }
  const answer = { object: "response", status: "completed", output: [], usage }
  const call: CaseCall = { operation: "responses", body: MCP, script: json(200, answer) }
  expect(seen(await run(call))).toEqual({
    held: cost({ written: CONTEXT_TOKENS, images: 100 }),
    charge: cost({ input: 900_000, output: 10 }),
    notes: [],
  })
  await expectRefused({ ...call, model: "without-context" }, "tools")
})

test("R4: the same 40 times at once on 0.02 USD", async () => {
  const before = stage.provider.requests.length
  const { id, key } = await stage.gateway.account("0.02")
  const ask = () => postJson(`${stage.gateway.url}/v1/responses`, key, { model: "default", ...MCP })
  const answers = await Promise.all(Array.from({ length: 40 }, ask))
  expect(answers.filter(({ status }) => status === 402)).toHaveLength(40)
  expect(await stage.gateway.balance(id)).toMatchObject({ balance: "0.02", held: "0" })
  expect(stage.provider.requests).toHaveLength(before)
})

test.each([
  ["R5: a known name in another spelling", { Tools: [{ type: "code_interpreter" }] }, "Tools"],
  ["R6: an unknown plugin", { plugins: [{ id: "file-parser" }] }, "plugins"],
])("%s", async (_, more, param) => {
  await expectRefused({ body: asks("hi", more) }, param)
})

test("R7: leaving one event before the end is never cheaper than staying", async () => {
  const usage = { prompt_tokens: 28_000, completion_tokens: 16_000 }
  const left = Promise.withResolvers<void>()
  const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })
  const script: Script = async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    await exchange.chunk(sseEvent(choice({ delta: { content: "hello there" }, finish_reason: null })))
    await left.promise
    await exchange.chunk(sseEvent({ ...choice({ delta: {}, finish_reason: "stop" }), usage }))
    await exchange.end()
  }
  const running = await stage.begin(
    callOf({ body: asks(BASE64, { stream: true, max_tokens: 20_000 }), script }),
  )
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
