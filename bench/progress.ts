const BAR_CELLS = 24
const FULL = "█"
const EMPTY = "░"

/** The progress of a run: a bar on a terminal, a line per step elsewhere. */
export class Progress {
  readonly #steps: number
  readonly #write: (text: string) => void
  readonly #is_terminal: boolean
  #step = 0
  #started_ms = performance.now()

  constructor(
    steps: number,
    out: { write(text: string): unknown; readonly isTTY?: boolean } = process.stderr,
  ) {
    this.#steps = steps
    this.#write = (text) => void out.write(text)
    this.#is_terminal = out.isTTY === true
  }

  step(text: string): void {
    this.#step += 1
    this.say(text)
  }

  say(text: string): void {
    const seconds = Math.round((performance.now() - this.#started_ms) / 1000)
    if (this.#is_terminal) this.#write(`\r\x1b[K${bar(this.#step - 1, this.#steps)} ${seconds} s  ${text}`)
    else this.#write(`[${this.#step}/${this.#steps}] ${seconds} s  ${text}\n`)
  }

  end(): void {
    if (this.#is_terminal) this.#write("\r\x1b[K")
  }
}

export function bar(done: number, of: number): string {
  const cells = Math.max(0, Math.min(BAR_CELLS, Math.round((done / Math.max(of, 1)) * BAR_CELLS)))
  return FULL.repeat(cells) + EMPTY.repeat(BAR_CELLS - cells)
}
