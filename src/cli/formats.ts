import { FormatRegistry } from "@sinclair/typebox"
import { parseId } from "../id.ts"
import { parseTime } from "../wire/time.ts"

/** Registers the string formats of the API. TypeBox knows none by itself and rejects values with an unknown format. */
export function knowFormats(): void {
  FormatRegistry.Set("uuid", (text) => parseId(text) !== null)
  FormatRegistry.Set("date-time", (text) => parseTime(text) !== null)
}
