import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { chat } from "../operations/chat.ts"
import type { Gateway } from "../service/gateway.ts"
import { Count } from "../wire/admin.ts"
import { count, nullable, open, text } from "../wire/field.ts"
import { ChatRequest } from "../wire/requests.ts"
import { answering } from "./model-calls.ts"
import { answer, compatible, events, shown } from "./reference/operation.ts"
import { callErrors, ofCalls } from "./reference/routes.ts"

/** `POST /v1/chat/completions` and `/chat/completions` (spec 4.1). */
export function chatCompletions(gateway: Gateway) {
  const answers = answering(gateway, chat)
  return new Elysia({ name: "chat-completions" })
    .post("/v1/chat/completions", answers, creating)
    .post("/chat/completions", answers, compatible(creating, "createChatCompletionCompatible"))
}

/** Schemas of the provider's answers, for the reference only. The bytes pass unchanged, with all further fields (D24). */

export const chargedCost = Type.Optional(
  Type.Number({
    minimum: 0,
    description: "What the call was charged, in USD. Present if the request asked for it (`usage.include`).",
  }),
)

const Usage = open(
  {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    cost: chargedCost,
    prompt_tokens_details: Type.Optional(
      open({
        cached_tokens: count("The part of `prompt_tokens` that is charged at the cached price."),
      }),
    ),
  },
  "The usage that the call is charged for, if it is valid.",
)

const logprobs = Type.Optional(
  Type.Unknown({ description: "The log probabilities of the tokens, if the request asked for them." }),
)

const finish = { description: "Why the choice ended: `stop`, `length`, `tool_calls` or `content_filter`." }

const ChatCompletion = open({
  id: Type.String(),
  object: Type.Literal("chat.completion"),
  created: Type.Integer({ description: "Unix seconds." }),
  model: text("The provider's name of the model."),
  choices: Type.Array(
    Type.Object({
      index: Count,
      message: open({
        role: Type.Literal("assistant"),
        content: nullable(Type.String()),
        refusal: Type.Optional(nullable(Type.String())),
      }),
      logprobs,
      finish_reason: Type.String(finish),
    }),
  ),
  usage: Type.Optional(Usage),
})

const ChatCompletionChunk = open(
  {
    id: Type.String(),
    object: Type.Literal("chat.completion.chunk"),
    created: Type.Integer({ description: "Unix seconds." }),
    model: text("The provider's name of the model."),
    choices: Type.Array(
      Type.Object({
        index: Count,
        delta: open({
          role: Type.Optional(Type.Literal("assistant")),
          content: Type.Optional(nullable(Type.String())),
        }),
        logprobs,
        finish_reason: Type.Union([Type.String(finish), Type.Null()]),
      }),
      { description: "Empty in the chunk that carries the usage." },
    ),
    usage: Type.Optional(Type.Union([Usage, Type.Null()])),
  },
  "The data of one event. The data of the last event is the text `[DONE]`.",
)

const usage = {
  prompt_tokens: 14,
  completion_tokens: 3,
  total_tokens: 17,
  prompt_tokens_details: { cached_tokens: 8, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
}
const common = { id: "chatcmpl-8f2c", created: 1_763_712_000, model: "gpt-5-mini-2025-08-07" }
const messages = [{ role: "user", content: "Say hello." }]

const completion = {
  ...common,
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "Hello there!", refusal: null },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage,
}

const completionWithCost = { ...completion, usage: { ...usage, cost: 0.0000077 } }

const chunk = (delta: object, finish_reason: string | null = null) => ({
  ...common,
  object: "chat.completion.chunk",
  usage: null,
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
})

/** The events of the example stream, without `[DONE]`. */
const exampleChunks = [
  chunk({ role: "assistant", content: "", refusal: null }),
  chunk({ content: "Hello" }),
  chunk({ content: " there!" }),
  chunk({}, "stop"),
  { ...common, object: "chat.completion.chunk", choices: [], usage },
]

const exampleStream = `${exampleChunks.map((data) => `data: ${JSON.stringify(data)}\n\n`).join("")}data: [DONE]\n\n`

const description = `Holds the most that the call can cost, sends it to the first of the model's providers that answers, charges it once by the
rules above, and frees the rest of the hold.

- Fields that are not listed are passed to the provider unchanged.
- With \`"stream": true\` the response is a stream of events. The gateway sends the status as soon as the provider answers 2xx. An error
  after that is the last event of the stream, \`data: {"error": …}\`, and no \`[DONE]\` follows.
- Ignore lines that start with a colon, such as \`: keepalive\`: they are comments.
- A stream that ends without usage and without output is an empty 200. It is not charged.
- Disconnecting early does not make a call free: what the provider delivered until then is charged.
- A 402 states the amount to hold, the amount available, and the largest \`max_tokens\` that fits.
- With \`"usage": {"include": true}\` the usage in the response has a \`cost\`: the charge of the call, the same as in its receipt. A stream
  then ends with a usage chunk. A response without valid usage has no cost.
- With an \`Idempotency-Key\` the call is made and charged only once within 24 hours, even if several gateways receive it. A repeat gets a
  400 that names the call; its receipt has the outcome. If the operator keeps responses, a repeat gets the same JSON response again.`

const creating = ofCalls({
  body: shown(ChatRequest, {
    JSON: { model: "gpt-5-mini", messages },
    Stream: { model: "gpt-5-mini", messages, stream: true, stream_options: { include_usage: true } },
    "With cost": { model: "gpt-5-mini", messages, usage: { include: true } },
    "With max_completion_tokens, for a smaller hold": {
      model: "gpt-5-mini",
      messages,
      max_completion_tokens: 200,
    },
  }),
  response: {
    200: answer(
      "The provider's response: JSON, or events if the request sets `stream`. Unchanged, except for the cost if the request asked for it.",
      Type.Union([
        shown(ChatCompletion, { Completion: completion, "With cost": completionWithCost }),
        events(ChatCompletionChunk, exampleStream),
      ]),
    ),
  },

  operationId: "createChatCompletion",
  summary: "Create a chat completion",
  description,
  invalid: "messages",
  errors: callErrors({
    needed: "0.016394",
    available: "0.0021",
    remaining: "0.0021",
    fitting: { limit_field: "max_tokens", max_tokens: 1045 },
  }),
})
