import { expect, test } from "bun:test"
import fc from "fast-check"
import { isPlainText } from "../../src/meter/plain-text.ts"

const isPlain = (byte: number) => byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c

/** A view that begins anywhere in its buffer. */
function viewAt(offset: number, bytes: readonly number[]): Uint8Array {
  const buffer = new Uint8Array(offset + bytes.length + 8)
  buffer.set(bytes, offset)
  return buffer.subarray(offset, offset + bytes.length)
}

test("a text is plain if each of its bytes is, wherever it begins and however short it is", () => {
  const plain = fc.integer({ min: 0x20, max: 0x7f }).filter((byte) => byte !== 0x22)
  const any = fc.nat(255)
  const bytes = fc.oneof(
    fc.array(plain, { maxLength: 40 }),
    fc
      .tuple(fc.array(plain, { maxLength: 20 }), any, fc.array(plain, { maxLength: 20 }))
      .map((parts) => parts.flat()),
  )
  fc.assert(
    fc.property(fc.nat(9), bytes, (offset, given) => {
      expect(isPlainText(viewAt(offset, given))).toBe(given.every(isPlain))
    }),
    { numRuns: 5_000 },
  )
})
