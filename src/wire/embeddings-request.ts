import { type Static, Type } from "@sinclair/typebox"
import { ModelName, parserOf, UsageOption } from "./chat-request.ts"
import { EXPECTED } from "./fault.ts"
import { checked, passed } from "./field.ts"

const Token = Type.Integer({ minimum: 0 })
const Tokens = Type.Array(Token, { minItems: 1 })

const Input = Type.Union(
  [Type.String(), Type.Array(Type.String(), { minItems: 1 }), Tokens, Type.Array(Tokens, { minItems: 1 })],
  {
    description: "The text to embed, a list of texts, a list of tokens, or a list of such lists.",
    examples: ["The food was delicious."],
    [EXPECTED]: "a string, a list of strings, a list of token numbers, or a list of such lists, not empty",
  },
)

/** The body of an embeddings call: what the gateway reads of it; every other field passes upstream (D18, D67). */
export const EmbeddingsRequest = Type.Object(
  {
    model: ModelName,
    input: Input,
    encoding_format: passed("The form of the vectors: `float` or `base64`.", "float"),
    dimensions: passed("The length of the vectors, if the model can choose it.", 256),
    usage: UsageOption,
    stream: checked(
      Type.Literal(false),
      "Embeddings are not streamed.",
      "false or null, because embeddings are not streamed",
    ),
  },
  {
    additionalProperties: true,
    description: "An embeddings request. Fields that are not listed are passed to the provider unchanged.",
    examples: [{ model: "text-embedding-3-small", input: "The food was delicious." }],
  },
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>

export const parseEmbeddings = parserOf(EmbeddingsRequest)

export function countedTokens(input: unknown): number | null {
  if (!Array.isArray(input)) return null
  let tokens = 0
  for (const one of input) {
    if (typeof one === "number") tokens += 1
    else if (Array.isArray(one)) tokens += one.length
    else return null
  }
  return tokens
}
