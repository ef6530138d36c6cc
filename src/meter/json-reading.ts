import { ANY_USAGE, type UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import { type JsonObject, readServiceTier, type UsageReading } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { parsePayload } from "./output.ts"
import type { JsonEvidence } from "./reading.ts"

/** Reads the JSON answers of an operation. */
export interface JsonForm {
  usageOf(payload: JsonObject, rules: UsageRules): UsageReading
  /** UTF-8 bytes of extractable output (D7). */
  outputBytes(payload: JsonObject): number
  /** Whether it only reports a failure (D10). */
  isError(payload: JsonObject): boolean
  /** Reads an answer over the limit (D5). */
  openLarge(): LargeAnswer
}

/** Strips a BOM. Throws for invalid UTF-8 (D5). */
const decoder = new TextDecoder("utf-8", { fatal: true })

/** Reads a JSON answer (D5, D10). `cut`: it is incomplete, and therefore malformed. */
export function readJson(
  form: JsonForm,
  body: Uint8Array,
  ending: Ending,
  cut: boolean,
  rules: UsageRules = ANY_USAGE,
): JsonEvidence {
  const text = cut ? null : decode(body)
  if (text === null) return withoutObject("malformed", ending)
  if (text.trim() === "") return withoutObject("blank", ending)
  const payload = parsePayload(text)
  if (payload === null) return withoutObject("malformed", ending)
  const usage = form.usageOf(payload, rules)
  if (usage.state !== "valid" && form.isError(payload)) return withoutObject("error", ending)
  return {
    shape: "json",
    ending,
    body: "object",
    usage,
    output_bytes: form.outputBytes(payload),
    too_large: false,
    service_tier: readServiceTier(payload),
  }
}

/** The same for an answer over the limit, which may have been read in part (D5). */
export function readLarge(
  form: JsonForm,
  large: LargeAnswer,
  ending: Ending,
  cut: boolean,
  rules: UsageRules,
): JsonEvidence {
  if (cut || !large.object) return withoutObject("malformed", ending)
  return {
    shape: "json",
    ending,
    body: "object",
    usage: form.usageOf(large.members, rules),
    output_bytes: large.output_bytes,
    too_large: true,
    service_tier: large.service_tier,
  }
}

function withoutObject(body: "blank" | "malformed" | "error", ending: Ending): JsonEvidence {
  return { shape: "json", ending, body, usage: { state: "missing" }, output_bytes: 0, too_large: false }
}

/** The text of an answer; null when it is not UTF-8. */
export function decode(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}
