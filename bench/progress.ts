/** The progress of a run: a line on standard error for each step. */
export class Progress {
  readonly #steps: number
  readonly #started_ms = performance.now()
  #step = 0

  constructor(steps: number) {
    this.#steps = steps
  }

  step(text: string): void {
    this.#step += 1
    this.say(text)
  }

  say(text: string): void {
    const seconds = Math.round((performance.now() - this.#started_ms) / 1000)
    console.error(`[${this.#step}/${this.#steps}] ${seconds} s  ${text}`)
  }
}
