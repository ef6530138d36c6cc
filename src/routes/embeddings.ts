import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { embeddings } from "../operations/embeddings.ts"
import type { Gateway } from "../service/gateway.ts"
import { Count } from "../wire/admin.ts"
import { count, open, text } from "../wire/field.ts"
import { EmbeddingsRequest } from "../wire/requests.ts"
import { chargedCost } from "./chat-completions.ts"
import { answering } from "./model-calls.ts"
import { answer, compatible, shown } from "./reference/operation.ts"
import { callErrors, ofCalls } from "./reference/routes.ts"

/** `POST /v1/embeddings` and `/embeddings` (D67). */
export function embeddingCalls(gateway: Gateway) {
  const answers = answering(gateway, embeddings)
  return new Elysia({ name: "embeddings" })
    .post("/v1/embeddings", answers, creating)
    .post("/embeddings", answers, compatible(creating, "createEmbeddingsCompatible"))
}

/** Schemas of the provider's answers, for the reference only. The bytes pass unchanged, with all further fields (D24). */
const Embeddings = open({
  object: Type.Literal("list"),
  data: Type.Array(
    open({
      object: Type.Literal("embedding"),
      index: count("The place of its input in the request."),
      embedding: Type.Union([Type.Array(Type.Number()), Type.String()], {
        description: "The vector: numbers, or with `base64` the text of their bytes.",
      }),
    }),
  ),
  model: text("The provider's name of the model."),
  usage: Type.Optional(
    open(
      {
        prompt_tokens: Count,
        total_tokens: Count,
        cost: chargedCost,
      },
      "The usage that the call is charged for, if it is valid.",
    ),
  ),
})

const list = {
  object: "list",
  data: [{ object: "embedding", index: 0, embedding: [0.0023, -0.0093, 0.0157] }],
  model: "text-embedding-3-small",
  usage: { prompt_tokens: 5, total_tokens: 5 },
}

const model = "text-embedding-3-small"

const description = `Holds the most that the input can cost, sends the request to the first of the model's providers that answers, charges the
tokens of the input, and frees the rest of the hold.

- Fields that are not listed are passed to the provider unchanged.
- The input is text, a list of texts, a list of tokens, or a list of such lists. Text holds one token for each byte, and a list of tokens holds its count.
- There is no output to pay for. A successful response without valid usage is charged for an estimate of its input.
- With \`"usage": {"include": true}\` the usage in the response has a \`cost\`: the charge of the call, the same as in its receipt.
- With an \`Idempotency-Key\` the call is made and charged only once within 24 hours, even if several gateways receive it.`

const creating = ofCalls({
  body: shown(EmbeddingsRequest, {
    Text: { model, input: "The food was delicious." },
    "Several texts": { model, input: ["The food was delicious.", "The waiter was friendly."] },
    "Shorter vectors as base64": {
      model,
      input: "The food was delicious.",
      dimensions: 256,
      encoding_format: "base64",
    },
    "With cost": { model, input: "The food was delicious.", usage: { include: true } },
    Tokens: { model, input: [791, 3691, 574, 18406] },
  }),
  response: {
    200: answer(
      "The provider's response, unchanged, except for the cost if the request asked for it.",
      shown(Embeddings, {
        Embeddings: list,
        Base64: { ...list, data: [{ object: "embedding", index: 0, embedding: "AAAAPwAAgL4=" }] },
        "With cost": { ...list, usage: { ...list.usage, cost: 0.0000001 } },
      }),
    ),
  },

  operationId: "createEmbeddings",
  summary: "Create embeddings",
  description,
  invalid: "input",
  errors: callErrors({ needed: "0.0000005", available: "0", remaining: "0.0000001", fitting: null }),
})
