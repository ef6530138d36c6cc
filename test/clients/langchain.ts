import type { BaseLanguageModelInput } from "@langchain/core/language_models/base"
import { AIMessageChunk, HumanMessage, type UsageMetadata } from "@langchain/core/messages"
import type { Runnable } from "@langchain/core/runnables"
import { tool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import {
  type CallOptions,
  type Client,
  type Heard,
  MUTE,
  PROMPT,
  type Session,
  type StreamOptions,
  type Tokens,
  versionOf,
  WITH_COST,
} from "./client.ts"
import { DESCRIPTION, NAME, PARAMETERS, weatherIn } from "./weather.ts"

// What the environment may ask of it leads away from this machine: traces, and another gateway.
for (const name of Object.keys(process.env)) if (/^LANG(?:SMITH|CHAIN)_/.test(name)) delete process.env[name]

/** Its own default has pauses that add up to more than a minute. */
const REPEATS = 1

function defaultRepeats(): unknown {
  const { caller }: { readonly caller?: { readonly maxRetries?: unknown } } = Object(
    new ChatOpenAI({ model: "any", apiKey: "any" }),
  )
  return caller?.maxRetries
}

export const LANGCHAIN: Client = {
  name: `@langchain/openai ${await versionOf("@langchain/openai")}`,
  family: "chat",
  connect: (cell, changes = {}) =>
    session(
      (usage, cost) =>
        new ChatOpenAI({
          model: changes.model ?? cell.model,
          apiKey: changes.key ?? cell.key,
          configuration: { baseURL: `${cell.url}/v1` },
          maxRetries: REPEATS,
          streamUsage: usage,
          ...(cost && { modelKwargs: WITH_COST }),
        }),
    ),
  shows: {
    status: "error.status",
    code: "error.code",
    type: "error.type",
    message: "error.message",
    "request id": "error.requestID",
  },
  repeats: { times: REPEATS, by_default: `${defaultRepeats()} times (\`maxRetries\`)` },
  obeys_should_retry: false,
  repeats_bare_429: false,
  lacks: { models: "it has no list of models", count: "it has no counts" },
}

function session(modelWith: (usage: boolean, cost?: boolean) => ChatOpenAI): Session {
  return {
    ...MUTE,
    async chat({ cost, ...options } = {}) {
      return heard(await modelWith(true, cost).invoke(PROMPT, settingsOf(options)))
    },
    async stream({ usage = false, cost, onText, ...options }: StreamOptions = {}) {
      const stream = await modelWith(usage, cost).stream(PROMPT, settingsOf(options))
      let whole: AIMessageChunk | undefined
      for await (const chunk of stream) {
        whole = whole?.concat(chunk) ?? chunk
        if (chunk.text !== "") onText?.(chunk.text)
      }
      return heard(whole)
    },
    useTool: (streamed) => useWeather(modelWith(true).bindTools([weather]), streamed),
  }
}

type Model = Runnable<BaseLanguageModelInput, AIMessageChunk>

/** What a model says; of a stream, the whole. */
export async function say(model: Model, messages: BaseLanguageModelInput, streamed: boolean) {
  if (!streamed) return await model.invoke(messages)
  let whole = new AIMessageChunk({ content: "" })
  for await (const chunk of await model.stream(messages)) whole = whole.concat(chunk)
  return whole
}

/** Asks a model that has the tool of weather.ts, runs it, sends its result and gives the last answer's text. */
export async function useWeather(model: Model, streamed: boolean): Promise<string> {
  const question = new HumanMessage(PROMPT)
  const call = await say(model, [question], streamed)
  const [first] = call.tool_calls ?? []
  if (first === undefined) throw new Error("no tool was called")
  const result = await weather.invoke({ ...first, type: "tool_call" })
  return (await say(model, [question, call, result], streamed)).text
}

export const weather = tool(weatherIn, { name: NAME, description: DESCRIPTION, schema: PARAMETERS })

function settingsOf({ signal, headers }: CallOptions) {
  return { ...(signal && { signal }), ...(headers && { options: { headers } }) }
}

export function heard(message: AIMessageChunk | undefined): Heard {
  const { usage: raw }: { readonly usage?: unknown } = message?.response_metadata ?? {}
  return {
    text: message?.text ?? "",
    tokens: tokensOf(message?.usage_metadata),
    cost: Reflect.get(Object(raw), "cost"),
    request_id: null,
  }
}

function tokensOf(usage: UsageMetadata | undefined): Tokens | null {
  if (usage === undefined) return null
  const { input_tokens: prompt, output_tokens: completion, input_token_details: details } = usage
  return { prompt, completion, cached: details?.cache_read ?? 0 }
}
