import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import {
  generateText,
  isStepCount,
  jsonSchema,
  type LanguageModelUsage,
  RetryError,
  streamText,
  tool,
} from "ai"
import {
  type CallOptions,
  type Client,
  type Heard,
  MUTE,
  PROMPT,
  type Session,
  type StreamOptions,
  versionOf,
  WITH_COST,
} from "./client.ts"
import { DESCRIPTION, NAME, PARAMETERS, weatherIn } from "./weather.ts"

const PROVIDER = "tollgate"

/** The AI SDK, with its provider for whoever speaks like OpenAI. */
export const AI: Client = {
  name: `ai ${await versionOf("ai")}`,
  family: "chat",
  connect(cell, changes = {}) {
    const provider = (includeUsage: boolean) =>
      createOpenAICompatible({
        name: PROVIDER,
        baseURL: `${cell.url}/v1`,
        apiKey: changes.key ?? cell.key,
        includeUsage,
      })
    return session((usage) => provider(usage)(changes.model ?? cell.model))
  },
  shows: {
    status: "error.statusCode",
    code: "error.data.error.code",
    type: "error.data.error.type",
    message: "error.message",
    "request id": 'error.responseHeaders["x-request-id"]',
  },
  named: (thrown) => ({ error: RetryError.isInstance(thrown) ? thrown.lastError : thrown }),
  repeats: { times: 2, by_default: "2 times (`maxRetries`)" },
  obeys_should_retry: false,
  repeats_bare_429: true,
  lacks: { models: "it has no list of models", count: "it has no counts" },
}

type Model = ReturnType<ReturnType<typeof createOpenAICompatible>>

function session(modelWith: (usage: boolean) => Model): Session {
  return {
    ...MUTE,
    async chat(options = {}) {
      const { text, usage, response } = await generateText({
        model: modelWith(true),
        prompt: PROMPT,
        ...settingsOf(options),
      })
      return heard(text, usage, response.headers)
    },
    async stream({ usage = false, onText, ...options }: StreamOptions = {}) {
      let complaint: unknown
      const result = streamText({
        model: modelWith(usage),
        prompt: PROMPT,
        onError: ({ error }) => {
          complaint = error
        },
        ...settingsOf(options),
      })
      let text = ""
      for await (const piece of result.textStream) {
        text += piece
        onText?.(piece)
      }
      if (complaint !== undefined || options.signal?.aborted) return { ...heard(text, undefined), complaint }
      return heard(text, await result.usage, (await result.response).headers)
    },
    async useTool(streamed) {
      const ask = { model: modelWith(true), ...WITH_WEATHER }
      return streamed ? await streamText(ask).text : (await generateText(ask)).text
    },
  }
}

/** Asks with the tool of weather.ts, and runs it. */
export const WITH_WEATHER = {
  prompt: PROMPT,
  tools: {
    [NAME]: tool({
      description: DESCRIPTION,
      inputSchema: jsonSchema<{ city: string }>(PARAMETERS),
      execute: async (input) => weatherIn(input),
    }),
  },
  stopWhen: isStepCount(2),
}

/** What is not its own goes to the provider under its name. */
function settingsOf({ signal, headers, cost }: CallOptions) {
  return {
    ...(signal && { abortSignal: signal }),
    ...(headers && { headers }),
    ...(cost && { providerOptions: { [PROVIDER]: WITH_COST } }),
  }
}

export function heard(
  text: string,
  usage: LanguageModelUsage | undefined,
  headers?: Record<string, string>,
): Heard {
  const { inputTokens: prompt, outputTokens: completion, inputTokenDetails: details } = usage ?? {}
  return {
    text,
    tokens:
      prompt === undefined || completion === undefined
        ? null
        : { prompt, completion, cached: details?.cacheReadTokens ?? 0 },
    cost: usage?.raw?.cost,
    request_id: headers?.["x-request-id"] ?? null,
  }
}
