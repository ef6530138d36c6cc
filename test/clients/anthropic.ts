import Anthropic from "@anthropic-ai/sdk"
import { type Client, MUTE, PROMPT, type Session, versionOf } from "./client.ts"

const MESSAGES = "its calls are messages, which the tables below show"

type Kind = typeof Anthropic

/** The previous major. Whether it has what is used here, the tests themselves say. */
const previous: unknown = (await import("@anthropic-ai/sdk-0")).default
if (!isAnthropic(previous)) throw new Error("@anthropic-ai/sdk-0 exports no client")

export const ANTHROPIC: readonly Client[] = [
  anthropic(`@anthropic-ai/sdk ${await versionOf("@anthropic-ai/sdk")}`, Anthropic),
  anthropic(`@anthropic-ai/sdk ${await versionOf("@anthropic-ai/sdk-0")}`, previous),
]

function isAnthropic(value: unknown): value is Kind {
  return typeof value === "function" && value.name === "Anthropic"
}

function anthropic(name: string, kind: Kind): Client {
  return {
    name,
    family: "messages",
    connect: (cell, changes = {}) =>
      session(
        new kind({ apiKey: changes.key ?? cell.key, baseURL: cell.url }),
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

/** One of each major, for what only this package has. */
export function anthropicsAt(baseURL: string, apiKey: string): readonly Anthropic[] {
  return [Anthropic, previous].filter(isAnthropic).map((kind) => new kind({ baseURL, apiKey }))
}
