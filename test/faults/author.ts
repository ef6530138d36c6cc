import {
  chatChunk,
  chatCompletion,
  type Exchange,
  embeddingList,
  json,
  READ_MS,
  type Script,
  sseEvent,
  usage,
  usageChunk,
} from "../support/provider.ts"
import type { Random } from "./random.ts"

/** Stands in prompts and in what the provider says of itself: no log, error or metric may hold it. */
export const CANARY = "canary-b81d07"

/** What the provider does with one call; the prompt says it. */
export interface Plan {
  readonly operation: "chat" | "embeddings"
  readonly stream: boolean
  /** Bytes of output, event by event. */
  readonly words: readonly number[]
  readonly gap_ms: number
  readonly usage: { readonly prompt: number; readonly cached: number; readonly completion: number } | null
  readonly fate: "whole" | "without [DONE]" | "reset" | "error event" | "usage first" | "refused" | "blank"
}

/** What the provider did, by its own records. */
export interface Said {
  readonly plan: Plan
  /** Whether it answered 2xx. */
  accepted: boolean
  /** Bytes of output after each event that was generated. */
  readonly output_bytes: number[]
  readonly prompt_bytes: number
  usage: boolean
}

export function draw(random: Random): Plan {
  const operation = random.chance(0.85) ? "chat" : "embeddings"
  const stream = operation === "chat" && random.chance(0.7)
  return {
    operation,
    stream,
    words: Array.from({ length: random.whole(1, 12) }, () => random.whole(1, 40)),
    gap_ms: random.pick([0, 0, 20, 80, 200]),
    usage: random.chance(0.85)
      ? { prompt: random.whole(1, 40), cached: random.whole(0, 1), completion: random.whole(1, 60) }
      : null,
    fate: stream
      ? random.pick([
          "whole",
          "whole",
          "whole",
          "whole",
          "whole",
          "without [DONE]",
          "reset",
          "error event",
          "usage first",
        ])
      : random.pick(["whole", "whole", "whole", "whole", "whole", "whole", "blank", "refused"]),
  }
}

export function promptOf(plan: Plan): string {
  return `${CANARY} ${JSON.stringify(plan)}`
}

/** A provider that does what prompts say and keeps its own records, by the call's id. */
export class Author {
  readonly said = new Map<string, Said>()
  /** Calls that came more than once. */
  readonly repeated: string[] = []

  readonly script: Script = async (exchange) => {
    const plan = planOf(exchange)
    const id = exchange.request.headers["x-request-id"] ?? ""
    if (this.said.has(id)) this.repeated.push(id)
    const said: Said = {
      plan,
      accepted: plan.fate !== "refused",
      output_bytes: [],
      prompt_bytes: Buffer.byteLength(JSON.stringify(promptIn(exchange))),
      usage: false,
    }
    this.said.set(id, said)
    if (plan.fate === "refused") await json(500, { error: { message: `${CANARY} is my key` } })(exchange)
    else if (plan.operation === "embeddings") await embed(exchange, said)
    else if (plan.stream) await stream(exchange, said)
    else await complete(exchange, said)
  }
}

function planOf(exchange: Exchange): Plan {
  const prompt = promptIn(exchange)
  const text = typeof prompt === "string" ? prompt : (prompt[0]?.content ?? "")
  return JSON.parse(text.slice(CANARY.length))
}

/** The messages of a chat completion, or the text to embed. */
function promptIn({ request }: Exchange): string | readonly { readonly content: string }[] {
  const body: { messages?: { content: string }[]; input?: string } = JSON.parse(request.body)
  return body.messages ?? body.input ?? ""
}

function usageOf({ usage: planned }: Plan) {
  return planned === null ? null : usage(planned.prompt, planned.completion, planned.cached)
}

async function complete(exchange: Exchange, said: Said): Promise<void> {
  const { plan } = said
  const bytes = plan.words.reduce((sum, word) => sum + word, 0)
  await Bun.sleep(plan.gap_ms * plan.words.length)
  if (plan.fate === "blank") return void (await json(200, "")(exchange))
  said.output_bytes.push(bytes)
  said.usage = plan.usage !== null
  await json(200, chatCompletion("x".repeat(bytes), { usage: usageOf(plan) }))(exchange)
}

async function embed(exchange: Exchange, said: Said): Promise<void> {
  const { plan } = said
  await Bun.sleep(plan.gap_ms * plan.words.length)
  if (plan.fate === "blank") return void (await json(200, "")(exchange))
  said.usage = plan.usage !== null
  const tokens = plan.usage && { prompt_tokens: plan.usage.prompt, total_tokens: plan.usage.prompt }
  await json(200, embeddingList(1, { usage: tokens }))(exchange)
}

async function stream(exchange: Exchange, said: Said): Promise<void> {
  const { plan } = said
  const { chunk } = exchange
  let bytes = 0
  await exchange.head(200, { "content-type": "text/event-stream" })
  const usage_first = plan.fate === "usage first" ? usageOf(plan) : null
  said.usage = usage_first !== null
  await chunk(sseEvent({ ...chatChunk({ role: "assistant", content: "" }), usage: usage_first }))
  for (const word of plan.words) {
    await Bun.sleep(plan.gap_ms)
    bytes += word
    said.output_bytes.push(bytes)
    if (!(await chunk(sseEvent(chatChunk({ content: "x".repeat(word) }))))) return
  }
  if (plan.fate === "reset") {
    await Bun.sleep(READ_MS)
    return exchange.reset()
  }
  if (plan.fate === "error event") {
    await chunk(sseEvent({ error: { message: "overloaded", type: "server_error" } }))
    return void (await exchange.end())
  }
  await chunk(sseEvent(chatChunk({}, "stop")))
  if (plan.usage !== null && plan.fate !== "usage first") {
    said.usage = true
    await chunk(sseEvent(usageChunk(usageOf(plan))))
  }
  if (plan.fate !== "without [DONE]") await chunk("data: [DONE]\n\n")
  await exchange.end()
}
