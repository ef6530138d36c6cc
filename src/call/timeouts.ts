/**
 * The timeouts of calls, nearly all of which are cleared. Those of one length wait in a list in the order in which they
 * expire, and all share a timer. A timer for each would cost a JSON call more than 1 us.
 */

const queues = new Map<number, TimeoutQueue>()

/** The time for which the timer may stay set after the last timeout was cleared, because clearing one does not touch it. */
const LOOK_MS = 1_000
let timer: Timer | undefined
let wakes_ms = Number.POSITIVE_INFINITY

/** Calls `expire` `length_ms` after `since_ms` (`performance.now`). Each length ever used stays in memory. */
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
  wakeFor(timeout)
  return timeout
}

/** Sets the timer for a timeout, unless it is set for an earlier moment. */
function wakeFor({ expires_ms }: Timeout): void {
  if (expires_ms >= wakes_ms) return
  const now_ms = performance.now()
  const at_ms = Math.min(expires_ms, now_ms + LOOK_MS)
  if (at_ms >= wakes_ms) return
  clearTimeout(timer)
  wakes_ms = at_ms
  timer = setTimeout(expireDue, Math.max(0, at_ms - now_ms))
}

function expireDue(): void {
  wakes_ms = Number.POSITIVE_INFINITY
  const now_ms = performance.now()
  try {
    for (const queue of queues.values()) queue.expire(now_ms)
  } finally {
    for (const { first } of queues.values()) if (first !== null) wakeFor(first)
  }
}

export class Timeout {
  readonly expires_ms: number
  readonly expire: () => void
  /** Null once it has expired or is cleared. */
  queue: TimeoutQueue | null
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

/** Timeouts of one length, in the order in which they expire. */
class TimeoutQueue {
  first: Timeout | null = null
  #last: Timeout | null = null

  add(timeout: Timeout): void {
    // Behind those that expire earlier: a second attempt counts from when the first one began.
    let previous = this.#last
    while (previous !== null && previous.expires_ms > timeout.expires_ms) previous = previous.previous
    const next = previous === null ? this.first : previous.next
    this.#link(previous, timeout)
    this.#link(timeout, next)
  }

  remove(timeout: Timeout): void {
    this.#link(timeout.previous, timeout.next)
    timeout.queue = timeout.previous = timeout.next = null
  }

  expire(now_ms: number): void {
    while (this.first !== null && this.first.expires_ms <= now_ms) {
      const { expire } = this.first
      this.remove(this.first)
      expire()
    }
  }

  /** Makes two timeouts neighbours; null is the end of the queue. */
  #link(previous: Timeout | null, next: Timeout | null): void {
    if (previous === null) this.first = next
    else previous.next = next
    if (next === null) this.#last = previous
    else next.previous = previous
  }
}
