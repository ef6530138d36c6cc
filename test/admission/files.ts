/** The first bytes of files, as far as admission reads them, followed by `bytes` of zeros; as Base64. */

const base64 = (head: readonly number[], bytes: number) =>
  Buffer.concat([Buffer.from(head), Buffer.alloc(bytes)]).toString("base64")
const ascii = (text: string) => [...Buffer.from(text, "latin1")]
const big = (value: number, bytes: number) =>
  Array.from({ length: bytes }, (_, at) => Math.floor(value / 256 ** (bytes - 1 - at)) % 256)
const little = (value: number, bytes: number) => big(value, bytes).reverse()

const PNG = [0x89, ...ascii("PNG\r\n"), 0x1a, 0x0a, ...big(13, 4), ...ascii("IHDR")]

export const png = (width = 28, height = 28, bytes = 20) =>
  base64([...PNG, ...big(width, 4), ...big(height, 4)], bytes)
const frame = (width: number, height: number) => [
  0x2c,
  ...little(0, 4),
  ...little(width, 2),
  ...little(height, 2),
]
/** With colours and a comment before the first frame, which is as large unless `first` says another size. */
export const gif = (width: number, height: number, first = frame(width, height)) =>
  base64(
    [
      ...[...ascii("GIF89a"), ...little(width, 2), ...little(height, 2), 0x80, 0, 0, ...big(0, 6)],
      ...[0x21, 0xfe, 1, 0x2c, 0, ...first],
    ],
    9,
  )
/** Pictures whose size some decoders read elsewhere than the first look finds it. */
export const disguised = {
  "a GIF that its first frame enlarges": gif(1, 1, frame(280, 56)),
  "a GIF without a frame": gif(1, 1, [0x3b]),
  "a PNG whose first chunk is another": base64(
    [0x89, ...ascii("PNG\r\n"), 0x1a, 0x0a, ...big(13, 4), ...ascii("tEXt"), ...big(1, 4), ...big(1, 4)],
    60,
  ),
  "a JPEG with a mark without a length": base64(
    [
      ...[0xff, 0xd8, 0xff, 0x01, 0xff, 0xc0, 0, 17, 8, ...big(8_000, 2), ...big(8_000, 2)],
      ...[...new Array<number>(0xffc0 - 9).fill(0), 0xff, 0xc0, 0, 17, 8, ...big(1, 2), ...big(1, 2)],
    ],
    20,
  ),
}
/** With a segment of metadata, in which there is another picture, before the frame. */
export const jpeg = (width: number, height: number) =>
  base64(
    [
      ...[0xff, 0xd8, 0xff, 0xe1, ...big(11, 2), 0xff, 0xc0, 0, 9, 8, 0, 1, 0, 1],
      ...[0xff, 0xc2, ...big(17, 2), 8, ...big(height, 2), ...big(width, 2)],
    ],
    20,
  )
const riff = (type: string, rest: readonly number[], bytes: number) =>
  base64([...ascii("RIFF"), ...big(0, 4), ...ascii(type), ...rest], bytes)
export const webp = {
  lossy: (width: number, height: number) =>
    riff("WEBP", [...ascii("VP8 "), ...big(0, 10), ...little(width, 2), ...little(height, 2)], 9),
  lossless: (width: number, height: number) =>
    riff("WEBP", [...ascii("VP8L"), ...big(0, 4), 0x2f, ...little(width - 1 + (height - 1) * 2 ** 14, 4)], 9),
  extended: (width: number, height: number) =>
    riff("WEBP", [...ascii("VP8X"), ...big(0, 8), ...little(width - 1, 3), ...little(height - 1, 3)], 9),
}
const waveFormat = (rate: number, format: number) => [
  ...[...ascii("fmt "), ...little(16, 4), ...little(format, 2), ...little(1, 2), ...little(rate, 4)],
  ...[...little(rate, 4), ...little(1, 2), ...little(8, 2)],
]
const waveFile = (formats: readonly number[], bytes: number) =>
  riff(
    "WAVE",
    [...formats, ...ascii("LIST"), ...little(1, 4), 0, 0, ...ascii("data"), ...little(bytes, 4)],
    bytes - 30 - formats.length,
  )
/** Uncompressed sound of so many seconds; another format is compressed. */
export const wav = (seconds: number, rate = 8_000, format = 1) =>
  waveFile(waveFormat(rate, format), seconds * rate)
export const mp3 = (bytes: number) => base64([0xff, 0xfb, 0x90, 0x00], bytes - 4)
/** MP3 after a tag. */
export const tagged = (bytes: number, first = 0xfb) =>
  base64([...ascii("ID3"), 4, 0, 0, ...big(0, 3), 5, ...big(0, 5), 0xff, first, 0x90, 0x00], bytes - 19)

/** What is compressed: nothing but the context bounds its tokens. */
export const compressed: Readonly<Record<string, (bytes: number) => string>> = {
  PDF: (bytes) => base64(ascii("%PDF-1.7"), bytes - 8),
  "ZIP, as in DOCX": (bytes) => base64([...ascii("PK"), 3, 4], bytes - 4),
  gzip: (bytes) => base64([0x1f, 0x8b, 8], bytes - 3),
  "Ogg, as of Opus": (bytes) => base64(ascii("OggS"), bytes - 4),
  FLAC: (bytes) => base64(ascii("fLaC"), bytes - 4),
  "MP4, as in M4A and HEIC": (bytes) => base64([0, 0, 0, 24, ...ascii("ftypM4A ")], bytes - 12),
  WebM: (bytes) => base64([0x1a, 0x45, 0xdf, 0xa3], bytes - 4),
  AAC: (bytes) => base64([0xff, 0xf1, 0x50], bytes - 3),
  "AAC after a tag": (bytes) => tagged(bytes, 0xf1),
  AVI: (bytes) => riff("AVI ", [], bytes - 12),
  "WAV that is compressed": (bytes) => wav(bytes / 8_000, 8_000, 0x55),
  "WAV with a second format": (bytes) => waveFile([...waveFormat(192_000, 1), ...waveFormat(8, 1)], bytes),
}
