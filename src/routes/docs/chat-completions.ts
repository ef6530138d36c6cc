import { Type } from "@sinclair/typebox"
import { ChatRequest } from "../../wire/chat.ts"
import { type Fault, operation, type Parameter, REQUEST_ID } from "../openapi.ts"

/** What providers send. Described for readers: the bytes pass unchanged, further fields included (D24). */

const Usage = Type.Object(
  {
    prompt_tokens: Type.Integer({ minimum: 0 }),
    completion_tokens: Type.Integer({ minimum: 0 }),
    total_tokens: Type.Integer({ minimum: 0 }),
    cost: Type.Optional(
      Type.Number({
        minimum: 0,
        description: "USD that the call was charged, where the request asked for it (`usage.include`).",
      }),
    ),
    prompt_tokens_details: Type.Optional(
      Type.Object(
        {
          cached_tokens: Type.Integer({
            minimum: 0,
            description: "Part of `prompt_tokens`, at the cached price.",
          }),
        },
        { additionalProperties: true },
      ),
    ),
  },
  { additionalProperties: true, description: "What the call is charged by, where it is valid." },
)

const logprobs = Type.Optional(
  Type.Unknown({ description: "The probabilities of the tokens, where they were asked for." }),
)

const finish = { description: "Why the choice ended: `stop`, `length`, `tool_calls`, `content_filter`." }

const ChatCompletion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("chat.completion"),
    created: Type.Integer({ description: "Unix seconds." }),
    model: Type.String({ description: "The provider's own name of the model." }),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer({ minimum: 0 }),
        message: Type.Object(
          {
            role: Type.Literal("assistant"),
            content: Type.Union([Type.String(), Type.Null()]),
            refusal: Type.Optional(Type.Union([Type.String(), Type.Null()])),
          },
          { additionalProperties: true },
        ),
        logprobs,
        finish_reason: Type.String(finish),
      }),
    ),
    usage: Type.Optional(Usage),
  },
  { additionalProperties: true },
)

const ChatCompletionChunk = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("chat.completion.chunk"),
    created: Type.Integer({ description: "Unix seconds." }),
    model: Type.String({ description: "The provider's own name of the model." }),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer({ minimum: 0 }),
        delta: Type.Object(
          {
            role: Type.Optional(Type.Literal("assistant")),
            content: Type.Optional(Type.Union([Type.String(), Type.Null()])),
          },
          { additionalProperties: true },
        ),
        logprobs,
        finish_reason: Type.Union([Type.String(finish), Type.Null()]),
      }),
      { description: "Empty in the chunk that carries the usage." },
    ),
    usage: Type.Optional(Type.Union([Usage, Type.Null()])),
  },
  {
    additionalProperties: true,
    description: "The data of one event; the last event's data is the text `[DONE]` instead.",
  },
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
export const exampleChunks = [
  chunk({ role: "assistant", content: "", refusal: null }),
  chunk({ content: "Hello" }),
  chunk({ content: " there!" }),
  chunk({}, "stop"),
  { ...common, object: "chat.completion.chunk", choices: [], usage },
]

const exampleStream = `${exampleChunks.map((data) => `data: ${JSON.stringify(data)}\n\n`).join("")}data: [DONE]\n\n`

const errors: readonly Fault[] = [
  {
    code: "invalid_request",
    message: "`messages`: expected an array of 1 to 4096 messages.",
    param: "messages",
  },
  {
    code: "idempotency_key_used",
    message: `This Idempotency-Key stands for an earlier call: ${REQUEST_ID}; its receipt tells the outcome.`,
    fields: { call: REQUEST_ID },
  },
  {
    code: "idempotency_key_reused",
    message: `This Idempotency-Key stands for an earlier call with another body: ${REQUEST_ID}; its receipt tells the outcome.`,
    fields: { call: REQUEST_ID },
  },
  "invalid_api_key",
  {
    code: "insufficient_balance",
    message:
      "The call must hold 0.016394 USD, and 0.0021 USD are available; it would fit with max_tokens of at most 1045.",
    fields: { needed: "0.016394", available: "0.0021", max_tokens: 1045 },
  },
  {
    code: "spending_limit_reached",
    message:
      "The call must hold 0.016394 USD, and 0.0021 USD are left of what the key may spend this day; it would fit with max_tokens of at most 1045.",
    fields: { needed: "0.016394", remaining: "0.0021", max_tokens: 1045 },
  },
  "account_suspended",
  "key_suspended",
  "model_not_allowed",
  "model_not_found",
  { code: "not_found", message: "The provider does not know what this request names." },
  "request_timeout",
  "request_too_large",
  "unsupported_media_type",
  "rate_limited",
  "usage_missing",
  "usage_invalid",
  "response_too_large",
  "upstream_error",
  "upstream_unavailable",
  "overloaded",
  "ledger_unavailable",
  "upstream_timeout",
]

const description = `Holds the most the call can cost, relays it to the first of the model's providers that answers, charges it once by the rules
above, and releases the rest of the hold.

- Fields that are not listed reach the provider unchanged.
- With \`"stream": true\` the answer is a stream of events. The status is sent as soon as the provider has answered 2xx; an error after
  that is the stream's last event, \`data: {"error": …}\`, and no \`[DONE]\` follows it.
- Lines that start with a colon, such as \`: keepalive\`, are comments to be ignored.
- A stream that ends without usage and without output is an empty 200: nothing is charged.
- Leaving before the end does not make a call free: what the provider delivered until then is charged.
- A 402 says what would have to be held, what is available, and the largest \`max_tokens\` that would fit.
- With \`"usage": {"include": true}\` the usage of the answer tells what the call was charged, as \`cost\`, exactly as its receipt does; a stream
  then ends with a chunk of its usage. An answer without valid usage tells no cost.
- With an \`Idempotency-Key\` the call is made and charged once, however often and wherever it is asked for within 24 hours; a repeat is a
  400 that names the call, whose receipt tells the outcome. Where the operator keeps answers, a JSON answer is told again.`

const idempotencyKey: Parameter = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "A name of this call that the client makes up, such as a UUID, so that it may be sent again safely (D43).",
  schema: { type: "string", minLength: 1, maxLength: 255 },
}

const chatCompletion = (operationId: string, summary: string) =>
  operation({
    operationId,
    tag: "Calls",
    summary,
    description,
    credentials: ["apiKey"],
    parameters: [idempotencyKey],
    body: {
      schema: ChatRequest,
      examples: {
        JSON: { model: "gpt-5-mini", messages },
        Stream: { model: "gpt-5-mini", messages, stream: true, stream_options: { include_usage: true } },
        "With its cost": { model: "gpt-5-mini", messages, usage: { include: true } },
        "With a bound, so that less is held": { model: "gpt-5-mini", messages, max_completion_tokens: 200 },
      },
    },
    answers: {
      200: {
        description:
          "The provider's answer, unchanged but for a cost that was asked for: JSON, or events when the request says `stream`.",
        json: {
          schema: ChatCompletion,
          examples: { Completion: completion, "With its cost": completionWithCost },
        },
        events: { schema: ChatCompletionChunk, example: exampleStream },
      },
    },
    errors,
  })

export const createChatCompletion = chatCompletion("createChatCompletion", "Make a chat completion")

export const createChatCompletionCompatible = chatCompletion(
  "createChatCompletionCompatible",
  "Make a chat completion (compatible path)",
)
