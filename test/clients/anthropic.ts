import Anthropic from "@anthropic-ai/sdk"
import { type Client, MUTE, PROMPT, type Session, versionOf } from "./client.ts"

const MESSAGES = "its calls are messages, which the tables below show"

export const ANTHROPIC: Client = {
  name: `@anthropic-ai/sdk ${await versionOf("@anthropic-ai/sdk")}`,
  family: "messages",
  connect: (cell, changes = {}) =>
    session(
      new Anthropic({ apiKey: changes.key ?? cell.key, baseURL: cell.url }),
      changes.model ?? cell.counter,
    ),
  shows: {
    status: "error.status",
    code: "error.error.error.code",
    type: "error.type",
    message: "error.message",
    "request id": "error.requestID",
  },
  repeats: { times: 2, by_default: "2 times (`maxRetries`)" },
  obeys_should_retry: true,
  repeats_bare_429: true,
  lacks: { chat: MESSAGES, stream: MESSAGES, useTool: MESSAGES },
}

function session(client: Anthropic, model: string): Session {
  return {
    ...MUTE,
    async models() {
      const listed = await Array.fromAsync(client.models.list())
      return await Promise.all(listed.map(async ({ id }) => (await client.models.retrieve(id)).id))
    },
    async count() {
      const { input_tokens } = await client.messages.countTokens({
        model,
        messages: [{ role: "user", content: PROMPT }],
      })
      return input_tokens
    },
  }
}
