import type { Ending } from "../wire/call.ts"
import { NO_LIMITS, readServiceTier, readUsage, type UsageLimits } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { choicesOf, outputBytes, parsePayload } from "./output.ts"
import { type JsonEvidence, reportsError } from "./reading.ts"

/** A BOM is stripped, broken UTF-8 throws (D5). */
const decoder = new TextDecoder("utf-8", { fatal: true })

/** Reads a JSON answer (D5, D10). `cut`: it did not arrive whole; then it is malformed. */
export function readJson(
  body: Uint8Array,
  ending: Ending,
  cut: boolean,
  limits: UsageLimits = NO_LIMITS,
): JsonEvidence {
  const without = (kind: "blank" | "malformed" | "error") => withoutObject(kind, ending)
  const text = cut ? null : decode(body)
  if (text === null) return without("malformed")
  if (text.trim() === "") return without("blank")
  const payload = parsePayload(text)
  if (payload === null) return without("malformed")
  const usage = readUsage(payload.usage, limits)
  const is_error = reportsError(payload) && choicesOf(payload).length === 0
  if (is_error && usage.state !== "valid") return without("error")
  return {
    shape: "json",
    ending,
    body: "object",
    usage,
    output_bytes: outputBytes(payload),
    too_large: false,
    ...tierOf(readServiceTier(payload)),
  }
}

/** The same for an answer over the limit, of which not all need have been read (D5). */
export function readLarge(
  large: LargeAnswer,
  ending: Ending,
  cut: boolean,
  limits: UsageLimits,
): JsonEvidence {
  if (cut || !large.object) return withoutObject("malformed", ending)
  return {
    shape: "json",
    ending,
    body: "object",
    usage: large.usage(limits),
    output_bytes: large.output_bytes,
    too_large: true,
    ...tierOf(large.service_tier),
  }
}

function tierOf(service_tier: string | undefined): Pick<JsonEvidence, "service_tier"> {
  return service_tier === undefined ? {} : { service_tier }
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
