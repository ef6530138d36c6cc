/** The type of data in a request, by its first bytes and its declared type, and the bound of its tokens (D12). */

/** A picture, a sound or a file in a prompt. */
export interface Media {
  readonly kind: MediaKind
  /** Decoded bytes; null for a picture that the part only refers to. */
  readonly bytes: number | null
  /** The most tokens that its pixels, its seconds or its bytes can be; null where they bound nothing. */
  readonly tokens: number | null
}

export type MediaKind = "image" | "audio" | "file"

export interface FoundMedia {
  readonly media: Media
  /** Characters that are data and no text. */
  readonly characters: number
}

/** A data URL: its media type, its parameters, and where its data begins. */
const DATA_URL = /^\s*data:([^;,]{0,128})([^,]{0,128}),/i
const HEAD_CHARACTERS = 300
/** The beginning of a data URL, or of Base64 of a form that `formOf` knows. */
const MAY_BE_MEDIA =
  /^\s*(?:data:|iVBOR|[/_]9j|R0lG|JVBER|UEsDB|H4sI|T2dn|ZkxhQ|GkXfo|UklGR|AAAA|SUQz|\/\/|__)/i
/** One token for a square of so many pixels is the most that any model counts for a whole picture. */
const TOKEN_PIXELS = 28
const TOKENS_PER_SECOND = 32
/** The fewest bytes of MP3 that are one token: 6 kbit/s at 32 tokens a second, rounded down. */
const SOUND_BYTES_PER_TOKEN = 16

/** The medium that a string is, as a data URL or by how its Base64 begins (`is_data`: in any case); null for text. */
export function mediaIn(text: string, kind: MediaKind | null, is_data: boolean): FoundMedia | null {
  if (!is_data && !MAY_BE_MEDIA.test(text.slice(0, HEAD_CHARACTERS + 8))) return null
  const head = text.slice(0, HEAD_CHARACTERS)
  const url = DATA_URL.exec(head)
  const [, declared = "", parameters = ""] = url ?? []
  const start = url === null ? head.search(/\S|$/) : url[0].length
  const is_base64 = url === null || /;\s*base64\s*$/i.test(parameters)
  const is_text = url !== null && /^(?:text\/|$)/i.test(declared)
  const data = new Base64Data(text, start)
  const form = is_base64 ? formOf(data) : null
  if (form === null && (is_text ? !is_base64 : url === null && !is_data)) return null
  const is_clean = is_base64 && data.isClean()
  const bytes = is_base64 ? data.bytes : text.length
  const bound =
    form === null ? (is_text ? bytes : null) : agrees(form.kind, declared) ? form.tokens(data) : null
  const tokens = is_clean ? bound : null
  const found_kind = form?.kind ?? (is_text ? "file" : (kindOf(declared) ?? kind ?? "file"))
  return {
    media: { kind: found_kind === "image" && tokens === null ? "file" : found_kind, bytes, tokens },
    characters: is_clean ? text.length - start : 0,
  }
}

/** A picture that only its address or its id names. */
export const PICTURE_ELSEWHERE: Media = { kind: "image", bytes: null, tokens: null }

function kindOf(declared: string): MediaKind | null {
  const family = declared.trim().toLowerCase().split("/")[0]
  return family === "image" || family === "audio" ? family : null
}

/** Providers differ in whether they believe the declared type or the bytes, so only where both agree is anything measured. */
function agrees(kind: MediaKind, declared: string): boolean {
  return declared === "" || kindOf(declared) === kind
}

interface FileForm {
  readonly kind: MediaKind
  tokens(data: Base64Data): number | null
}

const unmeasured = (kind: MediaKind): FileForm => ({ kind, tokens: () => null })

/** The first Base64 characters of files, and what bounds their tokens. What is compressed and not here holds the context. */
const FORMS: readonly (readonly [start: string, form: FileForm])[] = [
  ["iVBORw0KGgo", { kind: "image", tokens: pngTokens }],
  ["/9j/", { kind: "image", tokens: jpegTokens }],
  ["_9j_", { kind: "image", tokens: jpegTokens }],
  ["R0lGOD", { kind: "image", tokens: gifTokens }],
  ["JVBERi0", unmeasured("file")],
  ["UEsDB", unmeasured("file")],
  ["H4sI", unmeasured("file")],
  ["T2dnUw", unmeasured("audio")],
  ["ZkxhQ", unmeasured("audio")],
  ["GkXfo", unmeasured("file")],
]

/** MPEG audio in Base64 can begin with `//` or `__`, and so can a comment or a name. */
const LEAST_SOUND_BYTES = 48

function formOf(data: Base64Data): FileForm | null {
  const known = FORMS.find(([start]) => data.startsWith(start))
  if (known !== undefined) return known[1]
  if (data.startsWith("UklGR")) return data.text(0, 4) === "RIFF" ? riffForm(data.text(8, 4)) : null
  if (data.startsWith("AAAA") && data.text(4, 4) === "ftyp") return unmeasured("file")
  if (data.startsWith("SUQz")) return mp3At(data, 10 + syncSafe(data))
  const may_be_sound = data.startsWith("//") || data.startsWith("__")
  return may_be_sound && data.bytes >= LEAST_SOUND_BYTES && data.isClean() ? mp3At(data, 0) : null
}

function riffForm(type: string): FileForm {
  if (type === "WEBP") return { kind: "image", tokens: webpTokens }
  return type === "WAVE" ? { kind: "audio", tokens: waveTokens } : unmeasured("file")
}

/** MPEG audio, of which layer 0 is AAC: that has no lowest bit rate. */
function mp3At(data: Base64Data, at: number): FileForm | null {
  const [first, second] = [data.big(at, 1), data.big(at + 1, 1)]
  if (first !== 0xff || second === null || (second & 0xe0) !== 0xe0)
    return at === 0 ? null : unmeasured("audio")
  if ((second & 0x06) === 0) return unmeasured("audio")
  return { kind: "audio", tokens: ({ bytes }) => Math.ceil(bytes / SOUND_BYTES_PER_TOKEN) }
}

function syncSafe(data: Base64Data): number {
  let size = 0
  for (let at = 6; at < 10; at++) size = size * 128 + (data.big(at, 1) ?? 0)
  return size
}

function pixels(width: number | null, height: number | null): number | null {
  if (width === null || height === null || width * height === 0) return null
  return Math.ceil(width / TOKEN_PIXELS) * Math.ceil(height / TOKEN_PIXELS)
}

/** Some decoders pass over other chunks before the one with the size. */
function pngTokens(data: Base64Data): number | null {
  return data.text(12, 4) === "IHDR" ? pixels(data.big(16, 4), data.big(20, 4)) : null
}

/** The most segments before the size of a JPEG, and parts before the first frame of a GIF or the samples of a WAV. */
const MAX_SEGMENTS = 64

/** A GIF is as large as its screen, or as its first frame if that is larger, because decoders allocate that size. */
function gifTokens(data: Base64Data): number | null {
  const flags = data.big(10, 1) ?? 0
  let at = 13 + (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)
  let is_in_extension = false
  for (let parts = 0; parts < MAX_SEGMENTS; parts++) {
    const next = data.big(at, 1)
    if (next === null) return null
    if (is_in_extension) {
      at += 1 + next
      is_in_extension = next > 0
    } else if (next === GIF_EXTENSION) {
      at += 2
      is_in_extension = true
    } else return next === GIF_FRAME ? pixels(gifSide(data, 6, at + 1), gifSide(data, 8, at + 3)) : null
  }
  return null
}

const GIF_FRAME = 0x2c
const GIF_EXTENSION = 0x21

/** A side as the file says it, or the end of the frame on that side: its offset, and 4 bytes behind that its own length. */
function gifSide(data: Base64Data, side_at: number, frame_at: number): number | null {
  const side = data.little(side_at, 2)
  const offset = data.little(frame_at, 2)
  const length = data.little(frame_at + 4, 2)
  return side === null || offset === null || length === null ? null : Math.max(side, offset + length)
}

/** A JPEG has its size in the first segment that begins a frame. */
function jpegTokens(data: Base64Data): number | null {
  let at = 2
  for (let segments = 0; segments < MAX_SEGMENTS; segments++) {
    const head = data.big(at, 4)
    if (head === null || head < 0xff000000) return null
    const code = (head >>> 16) & 0xff
    // Markers without a length (RFC 2435 section 3.1.9): a decoder continues right after them.
    if (code === 0x01 || (code >= 0xd0 && code <= 0xd9)) return null
    const is_frame = code >= 0xc0 && code <= 0xcf && code !== 0xc4 && code !== 0xc8 && code !== 0xcc
    if (is_frame) return pixels(data.big(at + 7, 2), data.big(at + 5, 2))
    at += code === 0xff ? 1 : 2 + (head & 0xffff)
  }
  return null
}

function webpTokens(data: Base64Data): number | null {
  switch (data.text(12, 4)) {
    case "VP8 ":
      return pixels(sized(data.little(26, 2)), sized(data.little(28, 2)))
    case "VP8L": {
      const bits = data.little(21, 4)
      return bits === null ? null : pixels((bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1)
    }
    case "VP8X":
      return pixels(oneMore(data.little(24, 3)), oneMore(data.little(27, 3)))
    default:
      return null
  }
}

const sized = (value: number | null) => (value === null ? null : value & 0x3fff)
const oneMore = (value: number | null) => (value === null ? null : value + 1)

/** `data` and `fmt ` as numbers: a body can have a million chunks, too many to make a text of each. */
const [WAVE_DATA, WAVE_FORMAT] = [0x64617461, 0x666d7420]

/** True if the samples follow one format. Of several, some decoders take the last. */
function hasOneFormat(data: Base64Data): boolean {
  let at = 12
  for (let chunks = 0; chunks < MAX_SEGMENTS; chunks++) {
    const name = data.big(at, 4)
    const size = data.little(at + 4, 4)
    if (name === WAVE_DATA) return true
    if (size === null || (name === WAVE_FORMAT && chunks > 0)) return false
    at += 8 + size + (size % 2)
  }
  return false
}

/** The seconds of uncompressed samples: PCM and floating point. */
function waveTokens(data: Base64Data): number | null {
  const is_plain = data.text(12, 4) === "fmt " && [1, 3].includes(data.little(20, 2) ?? 0)
  const [channels, rate, bits] = [data.little(22, 2) ?? 0, data.little(24, 4) ?? 0, data.little(34, 2) ?? 0]
  const second_bytes = (channels * rate * bits) / 8
  if (!is_plain || second_bytes < 1 || !hasOneFormat(data)) return null
  return Math.ceil((data.bytes / second_bytes) * TOKENS_PER_SECOND)
}

/** Base64 inside a text. */
class Base64Data {
  readonly #text: string
  readonly #from: number
  #bytes: Buffer | null = null

  constructor(text: string, from: number) {
    this.#text = text
    this.#from = from
  }

  get bytes(): number {
    return Math.ceil(((this.#text.length - this.#from) * 3) / 4)
  }

  /** True if nothing in it is skipped: decoding takes an eighth of the time of a regular expression. */
  isClean(): boolean {
    const padding = this.#text.endsWith("==") ? 2 : this.#text.endsWith("=") ? 1 : 0
    const characters = this.#text.length - this.#from - padding
    return this.#decoded.length === Math.floor((characters * 3) / 4)
  }

  startsWith(start: string): boolean {
    return this.#text.startsWith(start, this.#from)
  }

  text(at: number, count: number): string {
    return this.#decoded.toString("latin1", at, at + count)
  }

  /** A whole number, the first byte first; null where the data is too short. */
  big(at: number, count: number): number | null {
    const bytes = this.#decoded
    if (at + count > bytes.length) return null
    let number = 0
    for (let next = at; next < at + count; next++) number = number * 256 + (bytes[next] ?? 0)
    return number
  }

  /** A whole number, the last byte first; null where the data is too short. */
  little(at: number, count: number): number | null {
    const bytes = this.#decoded
    if (at + count > bytes.length) return null
    let number = 0
    for (let next = at + count - 1; next >= at; next--) number = number * 256 + (bytes[next] ?? 0)
    return number
  }

  get #decoded(): Buffer {
    this.#bytes ??= Buffer.from(this.#text.slice(this.#from), "base64")
    return this.#bytes
  }
}
