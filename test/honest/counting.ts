import { inflateSync } from "node:zlib"
import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import { MP3_FRAME } from "./files.ts"

/** How the honest provider counts what it was sent. It shares no code with the gateway. */

const counted = new Map<string, number>()

/** Tokens of a text, by a real tokenizer. */
export function tokensOf(text: string): number {
  let tokens = counted.get(text)
  if (tokens === undefined) {
    tokens = countTokens(text)
    if (counted.size > 50_000) counted.clear()
    counted.set(text, tokens)
  }
  return tokens
}

/** What a file costs, in tokens. */
export interface Weight {
  readonly image: number
  readonly audio: number
  readonly text: number
}

const weights = new Map<string, Weight>()

/** Of a data URL, or of plain Base64. */
export function weightOf(data: string): Weight {
  let weight = weights.get(data)
  if (weight === undefined) {
    weight = weigh(Buffer.from(data.slice(data.indexOf(",") + 1), "base64"))
    weights.set(data, weight)
  }
  return weight
}

/** Tokens of a second of sound, and of the picture of a page. */
const SECOND = 32
const PAGE = 258

function weigh(file: Buffer): Weight {
  const start = file.toString("latin1", 0, 4)
  if (start === "%PDF") return pdfWeight(file)
  const seconds = secondsOf(file, start)
  if (seconds !== null) return { image: 0, audio: Math.ceil(seconds * SECOND), text: 0 }
  const [width, height] = sizeOf(file, start)
  return { image: pictureTokens(width, height), audio: 0, text: 0 }
}

function pdfWeight(file: Buffer): Weight {
  const plain = file.toString("latin1")
  const start = plain.indexOf("stream\n")
  const body = plain.includes("/FlateDecode")
    ? inflateSync(file.subarray(start + "stream\n".length)).toString("latin1")
    : plain
  const pages = body.match(/\/Type \/Page\b/g)?.length ?? 0
  const [, text = ""] = /\((.*?)\) Tj/.exec(body) ?? []
  return { image: pages * PAGE, audio: 0, text: pages * tokensOf(text) }
}

function secondsOf(file: Buffer, start: string): number | null {
  if (start === "fLaC") {
    const bits = file.readBigUInt64BE(18)
    return Number(bits & 0xf_ffff_ffffn) / Number(bits >> 44n)
  }
  if (start === "RIFF" && file.toString("latin1", 8, 12) === "WAVE")
    return file.readUInt32LE(40) / file.readUInt32LE(28)
  return file.readUInt16BE(0) === 0xfff3 ? (file.length / MP3_FRAME.bytes) * MP3_FRAME.seconds : null
}

function sizeOf(file: Buffer, start: string): readonly [width: number, height: number] {
  if (start === "\x89PNG") return [file.readUInt32BE(16), file.readUInt32BE(20)]
  if (start === "GIF8") return [file.readUInt16LE(6), file.readUInt16LE(8)]
  if (start === "RIFF") return [file.readUIntLE(24, 3) + 1, file.readUIntLE(27, 3) + 1]
  const frame = file.indexOf(Buffer.from([0xff, 0xc0]))
  return [file.readUInt16BE(frame + 7), file.readUInt16BE(frame + 5)]
}

/** A token for each square of 32 pixels, a fifth more, and never more than 36,000: the dearest of one vendor's newest models. */
function pictureTokens(width: number, height: number): number {
  return Math.min(36_000, Math.ceil(1.2 * Math.ceil(width / 32) * Math.ceil(height / 32)))
}
