import { isUtf8 } from "node:buffer"
import { ANY_USAGE, type UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import { type NextTurn, nextTurn, SLICE_BYTES, slices } from "../wire/shape.ts"
import { type JsonObject, readServiceTier, type UsageReading } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { choicesOf } from "./output.ts"
import { ANSWER_BOUNDS, parsePayload } from "./payload.ts"
import { type JsonEvidence, reportsError } from "./reading.ts"

export interface JsonForm {
  usageOf(payload: JsonObject, rules: UsageRules): UsageReading
  /** UTF-8 bytes of extractable output (D7). */
  outputBytes(payload: JsonObject): number
  /** True if it only reports a failure (D10). */
  isError(payload: JsonObject): boolean
  /** Reads an answer over the limit (D5). */
  openLarge(): LargeAnswer
}

/** Strips a BOM. Throws for invalid UTF-8 (D5). */
const decoder = new TextDecoder("utf-8", { fatal: true })

/** Reads a JSON answer (D5, D10). */
export function readJson(form: JsonForm, body: Uint8Array, ending: Ending, rules = ANY_USAGE): JsonEvidence {
  const text = decode(body)
  const payload = text === null ? null : parsePayload(text, ANSWER_BOUNDS)
  if (payload === null) return withoutObject(text?.trim() === "" ? "blank" : "malformed", ending)
  const usage = form.usageOf(payload, rules)
  if (usage.state !== "valid" && form.isError(payload)) return withoutObject("error", ending)
  const service_tier = readServiceTier(payload)
  return {
    shape: "json",
    ending,
    body: "object",
    usage,
    output_bytes: form.outputBytes(payload),
    service_tier,
    ...([payload, ...choicesOf(payload)].some(reportsError) && { reports_error: true }),
  }
}

export interface AnswerBody {
  readonly bytes: Uint8Array
  /** True if it is incomplete, and therefore malformed. */
  readonly cut: boolean
  /** The part of a body over the limit that was read (D5). There are no `bytes` then. */
  readonly large: LargeAnswer | null
}

/** Reads an answer of any size, a large one in slices of the event loop's time. */
export function readAnswer(
  form: JsonForm,
  body: AnswerBody,
  ending: Ending,
  rules: UsageRules,
  turn: NextTurn = nextTurn,
) {
  const { bytes, cut, large } = body
  if (cut) return withoutObject("malformed", ending)
  if (large !== null) return readLarge(form, large, ending, rules)
  if (bytes.byteLength <= SLICE_BYTES) return readJson(form, bytes, ending, rules)
  return readInSlices(form, bytes, ending, rules, turn)
}

async function readInSlices(
  form: JsonForm,
  body: Uint8Array,
  ending: Ending,
  rules: UsageRules,
  turn: NextTurn,
) {
  if (!isUtf8(body)) return withoutObject("malformed", ending)
  const large = form.openLarge()
  for await (const slice of slices(body, turn)) large.take(slice)
  if (!large.whole) return withoutObject(large.blank ? "blank" : "malformed", ending)
  return { ...readLarge(form, large, ending, rules), too_large: false, usages: large.usages }
}

/** Reads an answer over the limit, which may have been read in part (D5). */
function readLarge(form: JsonForm, large: LargeAnswer, ending: Ending, rules: UsageRules): JsonEvidence {
  if (!large.object) return withoutObject("malformed", ending)
  const { members, has_answer, output_bytes, service_tier } = large
  const usage = form.usageOf(members, rules)
  const reports_error = reportsError(members)
  if (usage.state !== "valid" && reports_error && !has_answer) return withoutObject("error", ending)
  return {
    shape: "json",
    ending,
    body: "object",
    usage,
    output_bytes,
    too_large: true,
    service_tier,
    ...(reports_error && { reports_error }),
  }
}

/** Nothing to charge (rule 3, D10). */
export function withoutObject(body: "blank" | "malformed" | "error", ending: Ending): JsonEvidence {
  return { shape: "json", ending, body, usage: { state: "missing" }, output_bytes: 0 }
}

/** The text of an answer; null when it is not UTF-8. */
export function decode(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}
