import { FormatRegistry } from "@sinclair/typebox"
import { parseId } from "../id.ts"
import { parseTime } from "../wire/time.ts"

/** Teaches TypeBox the formats of the API: by itself it knows none, and takes no value of one it does not know. */
export function knowFormats(): void {
  FormatRegistry.Set("uuid", (text) => parseId(text) !== null)
  FormatRegistry.Set("date-time", (text) => parseTime(text) !== null)
}
