/** Answers that are sent immediately, before those of the rest of a turn wait. */
const IMMEDIATE = 64

/**
 * Bounds a turn of the event loop by the connections that clients have open (D111). The runtime accepts connections until none waits, and
 * serves the request that came with each before it accepts the next. If it closed them meanwhile, clients that connect again
 * would keep it there for seconds, in which it reads no other connection.
 */
export class Turn {
  #sent = 0
  #end: Promise<void> | null = null

  /** The answer; after many in one turn only at the end of the turn. To wait for the end of every turn would cost each call 1 us. */
  send(answer: Response | Promise<Response>): Response | Promise<Response> {
    if (this.#end === null) {
      this.#sent += 1
      if (this.#sent < IMMEDIATE) return answer
      this.#sent = 0
      this.#end = new Promise((resolve) => {
        setImmediate(() => {
          this.#end = null
          resolve()
        })
      })
    }
    // Together, because an answer that fails meanwhile would be a rejection that nobody handles.
    return Promise.all([answer, this.#end]).then(([sent]) => sent)
  }
}
