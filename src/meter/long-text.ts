import { isAscii } from "node:buffer"
import { bytesIn } from "../wire/buffers.ts"
import type { JsonObject } from "../wire/usage.ts"
import { parsePayload } from "./payload.ts"
import { readData, type SseEvent } from "./sse.ts"

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20
const ASCII_END = 0x80

/** Shorter texts are decoded. */
const LONG_BYTES = 65_536
/** Strings may come before the text, but not more than this many quotes. */
const MAX_QUOTES = 256
/** Length of the text that replaces the long one: longer than any text with a meaning for the gateway. */
const STAND_IN_BYTES = 4_096
const STAND_IN = "x"
/** Data counts in steps of this many bytes (D7), so the replacement is shorter by a multiple of it. */
const STEP_BYTES = 64

export interface Abridged {
  readonly payload: JsonObject
  /** UTF-8 bytes of output in the whole event. */
  bytes(outputBytes: (payload: JsonObject) => number): number
}

/**
 * The event without its long text, and a function for its output bytes. Null if the text is not plain or the rest is
 * large too.
 */
export function abridge({ parts }: SseEvent): Abridged | null {
  const event_bytes = bytesIn(parts)
  if (event_bytes < LONG_BYTES) return null
  const range = findLongText(parts)
  if (range === null || event_bytes - (range.to - range.from) > LONG_BYTES) return null
  const text = slice(parts, range.from, range.to)
  if (!text.every(isPlainText)) return null
  const head = Buffer.concat(slice(parts, 0, range.from))
  const foot = Buffer.concat(slice(parts, range.to, event_bytes))
  const withText = (length: number) =>
    parsePayload(readData(Buffer.concat([head, Buffer.alloc(length, STAND_IN), foot]), false) ?? "")
  const bytes = range.to - range.from
  const short_bytes = STAND_IN_BYTES + (bytes % STEP_BYTES)
  const payload = withText(short_bytes)
  const longer = withText(short_bytes + STEP_BYTES)
  if (payload === null || longer === null) return null
  return {
    payload,
    bytes: (outputBytes) => {
      const base_bytes = outputBytes(payload)
      return base_bytes + ((bytes - short_bytes) / STEP_BYTES) * (outputBytes(longer) - base_bytes)
    },
  }
}

/** The first `LONG_BYTES` or more between two quotes. */
function findLongText(parts: readonly Uint8Array[]): { from: number; to: number } | null {
  let from = Number.POSITIVE_INFINITY
  let quotes = 0
  let start = 0
  for (const part of parts) {
    for (let at = part.indexOf(QUOTE); at !== -1; at = part.indexOf(QUOTE, at + 1)) {
      if (start + at - from >= LONG_BYTES) return { from, to: start + at }
      from = start + at + 1
      if (++quotes > MAX_QUOTES) return null
    }
    start += part.byteLength
  }
  return null
}

/** The bytes from `from` to `to`, as views, or as the parts themselves if they are whole. */
function slice(parts: readonly Uint8Array[], from: number, to: number): Uint8Array[] {
  const views: Uint8Array[] = []
  let start = 0
  for (const part of parts) {
    const end = start + part.byteLength
    if (start >= from && end <= to) views.push(part)
    else if (start < to && end > from) views.push(part.subarray(Math.max(0, from - start), to - start))
    start = end
  }
  return views
}

/** True for a character of one byte that JSON does not escape. */
export function isPlain(byte: number | undefined): boolean {
  return byte !== undefined && byte >= SPACE && byte < ASCII_END && byte !== QUOTE && byte !== BACKSLASH
}

/** True if the bytes have only plain characters. Native searches, because a loop would take as long as decoding. */
export function isPlainText(bytes: Uint8Array): boolean {
  const { buffer, byteOffset, byteLength } = bytes
  if (byteLength < LONG_BYTES) return bytes.every(isPlain)
  if (!isAscii(bytes) || bytes.includes(QUOTE) || bytes.includes(BACKSLASH)) return false
  const before = -byteOffset & 3
  const words = new Int32Array(buffer, byteOffset + before, (byteLength - before) >> 2)
  let odd = 0
  for (let at = 0; at < words.length; at++) odd |= (words[at] ?? 0) - 0x20202020
  if ((odd & 0x80808080) !== 0) return false
  return bytes.subarray(0, before).every(isPlain) && bytes.subarray(before + words.byteLength).every(isPlain)
}
