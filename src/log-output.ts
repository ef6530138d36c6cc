import { writeSync } from "node:fs"
import type { DestinationStream } from "pino"

const STANDARD_OUTPUT = 1
/** The lines that wait for a reader that does not read. */
const WAITING_BYTES = 1_048_576
const RETRY_MS = 5
/** Time for a reader that does not read to take the last lines when the process ends. */
const EXIT_MS = 1_000

/**
 * Standard output for a log. A write is synchronous, because a logging thread would lose its last lines when the process ends. If the
 * pipe is full, lines wait, and further ones are dropped and counted: no call waits for the reader of the log.
 */
export class LogOutput implements DestinationStream {
  readonly #waiting: Buffer[] = []
  #waiting_bytes = 0
  #dropped_lines = 0
  readonly #onDropped: (lines: number) => void

  /** `onDropped` is called when lines can be written again. */
  constructor(onDropped: (lines: number) => void) {
    this.#onDropped = onDropped
    // Reading it makes the descriptor non-blocking: to write to a full pipe is then an error, and not a wait.
    void process.stdout
    process.on("exit", () => this.#end())
  }

  write(text: string): void {
    if (this.#dropped_lines > 0) {
      this.#dropped_lines += linesIn(text)
      return
    }
    const bytes = Buffer.byteLength(text)
    const written = this.#waiting.length === 0 ? writtenOf(text) : 0
    if (written === bytes) return
    // Of a text that is in the pipe in part, the rest always follows.
    if (this.#waiting.length > 0 && this.#waiting_bytes + bytes > WAITING_BYTES) {
      this.#dropped_lines = linesIn(text)
      return
    }
    if (this.#waiting.length === 0) this.#retryLater()
    this.#waiting.push(Buffer.from(text).subarray(written))
    this.#waiting_bytes += bytes - written
  }

  #retryLater(): void {
    setTimeout(() => {
      this.#retry()
      if (this.#waiting.length > 0) this.#retryLater()
    }, RETRY_MS).unref()
  }

  #retry(): void {
    for (let bytes = this.#waiting[0]; bytes !== undefined; bytes = this.#waiting[0]) {
      const written = writtenOf(bytes)
      this.#waiting_bytes -= written
      if (written < bytes.byteLength) {
        this.#waiting[0] = bytes.subarray(written)
        break
      }
      this.#waiting.shift()
    }
    const lines = this.#dropped_lines
    // Only then, so that a slow reader gets one number for many lines.
    if (lines === 0 || this.#waiting_bytes > WAITING_BYTES / 2) return
    this.#dropped_lines = 0
    this.#onDropped(lines)
  }

  #end(): void {
    const until_ms = performance.now() + EXIT_MS
    while (this.#waiting.length > 0 && performance.now() < until_ms) {
      this.#retry()
      if (this.#waiting.length > 0) Bun.sleepSync(RETRY_MS)
    }
  }
}

/** The bytes that the pipe has taken. None after an error: the reader reads later, or the full disk gets room. */
function writtenOf(text: string | Buffer): number {
  try {
    return typeof text === "string" ? writeSync(STANDARD_OUTPUT, text) : writeSync(STANDARD_OUTPUT, text)
  } catch {
    return 0
  }
}

function linesIn(text: string): number {
  return text.split("\n").length - 1
}
