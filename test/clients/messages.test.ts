import { describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createAnthropic } from "@ai-sdk/anthropic"
import Anthropic from "@anthropic-ai/sdk"
import { ChatAnthropic } from "@langchain/anthropic"
import { generateText, streamText } from "ai"
import {
  aMessage,
  blockDelta,
  blockStart,
  blockStop,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
  messageUsage,
  namedEvents,
  textBlock,
} from "../support/messages.ts"
import { json, type Script } from "../support/provider.ts"
import { WITH_WEATHER } from "./ai.ts"
import { failureOf, PROMPT } from "./client.ts"
import { useWeather, weather } from "./langchain.ts"
import { type Cell, testStage } from "./stage.ts"
import { DESCRIPTION, LAST_WORDS, NAME, PARAMETERS, weatherIn } from "./weather.ts"

/** The unmodified clients of the messages family (D64): what they see, what the provider sees, and what the ledger says. */

const stage = await testStage(30)

const ARGUMENTS = '{"city":"Bern"}'
const TOOL_USE = { type: "tool_use", id: "toolu_1", name: NAME, input: JSON.parse(ARGUMENTS) }
const ASKS = messageUsage(10, 5, { cache_creation_input_tokens: 40 })
const HEARS = messageUsage(20, 5, { cache_read_input_tokens: 40 })

/** The tool is used, then the last words: as JSON and as streams. */
const IN_JSON: readonly Script[] = [
  json(200, aMessage("", { content: [TOOL_USE], stop_reason: "tool_use", usage: ASKS })),
  json(200, aMessage(LAST_WORDS, { usage: HEARS })),
]
const IN_STREAMS: readonly Script[] = [
  namedEvents([
    messageStart({ ...ASKS, output_tokens: 1 }),
    { type: "ping" },
    blockStart(0, { ...TOOL_USE, input: {} }),
    blockDelta(0, { type: "input_json_delta", partial_json: ARGUMENTS.slice(0, 8) }),
    blockDelta(0, { type: "input_json_delta", partial_json: ARGUMENTS.slice(8) }),
    blockStop(0),
    messageDelta({ output_tokens: 5 }, "tool_use"),
    MESSAGE_STOP,
  ]),
  namedEvents([
    messageStart({ ...HEARS, output_tokens: 1 }),
    ...textBlock(0, LAST_WORDS),
    messageDelta({ output_tokens: 5 }),
    MESSAGE_STOP,
  ]),
]
/** 50 tokens at 1,000 nano-USD and 5 at 4,000; then 20 at 1,000, 40 cached ones at 100 and 5 at 4,000. */
const CHARGES = [
  { basis: "usage", charge: "0.00007" },
  { basis: "usage", charge: "0.000044" },
]

/** The second request repeats the first, with the use of the tool and its result. */
function expectToolTurn(cell: Cell): void {
  const [, second] = cell.exchanges.map(({ request }) => request.json)
  expect(second).toMatchObject({
    messages: [
      { role: "user" },
      {
        role: "assistant",
        content: expect.arrayContaining([expect.objectContaining({ type: "tool_use", id: "toolu_1" })]),
      },
      {
        role: "user",
        content: [expect.objectContaining({ type: "tool_result", tool_use_id: "toolu_1" })],
      },
    ],
  })
}

const messages = [{ role: "user" as const, content: PROMPT }]

describe("the official SDK", () => {
  async function open(...scripts: readonly Script[]) {
    const cell = await stage.cell()
    cell.answers(...scripts)
    const client = new Anthropic({ baseURL: cell.url, apiKey: cell.key })
    return { cell, client, ask: { model: cell.counter, max_tokens: 100, messages } }
  }

  test.each([false, true])("uses a tool; streamed: %p", async (streamed) => {
    const { cell, client, ask } = await open(...(streamed ? IN_STREAMS : IN_JSON))
    const tools = [{ name: NAME, description: DESCRIPTION, input_schema: PARAMETERS }]
    const say = async (further: Parameters<typeof client.messages.create>[0]["messages"]) => {
      const body = { ...ask, tools, messages: further }
      return streamed ? await client.messages.stream(body).finalMessage() : await client.messages.create(body)
    }
    const first = await say(messages)
    expect(first).toMatchObject({ stop_reason: "tool_use", content: [TOOL_USE], usage: { output_tokens: 5 } })
    const [use] = first.content
    if (use?.type !== "tool_use") throw new Error("no tool was used")
    const content = [{ type: "tool_result" as const, tool_use_id: use.id, content: weatherIn(use.input) }]
    const last = await say([
      ...messages,
      { role: "assistant", content: first.content },
      { role: "user", content },
    ])
    expect(last.content).toMatchObject([{ type: "text", text: LAST_WORDS }])
    expectToolTurn(cell)
    expect(await cell.calls()).toMatchObject(CHARGES)
  })

  test("thinks, and passes on what it was shown", async () => {
    const thinking = { type: "thinking", thinking: "Hm.", signature: "c2ln" }
    const { cell, client, ask } = await open(
      namedEvents([
        messageStart(messageUsage(10, 1)),
        blockStart(0, { type: "thinking", thinking: "", signature: "" }),
        blockDelta(0, { type: "thinking_delta", thinking: "Hm." }),
        blockDelta(0, { type: "signature_delta", signature: "c2ln" }),
        blockStop(0),
        ...textBlock(1, "Well."),
        messageDelta({ output_tokens: 5 }),
        MESSAGE_STOP,
      ]),
    )
    const { content } = await client.messages
      .stream({ ...ask, max_tokens: 900, thinking: { type: "enabled", budget_tokens: 500 } })
      .finalMessage()
    expect(content).toMatchObject([thinking, { type: "text", text: "Well." }])
    expect(cell.exchanges[0]?.request.json).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 500 },
    })
    expect(await cell.calls()).toMatchObject([{ charge: "0.00003", basis: "usage" }])
  })

  test("D64 reads the provider's own error, and the gateway's id of the call", async () => {
    const said = { type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } }
    const { cell, client, ask } = await open(json(400, said))
    const error = await failureOf(client.messages.create(ask))
    const [call] = await cell.calls()
    expect(error).toMatchObject({ status: 400, error: said, requestID: call?.id })
  })

  test("D10 reads an error inside a stream", async () => {
    const overloaded = { error: { type: "overloaded_error", message: "Overloaded" } }
    const { cell, client, ask } = await open(
      namedEvents([messageStart(), ...textBlock(0, "one"), { type: "error", ...overloaded }]),
    )
    const error = await failureOf(client.messages.stream(ask).finalMessage())
    expect(String(error)).toContain("Overloaded")
    expect(cell.exchanges).toHaveLength(1)
    expect(await cell.calls()).toMatchObject([{ ending: "upstream_lost", charge: "0.000014" }])
  })
})

test.each([false, true])("the AI SDK uses a tool; streamed: %p", async (streamed) => {
  const cell = await stage.cell()
  cell.answers(...(streamed ? IN_STREAMS : IN_JSON))
  const provider = createAnthropic({ baseURL: `${cell.url}/v1`, apiKey: cell.key })
  const settings = { ...WITH_WEATHER, model: provider(cell.counter), maxOutputTokens: 100 }
  const { text, totalUsage } = streamed ? streamText(settings) : await generateText(settings)
  expect(await text).toBe(LAST_WORDS)
  // 50 and 60 tokens of input, 5 and 5 of output.
  expect(await totalUsage).toMatchObject({ inputTokens: 110, outputTokens: 10 })
  expectToolTurn(cell)
  expect(await cell.calls()).toMatchObject(CHARGES)
})

test.each([false, true])("LangChain uses a tool; streamed: %p", async (streamed) => {
  const cell = await stage.cell()
  cell.answers(...(streamed ? IN_STREAMS : IN_JSON))
  const model = new ChatAnthropic({
    model: cell.counter,
    apiKey: cell.key,
    anthropicApiUrl: cell.url,
    maxTokens: 100,
  }).bindTools([weather])
  expect(await useWeather(model, streamed)).toBe(LAST_WORDS)
  expectToolTurn(cell)
  expect(await cell.calls()).toMatchObject(CHARGES)
})

describe("Claude Code", () => {
  const COMMAND = '{"command":"echo forty-two","description":"Say it"}'
  /** Its own title of the conversation and the like, which are asked for without tools. */
  const aside = namedEvents([
    messageStart(),
    ...textBlock(0, "ok"),
    messageDelta({ output_tokens: 5 }),
    MESSAGE_STOP,
  ])
  const uses = namedEvents([
    messageStart(messageUsage(100, 1, { cache_creation_input_tokens: 2000 })),
    ...textBlock(0, "Let me look."),
    blockStart(1, { type: "tool_use", id: "toolu_1", name: "Bash", input: {} }),
    blockDelta(1, { type: "input_json_delta", partial_json: COMMAND }),
    blockStop(1),
    messageDelta({ output_tokens: 30 }, "tool_use"),
    MESSAGE_STOP,
  ])
  const answers = namedEvents([
    messageStart(messageUsage(20, 1, { cache_read_input_tokens: 2000 })),
    ...textBlock(0, "The answer is ", "forty-two."),
    messageDelta({ output_tokens: 12 }),
    MESSAGE_STOP,
  ])

  test("finishes a turn that uses a tool, and its receipts add up to what the provider counted", async () => {
    const cell = await stage.cell()
    cell.answers((exchange) => {
      const { body } = exchange.request
      if (!body.includes('"name":"Bash"')) return aside(exchange)
      return (body.includes('"tool_result"') ? answers : uses)(exchange)
    })
    const { said, complained, code } = await claude("Run echo with Bash.", {
      ANTHROPIC_BASE_URL: cell.url,
      ANTHROPIC_API_KEY: cell.key,
      ANTHROPIC_MODEL: cell.counter,
      ANTHROPIC_SMALL_FAST_MODEL: cell.counter,
    })
    expect({ said: said.trim(), code, complained }).toEqual({
      said: "The answer is forty-two.",
      code: 0,
      complained: "",
    })
    const [asked, ...more] = cell.exchanges.filter(({ request }) => request.body.includes('"name":"Bash"'))
    expect(more).toHaveLength(1)
    expect(asked?.request.path).toEndWith("/v1/messages?beta=true")
    expect(asked?.request.headers["anthropic-beta"]).toContain("claude-code-")
    expect(JSON.stringify(more[0]?.request.json)).toContain("forty-two")
    const calls = await cell.calls()
    expect(calls).toHaveLength(cell.exchanges.length)
    // 2,100 x 1,000 + 30 x 4,000, and 20 x 1,000 + 2,000 x 100 + 12 x 4,000 nano-USD.
    const charges = calls.map(({ charge }) => charge)
    expect(charges).toContain("0.00222")
    expect(charges).toContain("0.000268")
    const sessions = new Set(calls.map(({ session_id }) => session_id))
    expect(sessions.size).toBe(1)
    expect([...sessions][0]).toMatch(/^[0-9a-f-]{36}$/)
  })

  test("says at once that its key is wrong, and does not ask again (D15)", async () => {
    const { url, key } = await stage.cell()
    const asked: string[] = []
    const gateway = Bun.serve({
      port: 0,
      async fetch(request) {
        const answer = await fetch(`${url}/v1/messages`, {
          method: "POST",
          headers: { "x-api-key": `${key}x`, "content-type": "application/json" },
          body: await request.text(),
        })
        if (request.method === "POST") asked.push(await answer.clone().text())
        return answer
      },
    })
    const { said, code } = await claude("Hello.", {
      ANTHROPIC_BASE_URL: gateway.url.origin,
      ANTHROPIC_API_KEY: `${key}x`,
    })
    await gateway.stop(true)
    expect(code).toBe(1)
    expect(said).toContain("The API key is missing, malformed, unknown, revoked or expired.")
    expect(asked.length).toBeGreaterThan(0)
    expect({ asked: asked.length }).toEqual({ asked: 1 })
  })
})

/** What Claude Code says to a prompt, in a home of its own. */
async function claude(prompt: string, variables: Readonly<Record<string, string>>) {
  const home = await mkdtemp(join(tmpdir(), "tollgate-claude-"))
  const cli = new URL(import.meta.resolve("@anthropic-ai/claude-code/cli.js")).pathname
  const child = Bun.spawn([process.execPath, cli, "-p", prompt, "--allowedTools", "Bash"], {
    cwd: home,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: {
      PATH: process.env.PATH ?? "",
      HOME: home,
      TMPDIR: home,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      ...variables,
    },
  })
  const [said, complained, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  await rm(home, { recursive: true, force: true })
  return { said, complained, code }
}
