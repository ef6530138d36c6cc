import { describe, expect, test } from "bun:test"
import { compressed } from "../admission/files.ts"
import { PRICE, untilIs } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"

/** D89: each way to open a prompt in each family, as a quote and a call of a real gateway see it. */

const CONTEXT = 100_000
const OPEN = { hold_rounds: 3, max_rounds: 5 }
const FEES = {
  web_search: "0.01",
  tool_run: { x_search: "0.005", file_search: "0.0025", code_execution: "0.05", web_fetch: "0.001" },
}
const OPERATIONS = ["chat", "responses", "messages", "embeddings"] as const
type Operation = (typeof OPERATIONS)[number]

const models = (["chat", "messages"] as const).flatMap((family) =>
  [family, `${family}-without-context`].map((name) => ({
    name,
    family,
    upstreams: [{ use: family === "chat" ? "first" : "counter" }],
    price: { ...PRICE, ...FEES, audio_input: "9.00" },
    max_output_tokens: 100,
    open: OPEN,
    ...(name === family && { context_tokens: CONTEXT }),
  })),
)
const { provider, gateway } = await testGateway({ models })
const account = await gateway.account("1000")

const BASE: Readonly<Record<Operation, object>> = {
  chat: { messages: [{ role: "user", content: "hi" }] },
  responses: { input: "hi" },
  messages: { messages: [{ role: "user", content: "hi" }], max_tokens: 9 },
  embeddings: { input: "hi" },
}

async function quote(operation: Operation, fields: object, suffix = "") {
  const model = `${operation === "messages" ? "messages" : "chat"}${suffix}`
  const answer = await postJson(`${gateway.url}/v1/quote`, account.key, {
    model,
    operation,
    ...BASE[operation],
    ...fields,
  })
  return JSON.parse(await answer.text())
}

const ADDRESS = "https://files.example/a"
const says = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] })
const item = (...input: readonly object[]) => ({ input })
const tools = (...list: readonly object[]) => ({ tools: list })
const inFile = (fields: object) => says({ type: "file", file: fields })
const pdf = `data:application/pdf;base64,${compressed.PDF?.(6_215)}`

/** What the provider runs: it reads the prompt in every round. */
const RUNS: readonly (readonly [Operation, param: string, fields: object])[] = [
  ["chat", "tools", tools({ type: "mcp", server_url: ADDRESS })],
  ["chat", "tools", tools({ type: "x_search" })],
  ["chat", "web_search_options", { web_search_options: {} }],
  ["chat", "plugins", { plugins: [{ id: "web" }] }],
  ["responses", "tools[0]", tools({ type: "web_search_2025_08_26" })],
  ["responses", "input[1]", item({ role: "user", content: "hi" }, { type: "compaction_trigger" })],
  ["messages", "mcp_servers", { mcp_servers: [{ type: "url", url: ADDRESS }] }],
  ["messages", "skills", { skills: [{ type: "anthropic", skill_id: "pdf" }] }],
  ["embeddings", "mcp_servers", { mcp_servers: [{ url: ADDRESS }] }],
]

/** What is read once. */
const READ_ONCE: readonly (readonly [Operation, param: string, fields: object])[] = [
  ["chat", "messages[0].content[0].file.file_id", inFile({ file_id: "f" })],
  ["chat", "messages[0].content[0].file.file_data", inFile({ file_data: pdf })],
  ["responses", "previous_response_id", { previous_response_id: "r" }],
  ["messages", "messages[0].content[0]", says({ type: "container_upload", file_id: "f" })],
  ["embeddings", "file_ids", { file_ids: ["f"] }],
]

describe("D89 what opens a prompt holds contexts, and is a 400 that names it where the model has none", () => {
  const named = (rows: typeof RUNS, rounds: number) =>
    rows.map(([operation, param, fields]) => ({ operation, param, fields, rounds }))
  const rows = [...named(RUNS, OPEN.hold_rounds), ...named(READ_ONCE, 1)]

  test.each(rows)("$operation: $param holds $rounds contexts", async (row) => {
    const { operation, fields, param, rounds } = row
    expect(await quote(operation, fields)).toMatchObject({ prompt_tokens: rounds * CONTEXT })
    // A request can only lower what it holds.
    const lowered = Math.min(rounds, 2)
    const bounded = await quote(operation, { ...fields, max_tool_calls: 1 })
    expect(bounded).toMatchObject({ prompt_tokens: lowered * CONTEXT })
    const many = await quote(operation, { ...fields, max_tool_calls: 90 })
    expect(many).toMatchObject({ prompt_tokens: rounds * CONTEXT })
    const refused = await quote(operation, fields, "-without-context")
    expect(refused).toMatchObject({ error: { param, missing: "context_tokens" } })
  })
})

describe("D89 what the provider reports is plausible up to max_rounds contexts", () => {
  const body = { ...BASE.chat, ...tools({ type: "mcp", server_url: ADDRESS }), max_tokens: 1 }
  const bytes = JSON.stringify(body.tools).length + JSON.stringify([{ role: "user", content: "hi" }]).length
  const most = bytes + OPEN.max_rounds * CONTEXT + 131_072

  test.each<[string, object, reported: number, charged: number]>([
    ["as many", {}, most, most],
    ["one more is charged at the bound", {}, most + 1, most],
    ["as many at a provider that ignores max_tool_calls", { max_tool_calls: 1 }, most, most],
    ["a plain call", { tools: undefined }, CONTEXT + 131_072, 32 + 131_072],
  ])("%s", async (_, fields, reported, charged) => {
    provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(reported, 1) })))
    const answer = await postJson(`${gateway.url}/v1/chat/completions`, account.key, {
      model: "chat",
      ...body,
      ...fields,
    })
    await answer.text()
    const id = answer.headers.get("x-request-id") ?? ""
    const call = await untilIs(() => gateway.call(id), { state: "settled" })
    expect(call.usage).toMatchObject({ prompt_tokens: charged })
    expect(call.notes).toEqual(
      reported > charged
        ? expect.arrayContaining(["usage_implausible"])
        : expect.not.arrayContaining(["usage_implausible"]),
    )
  })
})

describe("D12 D89 plain calls of agents stay cheap to hold, with tools and sessions of their own", () => {
  /** Tokens of the instructions for tools (D12). */
  const TOOLS = 346
  test.each<[string, Operation, object, added: number]>([
    ["of a chat", "chat", { ...BASE.chat, ...tools({ type: "function", function: { name: "f" } }) }, TOOLS],
    [
      "of Codex",
      "responses",
      {
        input: [
          { role: "user", content: [{ type: "input_text", text: "Fix it." }] },
          { type: "reasoning", id: "r", encrypted_content: "c2ln", summary: [] },
          { type: "function_call_output", call_id: "c", output: "a.ts" },
        ],
        tools: [{ type: "local_shell" }, { type: "custom", name: "apply_patch" }],
      },
      TOOLS,
    ],
    [
      "of Claude Code",
      "messages",
      {
        messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "text" }] }],
        tools: [
          { name: "Read", input_schema: {} },
          { type: "bash_20250124", name: "bash" },
        ],
        context_management: { edits: [{ type: "clear_thinking_20251015" }] },
      },
      TOOLS + 245,
    ],
  ])("%s", async (_, operation, prompt, added) => {
    const bytes = Object.values(prompt).reduce((sum, value) => sum + JSON.stringify(value).length, 0)
    const more = { prompt_cache_key: "session", metadata: { user_id: "u" }, store: false }
    for (const suffix of ["", "-without-context"])
      expect(await quote(operation, { ...prompt, ...more }, suffix)).toMatchObject({
        prompt_tokens: bytes + added,
      })
  })
})
