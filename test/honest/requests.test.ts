import { describe, expect, test } from "bun:test"
import type { Sides } from "../http/sides.ts"
import { json } from "../support/provider.ts"
import { dataUrl, flac, gif, jpeg, mp3, pdf, png, wav, webp } from "./files.ts"
import { type CaseCall, CONTEXT_TOKENS, callOf, cost, MAX_OUTPUT_TOKENS, testCases } from "./stage.ts"

/** D12, D18, D61, D88, D89: more of each kind of wrong quantity in a request, through a real gateway. */

const stage = await testCases()

const PDF = pdf(600, "A page of text. ".repeat(100), true)
const user = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })
const picture = (url: string) => ({ type: "image_url", image_url: { url } })
const document = (bytes: Buffer) => ({
  type: "file",
  file: { filename: "a.pdf", file_data: dataUrl("application/pdf", bytes) },
})
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

async function expectHeld(call: CaseCall, tokens: number): Promise<void> {
  const { call: record } = await run({ ...call, script: said({ prompt_tokens: 5, completion_tokens: 1 }) })
  expect({ held: record.held, charge: record.charge, notes: record.notes }).toEqual({
    held: most(tokens, MAX_OUTPUT_TOKENS),
    charge: cost({ input: 5, output: 1 }),
    notes: [],
  })
}

/** A prompt of the whole context of the model. */
test.each([
  ["a PDF that is called a picture", picture(dataUrl("application/pdf", PDF))],
  ["a PDF that says that it is a picture", picture(dataUrl("image/png", PDF))],
  ["a PDF as a file", document(PDF)],
  [
    "a video that is called a picture",
    picture(dataUrl("video/mp4", Buffer.from("AAAAIGZ0eXBpc29t", "base64"))),
  ],
  [
    "a document of an office that is called a picture",
    picture(dataUrl("image/webp", Buffer.from("PK\x03\x04 word/"))),
  ],
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

describe("R9 pixels and seconds bound what a file holds", () => {
  const text = (part: object) => Buffer.byteLength(JSON.stringify(user(part).messages))
  const bare = (part: object, data: string) => text(part) - data.length
  const data = (bytes: Buffer) => bytes.toString("base64")
  test.each([
    ["a small PNG", png(64, 64), "image/png", 4_096],
    ["a small PNG of 1 MB", Buffer.concat([png(1_024, 1_024), Buffer.alloc(999_963)]), "image/png", 4_096],
    ["a PNG of 6,000 pixels", png(6_000, 6_000), "image/png", 215 * 215],
    ["a JPEG behind its metadata", jpeg(4_032, 3_024, 60_000), "image/jpeg", 144 * 108],
    ["a GIF", gif(320, 200), "image/gif", 4_096],
    ["a WebP", webp(8_192, 2_048), "image/webp", 293 * 74],
  ])("%s", async (_, bytes, type, tokens) => {
    const part = picture(dataUrl(type, bytes))
    await expectHeld({ body: user(part) }, bare(part, data(bytes)) + tokens)
  })
})

test.each([
  ["a WAV of 200 seconds, and its header", "wav", wav(200), 200 * 32 + 1],
  ["an MP3 of 10 minutes, by the lowest rate of its bits", "mp3", mp3(600), Math.ceil(mp3(600).length / 16)],
])("R9 the seconds of a sound bound what it holds: %s", async (_, format, bytes, tokens) => {
  const input_audio = { data: bytes.toString("base64"), format }
  const body = user({ type: "input_audio", input_audio })
  const script = said({ prompt_tokens: 5, completion_tokens: 1 })
  const { call } = await run({ model: "with-tools", body, script })
  const text = Buffer.byteLength(JSON.stringify(body.messages)) - input_audio.data.length
  const held_nano = 3_125 * text + 40_000 * Math.max(4_096, tokens) + 30_000 * MAX_OUTPUT_TOKENS
  expect(Math.round(Number(call.held) * 1e9)).toBe(held_nano)
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
      "a prompt of 90,000,000 tokens",
      { body, script: said({ prompt_tokens: 90_000_000, completion_tokens: 5 }) },
      cost({ input: prompt_bytes + 131_072, output: 5 }),
    ],
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
    [
      "the same in messages",
      { operation: "messages", body, script: written({ input_tokens: 90_000_000, output_tokens: 5 }) },
      cost({ input: prompt_bytes + 131_072, output: 5 }),
    ],
  ])("%s", async (_, call, charge) => {
    const { call: record } = await run(call)
    expect({ charge: record.charge, notes: record.notes }).toEqual({
      charge,
      notes: expect.arrayContaining(["usage_implausible"]),
    })
  })
})

const MCP_SERVER = { type: "url", url: "https://mcp.example.com", name: "m" }
const HELLO = { messages: [{ role: "user", content: "hi" }], max_tokens: 100 }
const MCP_TOOL = { type: "mcp", server_label: "m", server_url: "https://mcp.example.com" }
const ADDRESSED = { type: "input_file", file_url: "https://example.com/large.pdf" }

describe("R4 an open prompt holds the context", () => {
  test.each<[what: string, call: CaseCall]>([
    [
      "servers that the client runs",
      { operation: "messages", body: { ...HELLO, mcp_servers: [MCP_SERVER] } },
    ],
    [
      "servers of tools, twice",
      {
        operation: "responses",
        body: { input: "hi", tools: [MCP_TOOL], max_tool_calls: 2, max_output_tokens: 100 },
      },
    ],
    [
      "a document by its address",
      {
        operation: "responses",
        body: { input: [{ role: "user", content: [ADDRESSED] }], max_output_tokens: 100 },
      },
    ],
    [
      "fetched pages",
      {
        operation: "messages",
        body: { ...HELLO, tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] },
      },
    ],
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

  test.each<[field: string, call: CaseCall]>([
    [
      "previous_response_id",
      { operation: "responses", body: { input: "hi", previous_response_id: "resp_1" } },
    ],
    [
      "input[0].content[0].file_url",
      { operation: "responses", body: { input: [{ role: "user", content: [ADDRESSED] }] } },
    ],
    ["tools[0]", { operation: "responses", body: { input: "hi", tools: [MCP_TOOL] } }],
    ["messages[0].content[0].file.file_data", { body: user(document(PDF)) }],
    [
      "messages[0].content[0].image_url.url",
      { body: user(picture(`data:image/png;base64,${PDF.toString("base64")}`)) },
    ],
  ])("%s without context_tokens is a 400 that names it", async (param, call) => {
    const before = stage.provider.requests.length
    const { client } = await stage.begin(callOf({ ...call, model: "without-context" }))
    const answer = await client.ended
    expect({ status: answer.status, json: answer.json }).toMatchObject({
      status: 400,
      json: { error: { param, missing: "context_tokens" } },
    })
    expect(stage.provider.requests).toHaveLength(before)
  })

  test("20 at once on 0.02 USD are refused, and nothing is spent", async () => {
    const before = stage.provider.requests.length
    const { id, key } = await stage.gateway.account("0.02")
    const calls = Array.from({ length: 20 }, () =>
      fetch(`${stage.gateway.url}/v1/messages`, {
        method: "POST",
        headers: { "x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "claude", ...HELLO, mcp_servers: [MCP_SERVER] }),
      }),
    )
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(
      Array.from({ length: 20 }, () => 402),
    )
    expect(await stage.gateway.balance(id)).toMatchObject({ balance: "0.02", held: "0" })
    expect(stage.provider.requests).toHaveLength(before)
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
    ["plugins", { body: { ...HELLO, plugins: [{ id: "fusion" }] } }],
    ["plugins", { body: { ...HELLO, plugins: [{ id: "file-parser" }] } }],
    ["plugins", { body: { ...HELLO, plugins: [{ id: "web-fetch" }, { id: "response-healing" }] } }],
    ["tools", { body: { ...HELLO, tools: [tool] } }],
    ["extra_body", { body: { ...HELLO, extra_body: { enable_search: true } } }],
    ["extra_body", { body: { ...HELLO, extra_body: { google: { tools: [tool] } } } }],
    ["modalities", { body: { ...HELLO, modalities: ["text", "video"] } }],
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
