import { GatewayError } from "../errors.ts"
import { tokensOf } from "./tokens.ts"

/** The answers of the demo's models: a fact about Tollgate, selected by the words of the question. Deterministic. */

interface Topic {
  readonly words: RegExp
  readonly short: string
  readonly long: string
}

const TOPICS: readonly [Topic, ...Topic[]] = [
  {
    words: /\b(tollgate|gateway|what are you|who are you)\b/i,
    short:
      "Tollgate is a gateway between your programs and the model providers: one address, one set of keys, and a ledger that charges every call exactly once.",
    long: "Programs keep their SDKs and change only the base URL. Operators manage accounts, keys, prices and providers in one place, and an audit recomputes every balance from the journal.",
  },
  {
    words: /\b(reserv\w*|holds?|held|settle\w*|release\w*)\b/i,
    short:
      "A reservation, or hold, is money set aside before a call is sent: the most that the call can cost. When the call ends, it is settled once, by the usage that the provider reported, and the rest is freed.",
    long: "This is why fifty concurrent calls cannot overspend a balance that is enough for three: the fourth hold does not fit, and its call is refused before it reaches a provider.",
  },
  {
    words:
      /\b(bill\w*|costs?|prices?|pric\w+|charge\w*|money|pay\w*|usd|dollars?|balance|credits?|budget)\b/i,
    short:
      "Money is counted in whole nano-dollars: tokens times their price, exact until the end, and rounded up once per call.",
    long: "Cached prompt tokens have their own price and are part of the prompt, not added to it. If a provider reports no usage, the charge is an estimate of the output, and an empty stream is free.",
  },
  {
    words: /\b(stream\w*|sse|events?|latency|fast|slow)\b/i,
    short:
      "While you read this, the gateway passes on each event as the provider sent it: whole, unchanged and without delay.",
    long: "A slow reader slows down the provider instead of filling memory, keepalive comments keep idle connections open, and the last event is sent when the charge is in the ledger.",
  },
  {
    words: /\b(crash\w*|kill\w*|fail\w*|disconnect\w*|lost|los[es]+|safe\w*|durab\w*|restart\w*)\b/i,
    short:
      "When a gateway crashes during a stream, its lease expires, another process charges its calls by their last checkpoint, and frees the rest of their holds.",
    long: "When a client disconnects, its request to the provider is cancelled, and the output until then is charged. When the database is down, streams continue, and their settlements wait on disk.",
  },
  {
    words: /\b(keys?|auth\w*|secrets?|credentials?|tokens?)\b/i,
    short:
      "A key is shown only once, and only its hash is stored. Revoking it affects the next request, because the statement that holds the money also checks the key.",
    long: "A key can be limited to some models and can expire. Providers never see it: they get the gateway's own credential.",
  },
  {
    words: /\b(sdks?|openai|anthropic|clients?|curl|apis?|python|javascript|typescript)\b/i,
    short:
      "Any OpenAI SDK works with this address plus /v1 as its base URL. The Anthropic SDK and Claude Code work with the address alone.",
    long: "Errors and the model list have a shape that both SDK families can read. The API reference is at /docs.",
  },
]

export type DemoSize = "small" | "large"

const STYLES: Readonly<Record<string, DemoSize>> = { "demo-small": "small", "demo-large": "large" }

export const chatModels = Object.keys(STYLES)

/** The style of a model. Throws a `DemoError` if the demo does not have the model. */
export function styleOf(model: string): DemoSize {
  const style = Object.hasOwn(STYLES, model) ? STYLES[model] : undefined
  if (style !== undefined) return style
  throw unknownModel(model)
}

export function unknownModel(model: string): DemoError {
  const message = `The model ${JSON.stringify(model.slice(0, 100))} does not exist.`
  return new DemoError(404, "invalid_request_error", message, { code: "model_not_found", param: "model" })
}

const MAX_ECHO_CHARS = 160

/** The answer to `question`. Each further choice of a call has another topic. */
function answer(question: string, style: DemoSize, choice: number): string {
  const topic = topicOf(question, choice)
  const quoted = echo(question)
  if (style === "small") return `You asked: “${quoted}” ${topic.short}`
  return [
    `You asked: “${quoted}” Here is the longer answer.`,
    topic.short,
    topic.long,
    "One more thing: no model wrote this. The demo has a simulated provider in the gateway's process, which counts its tokens and reports them like a real one. The charge is real: look up the call by its x-request-id.",
  ].join("\n\n")
}

/** The answer to `question` in at most `limit` tokens. */
export function cutAnswer(question: string, style: DemoSize, choice: number, limit: number) {
  const whole = tokensOf(answer(question, style, choice))
  const tokens = whole.slice(0, limit)
  return { text: tokens.join(""), tokens: tokens.length, is_cut: tokens.length < whole.length }
}

function topicOf(question: string, choice: number): Topic {
  const found = TOPICS.findIndex(({ words }) => words.test(question))
  return TOPICS[(Math.max(found, 0) + choice) % TOPICS.length] ?? TOPICS[0]
}

function echo(question: string): string {
  const line = question.replace(/\s+/g, " ").trim()
  const chars = Array.from(line.slice(0, 2 * MAX_ECHO_CHARS))
  return chars.length > MAX_ECHO_CHARS ? `${chars.slice(0, MAX_ECHO_CHARS).join("")}…` : line
}

/** The answer to a call: one body, or the events of a stream in bursts. */
export type DemoAnswer = { readonly json: object } | { readonly bursts: string[] }

/** The body of a call as the gateway parses it. Throws a `DemoError` if it has a fault. */
export function checked<Call>(parse: (body: unknown) => Call, body: unknown): Call {
  try {
    return parse(body)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    throw new DemoError(400, "invalid_request_error", error.message, { param: error.detail.param ?? null })
  }
}

export function wordsOf(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+$/gu) ?? []
}

export class DemoError extends Error {
  override readonly name = "Refusal"
  readonly status: number
  readonly error: Readonly<Record<"message" | "type", string> & Record<"param" | "code", string | null>>

  constructor(status: number, type: string, message: string, more: Partial<DemoError["error"]> = {}) {
    super(message)
    this.status = status
    this.error = { message, type, param: null, code: null, ...more }
  }
}
