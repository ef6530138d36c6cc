import { isAscii } from "node:buffer"

/**
 * Text of characters that are one byte in UTF-8 and that JSON does not escape: from a space to 0x7f, without quotes and
 * backslashes.
 */

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20
const ASCII_END = 0x80

const WORD_BYTES = 4
/** In each byte of a word. */
const SPACES = 0x20202020
const QUOTES = 0x22222222
const BACKSLASHES = 0x5c5c5c5c
const ONES = 0x01010101
const HIGH_BITS = 0x80808080

/** Where plain text from `from` on ends. By words: for texts of 20 bytes 0.8 of the time of a loop over the bytes, for long ones 0.4. */
export function plainTextEnd(view: DataView, from: number): number {
  let at = from
  for (; at + WORD_BYTES <= view.byteLength; at += WORD_BYTES) {
    const word = view.getInt32(at, true)
    const quotes = word ^ QUOTES
    const backslashes = word ^ BACKSLASHES
    // These set the highest bit of a byte that is not ASCII, below a space, a quote or a backslash.
    const odd = word | (word - SPACES) | ((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes)
    if ((odd & HIGH_BITS) !== 0) break
  }
  while (at < view.byteLength && isPlain(view.getUint8(at))) at += 1
  return at
}

/**
 * True if all of a long text is plain. Measured for 6 MiB: 1.0 ms, where `plainTextEnd` takes 2.5 ms. Native searches leave
 * a loop without a branch, for control characters.
 */
export function isPlainText(bytes: Uint8Array): boolean {
  const { buffer, byteOffset, byteLength } = bytes
  const before = (WORD_BYTES - (byteOffset % WORD_BYTES)) % WORD_BYTES
  if (byteLength < before + WORD_BYTES) return endsPlain(bytes)
  if (!isAscii(bytes) || bytes.includes(QUOTE) || bytes.includes(BACKSLASH)) return false
  const words = new Int32Array(buffer, byteOffset + before, Math.trunc((byteLength - before) / WORD_BYTES))
  let odd = 0
  for (let at = 0; at < words.length; at++) odd |= (words[at] ?? 0) - SPACES
  if ((odd & HIGH_BITS) !== 0) return false
  return endsPlain(bytes.subarray(0, before)) && endsPlain(bytes.subarray(before + words.byteLength))
}

function endsPlain(bytes: Uint8Array): boolean {
  return plainTextEnd(viewOf(bytes), 0) === bytes.byteLength
}

export function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}

function isPlain(byte: number): boolean {
  return byte >= SPACE && byte < ASCII_END && byte !== QUOTE && byte !== BACKSLASH
}
