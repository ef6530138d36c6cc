import { NOTHING_ASKED, serviceTierOf, waysOf } from "../admission/asked.ts"
import type { Prompt } from "../admission/prompt.ts"
import { chatCredential } from "../admission/request-headers.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer, type LargeOutput } from "../meter/large-answer.ts"
import { reportsError } from "../meter/reading.ts"
import type { OperationOn } from "../operation.ts"
import { isSpoken, refusalError } from "../upstream/refusal.ts"
import { readUsage, type UsageRules } from "../usage/reading.ts"
import { wantsCost, withoutOurs } from "../wire/chat-request.ts"
import { countedTokens, type EmbeddingsRequest, parseEmbeddings } from "../wire/embeddings-request.ts"
import { FieldTexts } from "../wire/json.ts"
import { isObject, type JsonObject, type UsageReading } from "../wire/usage.ts"

/** Some providers report only `total_tokens`. An input has at least one token, so 0 is not usage (D67). */
function usageOf({ usage }: JsonObject, rules: UsageRules): UsageReading {
  const is_total = isObject(usage) && (usage.prompt_tokens ?? usage.input_tokens ?? null) === null
  const whole = is_total ? { ...usage, prompt_tokens: usage.total_tokens } : usage
  const reading = readUsage(whole, rules, { output: false })
  return reading.state === "valid" && reading.usage.prompt_tokens === 0 ? { state: "invalid" } : reading
}

/** Vectors are not counted as output (D67). */
const NO_OUTPUT: LargeOutput = { readsKeys: () => false, take: () => {}, bytes: 0 }

const json: JsonForm = {
  usageOf,
  outputBytes: () => 0,
  isError: (payload) => reportsError(payload) && !Array.isArray(payload.data),
  openLarge: () => new LargeAnswer(NO_OUTPUT),
}

/** Fields that are not part of the input. Any other field may be, such as an instruction (D12). */
const NOT_INPUT: ReadonlySet<string> = new Set([
  "model",
  "encoding_format",
  "dimensions",
  "user",
  "usage",
  "stream",
  "service_tier",
])

/** The bytes of text; of a list of tokens, their count. */
function measure({ input }: EmbeddingsRequest, texts: FieldTexts): Prompt {
  const tokens = countedTokens(input)
  let bytes = 0
  for (const [place, name] of texts.names.entries()) {
    const is_counted = name === "input" && tokens !== null
    if (!is_counted && !NOT_INPUT.has(name)) bytes += Buffer.byteLength(texts.at(place))
  }
  return { bytes, tokens: tokens ?? 0, media: [], is_open: false }
}

const NO_CHANGES = {}

/** Embeddings (D67). */
export const embeddings: OperationOn<EmbeddingsRequest> = {
  name: "embeddings",
  family: "chat",
  path: "/embeddings",
  generates: false,
  limit_field: null,
  json,
  stream: null,
  refusals: { isRead: isSpoken, errorOf: refusalError },
  credential: chatCredential,
  passed: () => null,
  parse: parseEmbeddings,
  texts: (request) => new FieldTexts(withoutOurs(request)),
  changes: () => NO_CHANGES,
  streams: () => false,
  wantsUsage: () => false,
  wantsCost,
  askedFor: (request) => ({ ...NOTHING_ASKED, ...waysOf(request), service_tier: serviceTierOf(request) }),
  measure,
  maxTokens: () => 0,
  choices: () => 1,
}
