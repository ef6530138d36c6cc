import { printUsd } from "../../src/money.ts"
import { type Sides, type Stage, testStage } from "../http/sides.ts"
import { PROVIDER_KEY } from "../support/gateway.ts"
import { json, type Script, sse } from "../support/provider.ts"

/** A whole gateway in front of a scripted provider, with models for the cases of wrong quantities. */

/** In USD for 1M tokens: 2,500, 250, 3,125, 10,000 and 30,000 nano-USD a token. */
export const CASE_PRICE = {
  input: "2.50",
  cached_input: "0.25",
  cache_write: "3.125",
  output: "10.00",
  image_output: "30.00",
}
export const CONTEXT_TOKENS = 1_000_000
export const MAX_OUTPUT_TOKENS = 65_536

export type OperationName = "chat" | "responses" | "messages" | "embeddings"

const PATHS: Readonly<Record<OperationName, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  embeddings: "/v1/embeddings",
}

export function testCases(): Promise<Stage> {
  return testStage((url) => {
    const model = (name: string, use: string, fields: object = {}) => ({
      name,
      family: use === "claude" ? "messages" : "chat",
      upstreams: [{ use }],
      price: CASE_PRICE,
      context_tokens: CONTEXT_TOKENS,
      max_output_tokens: MAX_OUTPUT_TOKENS,
      ...fields,
    })
    const { image_output, ...without_images } = CASE_PRICE
    return {
      stream: { keepalive: "60s", commit_after: "60s", stall: "30s" },
      upstreams: {
        openai: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY },
        gemini: { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY, usage: "gemini" },
        claude: { family: "messages", base_url: url, api_key: PROVIDER_KEY },
      },
      models: [
        model("default", "openai"),
        model("gemini", "gemini"),
        model("claude", "claude"),
        model("without-images", "openai", { price: without_images }),
        model("odd-price", "openai", { price: { input: "0.0004", output: "0.0003" } }),
        model("with-tools", "openai", {
          price: {
            ...CASE_PRICE,
            cached_audio_input: "0.40",
            audio_input: "40.00",
            web_search: "0.01",
          },
        }),
      ],
    }
  })
}

/** Answers with a JSON object, or with the events of a stream: `"[DONE]"` ends one, an object with a type has its name. */
export function scriptOf(answer: unknown, stream: readonly unknown[] | undefined): Script {
  if (stream === undefined) return json(200, answer)
  return sse(stream.map(eventText), { done: false })
}

function eventText(event: unknown): string {
  if (event === "[DONE]") return "data: [DONE]\n\n"
  const named = typeof event === "object" && event !== null && "type" in event ? `event: ${event.type}\n` : ""
  return `${named}data: ${JSON.stringify(event)}\n\n`
}

export interface CaseCall {
  readonly operation?: OperationName
  readonly model?: string
  /** Of the request. */
  readonly body: object
  readonly script?: Script
  readonly usd?: string
}

export function callOf({ operation = "chat", model = "default", body, script, usd = "100" }: CaseCall) {
  return {
    ...(script !== undefined && { script }),
    body: { model: operation === "messages" ? "claude" : model, ...body },
    usd,
    sending: {
      path: PATHS[operation],
      ...(operation === "messages" && { headers: { "anthropic-version": "2023-06-01" } }),
    },
  }
}

const NANO = { input: 2_500, cached: 250, written: 3_125, output: 10_000, images: 30_000 }
const KINDS = ["input", "cached", "written", "output", "images"] as const

/** What was charged, in USD: tokens at the prices of `CASE_PRICE`. */
export function cost(tokens: Readonly<Partial<Record<keyof typeof NANO, number>>>): string {
  let nano = 0
  for (const kind of KINDS) nano += NANO[kind] * (tokens[kind] ?? 0)
  return printUsd(BigInt(nano))
}

export function recordOf({ call, answer }: Sides): object {
  const { charge, notes, state } = call
  return answer.status === 200 ? { charge, notes, state } : { status: answer.status, charge, notes, state }
}
