import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer, type LargeOutput } from "../meter/large-answer.ts"
import { reportsError } from "../meter/reading.ts"
import { isBodyShown, refusalError } from "../upstream/refusal.ts"
import { readUsage, type UsageRules } from "../usage/reading.ts"
import { FieldTexts } from "../wire/json.ts"
import { type EmbeddingsRequest, parseEmbeddings, wantsCost, withoutOurs } from "../wire/requests.ts"
import { isObject, type JsonObject, objectsIn, type UsageReading } from "../wire/usage.ts"
import type { OperationOn } from "./operation.ts"
import { uncheckedCredential } from "./request-headers.ts"

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
  isError: (payload) => reportsError(payload) && objectsIn(payload.data).length === 0,
  openLarge: () => new LargeAnswer(NO_OUTPUT),
}

/** Embeddings (D67). */
export const embeddings: OperationOn<EmbeddingsRequest> = {
  name: "embeddings",
  family: "chat",
  path: "/embeddings",
  generates: false,
  limit_field: null,
  json,
  stream: null,
  refusals: { isRead: isBodyShown, errorOf: refusalError },
  credential: uncheckedCredential,
  passed: () => null,
  parse: parseEmbeddings,
  texts: (request) => new FieldTexts(withoutOurs(request)),
  streams: () => false,
  wantsUsage: () => false,
  wantsCost,
}
