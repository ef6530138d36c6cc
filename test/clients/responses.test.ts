import { describe, expect, test } from "bun:test"
import { createOpenAI } from "@ai-sdk/openai"
import { HumanMessage } from "@langchain/core/messages"
import { ChatOpenAI } from "@langchain/openai"
import { generateText, streamText } from "ai"
import OpenAI from "openai"
import type { Script } from "../support/provider.ts"
import {
  callEvents,
  callItem,
  created,
  last,
  reasoningEvents,
  reasoningItem,
  responseEvent,
  responseJson,
  responseStream,
  responseUsage,
  textEvents,
  textItem,
  textStream,
} from "../support/responses.ts"
import { heard as heardByAi, WITH_WEATHER } from "./ai.ts"
import { type Heard as ClientsHeard, failureOf, PROMPT } from "./client.ts"
import { heard, say, useWeather, weather } from "./langchain.ts"
import { CHARGE, TOKENS } from "./plays.ts"
import { type Cell, testStage } from "./stage.ts"
import { DESCRIPTION, LAST_WORDS, NAME, PARAMETERS, RESULT, weatherIn } from "./weather.ts"

/** Real clients of the responses operation, as they come, in front of one gateway (D66). */

const stage = await testStage(60)

const USAGE = responseUsage(10, 5, 4)
const SPENT = responseUsage(20, 5)

const CALL = callItem(NAME, '{"city":"Bern"}')
const THOUGHT = reasoningItem("Look it up.")
/** Thinks, calls the tool, and then says the last words. */
const IN_JSON: readonly Script[] = [
  responseJson([THOUGHT, CALL], { usage: USAGE }),
  responseJson([textItem(LAST_WORDS)], { usage: SPENT }),
]
const IN_STREAMS: readonly Script[] = [
  responseStream([
    created,
    ...reasoningEvents(["Look ", "it up."]),
    ...callEvents(NAME, ['{"city"', ':"Bern"}'], 1),
    last([THOUGHT, CALL], { usage: USAGE }),
  ]),
  responseStream(textStream(["It is", " sunny."], SPENT)),
]

/** A client of this operation, as its user writes it. */
interface Session {
  /** Asks for a stream. */
  ask(): Promise<Heard>
  /** Asks with the tool of weather.ts, runs it, sends its result and gives the last answer's text. */
  useTool(streamed: boolean): Promise<string>
}

type Heard = Pick<ClientsHeard, "text" | "tokens">

const clients: readonly (readonly [name: string, connect: (cell: Cell) => Session])[] = [
  ["openai", openai],
  ["@ai-sdk/openai", aiSdk],
  ["@langchain/openai", langchain],
]

describe.each(clients)("%s", (_name, connect) => {
  const open = async (...scripts: readonly Script[]) => {
    const cell = await stage.cell()
    cell.answers(...scripts)
    return { cell, session: connect(cell) }
  }

  test("a stream", async () => {
    const { cell, session } = await open(responseStream(textStream(["one", " two"], USAGE)))
    expect(await session.ask()).toMatchObject({ text: "one two", tokens: TOKENS })
    expect(await cell.calls()).toMatchObject([
      { basis: "usage", ending: "completed", charge: CHARGE, stream: true },
    ])
  })

  test.each([false, true])("reasoning and a tool: called, run, answered; streamed: %p", async (streamed) => {
    const { cell, session } = await open(...(streamed ? IN_STREAMS : IN_JSON))
    expect(await session.useTool(streamed)).toBe(LAST_WORDS)
    const [question, result] = cell.exchanges.map(({ request }) => request.body)
    expect(question).toContain(`"name":"${NAME}"`)
    expect(result).toContain("function_call_output")
    expect(result).toContain(RESULT)
    expect(await cell.calls()).toMatchObject([
      { basis: "usage", charge: CHARGE, stream: streamed },
      { basis: "usage", charge: "0.00004", stream: streamed },
    ])
  })

  test("a stream that breaks after output is told, and charged for what was said (D10)", async () => {
    const broken = [created, ...textEvents(["x".repeat(40)]).slice(0, 3)]
    const { cell, session } = await open(responseStream(broken, { ending: "reset" }))
    const error = await failureOf(session.ask())
    expect(`${error} ${JSON.stringify(error)}`).toContain("The provider failed to complete the request")
    expect(cell.door.requests_ms).toHaveLength(1)
    expect(await cell.calls()).toMatchObject([
      { basis: "estimate", ending: "upstream_lost", charge: "0.00004" },
    ])
  })

  test("an error of the provider in its stream is told in the provider's words, and free, however often it is sent again", async () => {
    const failing = [
      created,
      responseEvent("error", { code: "overloaded", message: "Too busy.", param: null, sequence_number: 1 }),
    ]
    const { cell, session } = await open(responseStream(failing))
    const error = await failureOf(session.ask())
    expect(`${error} ${JSON.stringify(error)}`).toContain("Too busy.")
    const calls = await cell.calls()
    expect(calls).toHaveLength(cell.door.requests_ms.length)
    for (const call of calls)
      expect(call).toMatchObject({ state: "released", charge: "0", failure: "upstream_error" })
  })
})

/** The package `openai`. */
function openai(cell: Cell): Session {
  const client = new OpenAI({ baseURL: `${cell.url}/v1`, apiKey: cell.key })
  const { model } = cell
  const tools = [
    { type: "function" as const, name: NAME, description: DESCRIPTION, parameters: PARAMETERS, strict: true },
  ]
  const respond = async (input: OpenAI.Responses.ResponseInput, streamed: boolean, more: object = {}) => {
    if (!streamed) return await client.responses.create({ model, input, ...more })
    return await client.responses.stream({ model, input, ...more }).finalResponse()
  }
  return {
    async ask() {
      let text = ""
      let usage: OpenAI.Responses.ResponseUsage | undefined
      const events = await client.responses.create({ model, input: PROMPT, stream: true })
      for await (const event of events) {
        if (event.type === "response.output_text.delta") text += event.delta
        if (event.type === "response.completed") usage = event.response.usage
      }
      return { text, tokens: tokensOf(usage) }
    },
    async useTool(streamed) {
      const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: PROMPT }]
      const { output } = await respond(input, streamed, { tools, store: false })
      for (const item of output) {
        if (item.type === "reasoning" || item.type === "function_call") input.push(item)
        if (item.type !== "function_call") continue
        const result = weatherIn(JSON.parse(item.arguments))
        input.push({ type: "function_call_output", call_id: item.call_id, output: result })
      }
      return (await respond(input, streamed, { tools, store: false })).output_text
    },
  }
}

function tokensOf(usage: OpenAI.Responses.ResponseUsage | undefined): Heard["tokens"] {
  if (usage === undefined) return null
  const { input_tokens: prompt, input_tokens_details: details, output_tokens: completion } = usage
  return { prompt, cached: details.cached_tokens, completion }
}

/** The AI SDK, whose provider for OpenAI uses this operation by default. */
function aiSdk(cell: Cell): Session {
  const model = createOpenAI({ baseURL: `${cell.url}/v1`, apiKey: cell.key })(cell.model)
  const providerOptions = { openai: { store: false } }
  return {
    async ask() {
      const complaints: unknown[] = []
      const onError = ({ error }: { error: unknown }) => void complaints.push(error)
      const result = streamText({ model, prompt: PROMPT, providerOptions, onError })
      await result.consumeStream()
      if (complaints.length > 0) throw complaints[0]
      return heardByAi(await result.text, await result.usage)
    },
    async useTool(streamed) {
      const ask = { ...WITH_WEATHER, model, providerOptions }
      return streamed ? await streamText(ask).text : (await generateText(ask)).text
    },
  }
}

function langchain(cell: Cell): Session {
  const model = new ChatOpenAI({
    model: cell.model,
    apiKey: cell.key,
    configuration: { baseURL: `${cell.url}/v1` },
    maxRetries: 0,
    useResponsesApi: true,
    zdrEnabled: true,
  })
  return {
    ask: async () => heard(await say(model, [new HumanMessage(PROMPT)], true)),
    useTool: (streamed) => useWeather(model.bindTools([weather]), streamed),
  }
}
