import { AIMessageChunk, HumanMessage, type UsageMetadata } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import {
  type Client,
  type Heard,
  MUTE,
  PROMPT,
  type Session,
  type StreamOptions,
  versionOf,
} from "./client.ts"
import { DESCRIPTION, NAME, PARAMETERS, weatherIn } from "./weather.ts"

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
      (usage) =>
        new ChatOpenAI({
          model: changes.model ?? cell.model,
          apiKey: changes.key ?? cell.key,
          configuration: { baseURL: `${cell.url}/v1` },
          maxRetries: REPEATS,
          streamUsage: usage,
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

function session(modelWith: (usage: boolean) => ChatOpenAI): Session {
  return {
    ...MUTE,
    async chat(signal) {
      const { text, usage_metadata } = await modelWith(true).invoke(PROMPT, { ...(signal && { signal }) })
      return heard(text, usage_metadata)
    },
    async stream({ usage = false, signal, onText }: StreamOptions = {}) {
      const stream = await modelWith(usage).stream(PROMPT, { ...(signal && { signal }) })
      let whole: AIMessageChunk | undefined
      for await (const chunk of stream) {
        whole = whole?.concat(chunk) ?? chunk
        if (chunk.text !== "") onText?.(chunk.text)
      }
      return heard(whole?.text ?? "", whole?.usage_metadata)
    },
    async useTool(streamed) {
      const model = modelWith(true).bindTools([weather])
      const ask = async (messages: Parameters<typeof model.invoke>[0]) => {
        if (!streamed) return await model.invoke(messages)
        let whole = new AIMessageChunk({ content: "" })
        for await (const chunk of await model.stream(messages)) whole = whole.concat(chunk)
        return whole
      }
      const question = new HumanMessage(PROMPT)
      const call = await ask([question])
      const [first] = call.tool_calls ?? []
      if (first === undefined) throw new Error("no tool was called")
      const result = await weather.invoke({ ...first, type: "tool_call" })
      return (await ask([question, call, result])).text
    },
  }
}

const weather = tool(weatherIn, { name: NAME, description: DESCRIPTION, schema: PARAMETERS })

function heard(text: string, usage: UsageMetadata | undefined): Heard {
  const tokens = usage && {
    prompt: usage.input_tokens,
    completion: usage.output_tokens,
    cached: usage.input_token_details?.cache_read ?? 0,
  }
  return { text, tokens: tokens ?? null, request_id: null }
}
