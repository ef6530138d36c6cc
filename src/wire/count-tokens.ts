import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { GatewayError } from "../errors.ts"
import { EXPECTED } from "./fault.ts"
import { open } from "./field.ts"
import { knownFields } from "./known-fields.ts"
import { Messages, ModelName, parserOf } from "./requests.ts"

/** Fields that only generation uses. They are removed before a token count is forwarded (spec 4.3 rule 3). */
export const generationFields: readonly string[] = [...knownFields("count").meanings.keys()]

/** The body of a token count (spec 2): what the gateway reads of it; other fields pass upstream, but for the generation fields. */
export const CountTokensRequest = open(
  { model: ModelName, messages: Messages },
  `An input to count. Fields that are not listed are passed to the provider unchanged, except ${generationFields.join(", ")}, which are removed.`,
)
export type CountTokensRequest = Static<typeof CountTokensRequest>

/** The answer to a token count; the provider's other fields are kept. */
export const TokenCount = Type.Object(
  {
    input_tokens: Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "The number of input tokens.",
      examples: [11],
    }),
  },
  { additionalProperties: true, [EXPECTED]: "an object with an input_tokens field" },
)
export type TokenCount = Static<typeof TokenCount>

export const parseCountTokens = parserOf(CountTokensRequest)

/** The request for the provider, without the generation fields. */
export function forCounting(body: CountTokensRequest): CountTokensRequest {
  const copy: CountTokensRequest & Record<string, unknown> = { ...body }
  for (const field of generationFields) delete copy[field]
  return copy
}

/** Checks a provider's answer: a JSON object with an integer `input_tokens` of at least 0, else 502 `upstream_error` (D22). */
export function checkTokenCount(bytes: Uint8Array): void {
  if (!answer.Check(parsed(bytes))) {
    throw new GatewayError("upstream_error", {
      message: "The provider's response contains no token count. Retry the request.",
    })
  }
}

const answer = TypeCompiler.Compile(TokenCount)
const utf8 = new TextDecoder("utf-8", { fatal: true })

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch {
    return undefined
  }
}
