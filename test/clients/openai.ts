import OpenAI from "openai"
import {
  type Client,
  MUTE,
  PROMPT,
  type Session,
  type StreamOptions,
  versionOf,
  WITH_COST,
} from "./client.ts"
import { DESCRIPTION, NAME, PARAMETERS, weatherIn } from "./weather.ts"

const weather = {
  type: "function" as const,
  function: {
    name: NAME,
    description: DESCRIPTION,
    parameters: PARAMETERS,
    parse: (text: string): unknown => JSON.parse(text),
    function: weatherIn,
  },
}

export const OPENAI: Client = {
  name: `openai ${await versionOf("openai")}`,
  family: "chat",
  connect: (cell, changes = {}) =>
    session(
      new OpenAI({ apiKey: changes.key ?? cell.key, baseURL: `${cell.url}/v1` }),
      changes.model ?? cell.model,
    ),
  shows: {
    status: "error.status",
    code: "error.code",
    type: "error.type",
    message: "error.message",
    "request id": "error.requestID",
  },
  repeats: { times: 2, by_default: "2 times (`maxRetries`)" },
  obeys_should_retry: true,
  repeats_bare_429: true,
  lacks: { count: "counts belong to the other family" },
}

function session(client: OpenAI, model: string): Session {
  const messages = [{ role: "user" as const, content: PROMPT }]
  return {
    ...MUTE,
    async chat({ cost, ...options } = {}) {
      const completion = await client.chat.completions.create(
        { model, messages, ...(cost && WITH_COST) },
        options,
      )
      return heard(
        completion.choices[0]?.message.content ?? "",
        completion.usage,
        completion._request_id ?? null,
      )
    },
    async stream({ usage = false, cost, onText, ...options }: StreamOptions = {}) {
      const { data, request_id } = await client.chat.completions
        .create(
          {
            model,
            messages,
            stream: true,
            ...(usage && { stream_options: { include_usage: true } }),
            ...(cost && WITH_COST),
          },
          options,
        )
        .withResponse()
      let text = ""
      let last: OpenAI.CompletionUsage | null | undefined
      for await (const { choices, usage } of data) {
        last = usage ?? last
        const piece = choices[0]?.delta.content ?? ""
        text += piece
        if (piece !== "") onText?.(piece)
      }
      return heard(text, last, request_id)
    },
    async useTool(streamed) {
      const ask = { model, messages, tools: [weather] }
      const { completions } = client.chat
      const runner = streamed ? completions.runTools({ ...ask, stream: true }) : completions.runTools(ask)
      return (await runner.finalContent()) ?? ""
    },
    async models() {
      const listed = await Array.fromAsync(client.models.list())
      return await Promise.all(listed.map(async ({ id }) => (await client.models.retrieve(id)).id))
    },
  }
}

function heard(text: string, usage: OpenAI.CompletionUsage | null | undefined, request_id: string | null) {
  if (!usage) return { text, tokens: null, request_id }
  const { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: details } = usage
  const tokens = { prompt, completion, cached: details?.cached_tokens ?? 0 }
  return { text, tokens, cost: Reflect.get(usage, "cost"), request_id }
}
