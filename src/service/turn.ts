/** Answers that are sent immediately, before those of the rest of a turn wait. */
const IMMEDIATE = 64

/**
 * Bounds a turn of the event loop by the connections that clients have open (D111). The runtime accepts connections until none waits, and
 * serves the request that came with each before it accepts the next. If it closed them meanwhile, clients that connect again
 * would keep it there for seconds, in which it reads no other connection.
 */
export class Turn {
  #sent = 0
  #is_long = false

  /**
   * The answer; after many in one turn only after the turn. To wait after every turn would cost each call 1 us. Each waits by itself: the
   * runtime nests the answers that one promise lets go, and thousands would overflow the stack, which ends the process.
   */
  send(answer: Response | Promise<Response>): Response | Promise<Response> {
    if (!this.#is_long) {
      this.#sent += 1
      if (this.#sent < IMMEDIATE) return answer
      this.#sent = 0
      this.#is_long = true
      setImmediate(() => {
        this.#is_long = false
      })
    }
    const after = new Promise((resolve) => setImmediate(resolve))
    // Together, because an answer that fails meanwhile would be a rejection that nobody handles.
    return Promise.all([answer, after]).then(([sent]) => sent)
  }
}
