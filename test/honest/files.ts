import { deflateSync } from "node:zlib"

/** Makes the pictures, sounds and documents that the tests send. All are small, whatever they hold. */

export function png(width: number, height: number): Buffer {
  const header = Buffer.alloc(33)
  header.write("\x89PNG\r\n\x1a\n", "latin1")
  header.writeUInt32BE(13, 8)
  header.write("IHDR", 12, "latin1")
  header.writeUInt32BE(width, 16)
  header.writeUInt32BE(height, 20)
  header.writeUInt8(8, 24)
  return Buffer.concat([header, Buffer.from("IEND")])
}

export function gif(width: number, height: number): Buffer {
  const file = Buffer.alloc(23)
  file.write("GIF89a", "latin1")
  file.writeUInt8(0x2c, 13)
  for (const at of [6, 18]) {
    file.writeUInt16LE(width, at)
    file.writeUInt16LE(height, at + 2)
  }
  return file
}

/** With `metadata_bytes` before the frame. */
export function jpeg(width: number, height: number, metadata_bytes = 200): Buffer {
  const metadata = Buffer.alloc(4 + metadata_bytes)
  metadata.writeUInt16BE(0xffe1, 0)
  metadata.writeUInt16BE(2 + metadata_bytes, 2)
  const frame = Buffer.alloc(19)
  frame.writeUInt16BE(0xffc0, 0)
  frame.writeUInt16BE(17, 2)
  frame.writeUInt8(8, 4)
  frame.writeUInt16BE(height, 5)
  frame.writeUInt16BE(width, 7)
  return Buffer.concat([Buffer.from([0xff, 0xd8]), metadata, frame, Buffer.from([0xff, 0xd9])])
}

export function webp(width: number, height: number): Buffer {
  const file = Buffer.alloc(30)
  file.write("RIFF", 0, "latin1")
  file.writeUInt32LE(22, 4)
  file.write("WEBPVP8X", 8, "latin1")
  file.writeUInt32LE(10, 16)
  file.writeUIntLE(width - 1, 24, 3)
  file.writeUIntLE(height - 1, 27, 3)
  return file
}

/** Silence of so many seconds: one channel, 8 bits, 8,000 samples a second. */
export function wav(seconds: number): Buffer {
  const samples = Math.round(seconds * 8_000)
  const header = Buffer.alloc(44)
  header.write("RIFF", 0, "latin1")
  header.writeUInt32LE(36 + samples, 4)
  header.write("WAVEfmt ", 8, "latin1")
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(8_000, 24)
  header.writeUInt32LE(8_000, 28)
  header.writeUInt16LE(1, 32)
  header.writeUInt16LE(8, 34)
  header.write("data", 36, "latin1")
  header.writeUInt32LE(samples, 40)
  return Buffer.concat([header, Buffer.alloc(samples, 0x80)])
}

/** MPEG 2, layer 3, 8 kbit/s at 24,000 samples a second: 24 bytes for each 24 milliseconds. */
export const MP3_FRAME = { bytes: 24, seconds: 0.024 }

export function mp3(seconds: number): Buffer {
  const frame = Buffer.alloc(MP3_FRAME.bytes)
  frame.writeUInt32BE(0xfff314c4)
  return Buffer.concat(Array.from({ length: Math.ceil(seconds / MP3_FRAME.seconds) }, () => frame))
}

/** The header of a FLAC of so many seconds, with next to no frames: silence is compressed to almost nothing. */
export function flac(seconds: number): Buffer {
  const rate = 16_000
  const file = Buffer.alloc(42 + 64)
  file.write("fLaC", 0, "latin1")
  file.writeUInt32BE(0x80000022, 4)
  file.writeBigUInt64BE((BigInt(rate) << 44n) | (15n << 36n) | BigInt(Math.round(seconds * rate)), 18)
  return file
}

/** A PDF whose pages each say `text`. `deflated`: all objects are in one compressed stream. */
export function pdf(pages: number, text: string, deflated = false): Buffer {
  const content = `BT /F1 12 Tf 72 720 Td (${text}) Tj ET`
  const objects = Array.from(
    { length: pages },
    (_, at) => `${at} 0 obj <</Type /Page /Contents [${content}]>>`,
  )
  if (!deflated) return Buffer.from(`%PDF-1.7\n${objects.join("\n")}\n%%EOF\n`, "latin1")
  const stream = deflateSync(Buffer.from(objects.join("\n"), "latin1"))
  const head = `%PDF-1.7\n1 0 obj <</Type /ObjStm /N ${pages} /Filter /FlateDecode /Length ${stream.length}>>\nstream\n`
  return Buffer.concat([Buffer.from(head, "latin1"), stream, Buffer.from("\nendstream\n%%EOF\n", "latin1")])
}

export function dataUrl(type: string, file: Buffer): string {
  return `data:${type};base64,${file.toString("base64")}`
}
