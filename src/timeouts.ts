/**
 * The timeouts of calls, nearly all of which are cleared. Those of one length share a timer, and wait in a list in the order
 * in which they expire. A timer for each would cost a JSON call more than 1 us.
 */

const queues = new Map<number, TimeoutQueue>()

/**
 * Calls `expire` once `length_ms` have passed since `since_ms`, by the clock of `performance.now`, unless the timeout is
 * cleared before. Lengths come from the configuration or the code: each one that was ever used stays in memory.
 */
export function startTimeout(
  length_ms: number,
  expire: () => void,
  since_ms: number = performance.now(),
): Timeout {
  let queue = queues.get(length_ms)
  if (queue === undefined) {
    queue = new TimeoutQueue()
    queues.set(length_ms, queue)
  }
  const timeout = new Timeout(since_ms + length_ms, expire, queue)
  queue.add(timeout)
  return timeout
}

/** A timeout, until it has expired or is cleared. */
export class Timeout {
  readonly expires_ms: number
  readonly expire: () => void
  /** Null once it has expired or is cleared. */
  queue: TimeoutQueue | null
  /** Its neighbours in the queue. */
  previous: Timeout | null = null
  next: Timeout | null = null

  constructor(expires_ms: number, expire: () => void, queue: TimeoutQueue) {
    this.expires_ms = expires_ms
    this.expire = expire
    this.queue = queue
  }

  clear(): void {
    this.queue?.remove(this)
  }
}

/** Timeouts of one length, with a timer for the first. Without a timeout there is no timer. */
class TimeoutQueue {
  #first: Timeout | null = null
  #last: Timeout | null = null
  #timer: Timer | undefined

  add(timeout: Timeout): void {
    // Behind those that expire earlier: a second attempt counts from when the first one began.
    let previous = this.#last
    while (previous !== null && previous.expires_ms > timeout.expires_ms) previous = previous.previous
    const next = previous === null ? this.#first : previous.next
    this.#link(previous, timeout)
    this.#link(timeout, next)
    if (previous === null) this.#wakeFor(timeout)
  }

  remove(timeout: Timeout): void {
    this.#link(timeout.previous, timeout.next)
    timeout.queue = timeout.previous = timeout.next = null
    if (this.#first === null) clearTimeout(this.#timer)
  }

  /** Makes two timeouts neighbours; null is the end of the queue. */
  #link(previous: Timeout | null, next: Timeout | null): void {
    if (previous === null) this.#first = next
    else previous.next = next
    if (next === null) this.#last = previous
    else next.previous = previous
  }

  #wakeFor({ expires_ms }: Timeout): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#expire(), Math.max(0, expires_ms - performance.now()))
  }

  /** The first one may have been cleared since the timer was set. */
  #expire(): void {
    const now_ms = performance.now()
    while (this.#first !== null && this.#first.expires_ms <= now_ms) {
      const { expire } = this.#first
      this.remove(this.#first)
      expire()
    }
    if (this.#first !== null) this.#wakeFor(this.#first)
  }
}
