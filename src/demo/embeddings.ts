import { type EmbeddingsRequest, parseEmbeddings } from "../wire/requests.ts"
import { isWhole } from "../wire/usage.ts"
import { checked, DemoError, unknownModel } from "./answer.ts"
import { tokensOf } from "./tokens.ts"

export const embeddingsModel = "demo-embedding"

const DIMENSIONS = 64
const MAX_DIMENSIONS = 1_024

/** The answer to an embeddings call: the same vector for the same input. Throws a `DemoError` like OpenAI's. */
export function embed(body: unknown): object {
  const { model, input, dimensions = DIMENSIONS, encoding_format } = checked(parseEmbeddings, body)
  if (model !== embeddingsModel) throw unknownModel(model)
  if (!isWhole(dimensions) || dimensions < 1 || dimensions > MAX_DIMENSIONS)
    throw new DemoError(400, "invalid_request_error", "Invalid value.", { param: "dimensions" })
  const inputs = tokenised(input)
  const prompt_tokens = inputs.reduce((sum, { length }) => sum + length, 0)
  return {
    object: "list",
    data: inputs.map((tokens, index) => {
      const vector = vectorOf(tokens, dimensions)
      const embedding =
        encoding_format === "base64" ? Buffer.from(vector.buffer).toString("base64") : [...vector]
      return { object: "embedding", index, embedding }
    }),
    model,
    usage: { prompt_tokens, total_tokens: prompt_tokens },
  }
}

/** The tokens of each input; an empty text has one too. */
function tokenised(input: EmbeddingsRequest["input"]): readonly (readonly string[])[] {
  if (typeof input === "string") return [tokensOrNone(input)]
  const numbers = input.filter((one) => typeof one === "number")
  if (numbers.length > 0) return [numbers.map(String)]
  return input.map((one) => (typeof one === "string" ? tokensOrNone(one) : [one].flat().map(String)))
}

function tokensOrNone(text: string): readonly string[] {
  const tokens = tokensOf(text)
  return tokens.length === 0 ? [""] : tokens
}

/** Of length 1. Inputs that share tokens point in a similar direction. */
function vectorOf(tokens: readonly string[], dimensions: number): Float32Array {
  const sums = new Float32Array(dimensions)
  for (const token of tokens) {
    for (let at = 0; at < dimensions; at++) {
      const hash = Bun.hash.wyhash(token.trim().toLowerCase(), BigInt(at))
      sums[at] = (sums[at] ?? 0) + Number(hash & 0xffffn) / 0x8000 - 1
    }
  }
  const length = Math.hypot(...sums) || 1
  return sums.map((value) => value / length)
}
