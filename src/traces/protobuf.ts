/** The Protocol Buffers encoding, as far as spans need it. */

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const FIXED32 = 5

const FIRST_BYTES = 4_096
/** Strings up to this length have a one-byte length prefix. */
const SHORT = 64

export class ProtobufWriter {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #end = 0

  /** A copy of the written bytes. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#buffer.subarray(0, this.#end))
  }

  /** An integer of up to 64 bits. */
  integer(field: number, value: number | bigint): void {
    this.#tag(field, VARINT)
    if (typeof value === "number" && value >= 0) this.#varint(value)
    else this.#bigVarint(BigInt.asUintN(64, BigInt(value)))
  }

  double(field: number, value: number): void {
    this.#tag(field, FIXED64)
    this.#end = this.#room(8).writeDoubleLE(value, this.#end)
  }

  fixed64(field: number, value: bigint): void {
    this.#tag(field, FIXED64)
    this.#end = this.#room(8).writeBigUInt64LE(value, this.#end)
  }

  fixed32(field: number, value: number): void {
    this.#tag(field, FIXED32)
    this.#end = this.#room(4).writeUInt32LE(value, this.#end)
  }

  text(field: number, value: string): void {
    this.#tag(field, BYTES)
    if (value.length <= SHORT && this.#short(value)) return
    const length = Buffer.byteLength(value)
    this.#varint(length)
    this.#end += this.#room(length).write(value, this.#end)
  }

  /** Most strings are short and ASCII. Writing them byte by byte makes an export a third faster. */
  #short(value: string): boolean {
    const buffer = this.#room(SHORT + 1)
    const { length } = value
    for (let at = 0; at < length; at++) {
      const letter = value.charCodeAt(at)
      if (letter > 127) return false
      buffer[this.#end + 1 + at] = letter
    }
    buffer[this.#end] = length
    this.#end += length + 1
    return true
  }

  /** The bytes of a hex string. */
  hex(field: number, digits: string): void {
    this.#tag(field, BYTES)
    this.#varint(digits.length / 2)
    this.#end += this.#room(digits.length / 2).write(digits, this.#end, "hex")
  }

  /** A nested message, written by `write`. Its length prefix is known only afterwards. */
  message(field: number, write: () => void): void {
    this.#tag(field, BYTES)
    const begin = this.#end
    this.#end += 1
    write()
    const length = this.#end - begin - 1
    const wider = length < 128 ? 0 : Math.floor(Math.log2(length) / 7)
    if (wider > 0) this.#room(wider).copyWithin(begin + 1 + wider, begin + 1, this.#end)
    this.#end = begin
    this.#varint(length)
    this.#end += length
  }

  /** Bytes written elsewhere, as a nested message. */
  written(field: number, bytes: Uint8Array): void {
    this.#tag(field, BYTES)
    this.#varint(bytes.byteLength)
    this.#room(bytes.byteLength).set(bytes, this.#end)
    this.#end += bytes.byteLength
  }

  #tag(field: number, type: number): void {
    this.#varint(field * 8 + type)
  }

  #varint(value: number): void {
    const buffer = this.#room(8)
    let rest = value
    for (; rest >= 128; rest = Math.floor(rest / 128)) buffer[this.#end++] = (rest % 128) + 128
    buffer[this.#end++] = rest
  }

  #bigVarint(value: bigint): void {
    const buffer = this.#room(10)
    let rest = value
    for (; rest >= 128n; rest >>= 7n) buffer[this.#end++] = Number(rest & 127n) + 128
    buffer[this.#end++] = Number(rest)
  }

  /** The buffer, with room for at least `bytes` more. */
  #room(bytes: number): Buffer {
    if (this.#end + bytes > this.#buffer.length) {
      const wider = Buffer.allocUnsafe(2 * (this.#end + bytes))
      this.#buffer.copy(wider, 0, 0, this.#end)
      this.#buffer = wider
    }
    return this.#buffer
  }
}
