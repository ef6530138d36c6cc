const LF = 10
const EMPTY_LINE = "\n\n"

/** Counts the events of a stream by the empty lines that end them, wherever the bytes are cut. */
export class EventCounter {
  /** True if the last byte may be the first half of an empty line. */
  #half = false

  /** How many events these bytes end. */
  feed(part: Uint8Array): number {
    const bytes = Buffer.from(part.buffer, part.byteOffset, part.byteLength)
    let at = 0
    let events = 0
    if (this.#half && bytes[0] === LF) {
      at = 1
      events = 1
    }
    for (let end = bytes.indexOf(EMPTY_LINE, at); end !== -1; end = bytes.indexOf(EMPTY_LINE, at)) {
      at = end + EMPTY_LINE.length
      events += 1
    }
    if (bytes.length > 0) this.#half = at < bytes.length && bytes[bytes.length - 1] === LF
    return events
  }
}
