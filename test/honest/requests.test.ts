import { describe, expect, test } from "bun:test"
import type { Sides } from "../http/sides.ts"
import { json } from "../support/provider.ts"
import { dataUrl, flac, pdf, png } from "./files.ts"
import { type CaseCall, CONTEXT_TOKENS, callOf, cost, MAX_OUTPUT_TOKENS, testCases } from "./stage.ts"

/** D12, D18, D61, D88, D89: more of each kind of wrong quantity in a request, through a real gateway. */

const stage = await testCases()

const PDF = pdf(600, "A page of text. ".repeat(100), true)
const user = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })
const picture = (url: string) => ({ type: "image_url", image_url: { url } })
const said = (usage: object) =>
  json(200, { choices: [{ index: 0, message: { role: "assistant", content: "hi" } }], usage })
const heard = (usage: object) => json(200, { object: "response", status: "completed", output: [], usage })
const written = (usage: object) => json(200, { type: "message", role: "assistant", content: [], usage })

/** The most that a call holds with a prompt of so many tokens and this limit of output, which may be images. */
const most = (prompt_tokens: number, max_tokens: number) =>
  cost({ written: prompt_tokens, images: max_tokens })

async function run(call: CaseCall): Promise<Sides> {
  return await stage.run(callOf(call))
}

/** A prompt of the whole context of the model. */
test.each([
  ["a PDF that is called a picture", picture(dataUrl("application/pdf", PDF))],
  ["an hour of silence", picture(dataUrl("audio/flac", flac(3_600)))],
])("R1 R9 what is compressed and not measured holds the context: %s", async (what, part) => {
  const model = what.includes("silence") ? "with-tools" : "default"
  const sides = await run({
    model,
    body: user(part),
    script: said({ prompt_tokens: 258_000, completion_tokens: 100 }),
  })
  expect({ charge: sides.call.charge, notes: sides.call.notes }).toEqual({
    charge: cost({ input: 258_000, output: 100 }),
    notes: [],
  })
  const price = model === "default" ? 3_125 : 40_000
  const held_nano = price * CONTEXT_TOKENS + 30_000 * MAX_OUTPUT_TOKENS
  expect(Number(sides.call.held) * 1e9).toBe(held_nano)
})

describe("R2 a string is text, unless its content is a medium", () => {
  const large = "A text that is longer than any picture. ".repeat(6_000)
  test.each<[what: string, call: CaseCall, reported: object]>([
    [
      "an item of text with a field that is named like a picture",
      {
        operation: "responses",
        body: {
          input: [{ role: "user", content: [{ type: "input_text", text: "hi", image_url: large }] }],
          max_output_tokens: 100,
        },
        script: heard({ input_tokens: 230_000, output_tokens: 100 }),
      },
      { input: 230_000, output: 100 },
    ],
    [
      "a text that is called the data of a picture",
      {
        operation: "messages",
        body: {
          ...user({ type: "image", source: { type: "base64", media_type: "image/png", data: large } }),
          max_tokens: 100,
        },
        script: written({ input_tokens: 230_000, output_tokens: 100 }),
      },
      { input: 230_000, output: 100 },
    ],
    [
      "Base64 in a text is text",
      {
        body: {
          ...user({ type: "text", text: png(8, 8).toString("base64").repeat(2_000) }),
          max_tokens: 100,
        },
        script: said({ prompt_tokens: 90_000, completion_tokens: 100 }),
      },
      { input: 90_000, output: 100 },
    ],
  ])("%s", async (_, call, reported) => {
    const { call: record } = await run(call)
    expect({ charge: record.charge, notes: record.notes }).toEqual({ charge: cost(reported), notes: [] })
    expect(Number(record.held)).toBeGreaterThanOrEqual(Number(record.charge))
  })
})

describe("R3 usage beyond the bound is charged at the bound", () => {
  const body = { messages: [{ role: "user", content: "hi" }], max_tokens: 10 }
  const prompt_bytes = Buffer.byteLength(JSON.stringify(body.messages))
  test.each<[what: string, call: CaseCall, charge: string]>([
    [
      "an output of 90,000,000 tokens",
      { body, script: said({ prompt_tokens: 5, completion_tokens: 90_000_000 }) },
      cost({ input: 5, output: MAX_OUTPUT_TOKENS }),
    ],
    [
      "cached tokens are left out first",
      {
        body,
        script: said({
          prompt_tokens: 90_000_000,
          completion_tokens: 5,
          prompt_tokens_details: { cached_tokens: 89_999_000 },
        }),
      },
      cost({ input: 1_000, cached: prompt_bytes + 131_072 - 1_000, output: 5 }),
    ],
  ])("%s", async (_, call, charge) => {
    const { call: record } = await run(call)
    expect({ charge: record.charge, notes: record.notes }).toEqual({
      charge,
      notes: expect.arrayContaining(["usage_implausible"]),
    })
  })
})

const HELLO = { messages: [{ role: "user", content: "hi" }], max_tokens: 100 }

describe("R4 an open prompt holds the context", () => {
  test.each<[what: string, call: CaseCall]>([
    [
      "an earlier response",
      {
        operation: "responses",
        body: { input: "hi", previous_response_id: "resp_1", max_output_tokens: 100 },
      },
    ],
  ])("%s", async (_, call) => {
    const usage = call.operation === "messages" ? written : heard
    const { call: record } = await run({
      ...call,
      script: usage({ input_tokens: 900_000, output_tokens: 10 }),
    })
    expect({ held: record.held, charge: record.charge, notes: record.notes }).toEqual({
      held: most(CONTEXT_TOKENS, 100),
      charge: cost({ input: 900_000, output: 10 }),
      notes: [],
    })
  })

  test("searches, with their fees", async () => {
    const script = said({ prompt_tokens: 900_000, completion_tokens: 10, num_search_queries: 4 })
    const body = { ...HELLO, web_search_options: {} }
    const { call } = await run({ model: "with-tools", body, script })
    const fee_nano = 10_000_000
    expect(Math.round(Number(call.charge) * 1e9)).toBe(2_500 * 900_000 + 10_000 * 10 + 4 * fee_nano)
    // A search may find sounds.
    const held_nano = 40_000 * CONTEXT_TOKENS + 30_000 * 100 + 10 * fee_nano
    expect(Math.round(Number(call.held) * 1e9)).toBe(held_nano)
  })
})

describe("R5 R6 what is not known by its exact name, or has no price, is a 400 that names it", () => {
  const tool = { type: "code_interpreter" }
  test.each<[param: string, call: CaseCall]>([
    ["Tools", { body: { ...HELLO, Tools: [tool] } }],
    ["Web_Search_Options", { body: { ...HELLO, Web_Search_Options: {} } }],
    ["model ", { body: { ...HELLO, "model ": "other" } }],
    ["max-tokens", { body: { ...HELLO, "max-tokens": 9 } }],
    [
      "messages[0].content[0].Type",
      { body: { messages: [{ role: "user", content: [{ Type: "image_url", type: "text", text: "hi" }] }] } },
    ],
    [
      "input[0].content[0].ImageURL",
      {
        operation: "responses",
        body: { input: [{ role: "user", content: [{ type: "input_text", text: "hi", ImageURL: "x" }] }] },
      },
    ],
    [
      "messages[0].content[0].Cache_Control",
      {
        operation: "messages",
        body: { max_tokens: 9, ...user({ type: "text", text: "hi", Cache_Control: { type: "ephemeral" } }) },
      },
    ],
    ["plugins", { body: { ...HELLO, plugins: [{ id: "web-fetch" }, { id: "response-healing" }] } }],
    ["extra_body", { body: { ...HELLO, extra_body: { google: { tools: [tool] } } } }],
  ])("%s", async (param, call) => {
    const before = stage.provider.requests.length
    const { client, account_id } = await stage.begin(callOf(call))
    const answer = await client.ended
    expect({ status: answer.status, json: answer.json }).toMatchObject({ status: 400 })
    expect(answer.body).toContain(param.split(".").at(-1) ?? "")
    expect(await stage.gateway.calls(`?account=${account_id}`)).toEqual([])
    expect(stage.provider.requests).toHaveLength(before)
  })
})
