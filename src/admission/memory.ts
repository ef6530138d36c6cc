import { totalmem } from "node:os"
import { COPIES, type Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { FairShare, Waiters } from "../ledger/database/fair-share.ts"
import { LARGE_BYTES } from "../wire/buffers.ts"
import { type EndOfWait, UnreadBodies } from "./unread-bodies.ts"

type Limits = Pick<Config["limits"], "memory_bytes" | "body_bytes">
/** Freed memory above this is collected after a second, even if no request needs it. */
const COLLECT_BYTES = 67_108_864
const COLLECT_MS = 1_000
/**
 * The time between collections that stop the event loop, as a multiple of the last one's duration, so that they take 1
 * % of the time.
 */
const COLLECTIONS_APART = 100
/** An account with at most this part of the memory does not wait for memory. Answers leave the same part for bodies. */
const LITTLE = 1 / 16
/**
 * Up to this multiple of the memory one answer at a time is still read, because otherwise answers in part could wait
 * for each other.
 */
const ONE_BY_ONE = 3 / 2
/** Default of `limits.memory`: this part of the memory that the processes of the gateway may use. */
const DEFAULT_PART = 4

/** The default of `limits.memory` for one of so many processes, by the cgroup's limit if there is one. */
export function defaultMemoryBytes(processes: number): number {
  const limit_bytes = process.constrainedMemory()
  const all_bytes = limit_bytes > 0 ? Math.min(limit_bytes, totalmem()) : totalmem()
  return Math.floor(all_bytes / DEFAULT_PART / processes)
}

/** The memory for bodies and answers (D77), shared by accounts (D78). Freed parts count until collected. */
export class Memory {
  readonly pace = new Pace()
  readonly unread: UnreadBodies
  readonly #default_bytes: number
  readonly #share = new FairShare()
  /** Bytes of answers, which may be more than the limit. */
  #answer_bytes = 0
  /** Answers that are being read and do not wait. */
  #reading = 0
  /** By account, in the order of their turns (D78). */
  readonly #waiting = new Map<string, Set<AnswerMemory>>()
  /** By account, the memory that large bodies freed since the last collection that was waited for. */
  #freed = new FairShare()
  /** Bytes that were freed since any collection. */
  #garbage_bytes = 0
  /** The earliest time of the next collection that stops the event loop, by the clock of `performance.now`. */
  #collect_at_ms = 0
  #due: Timer | undefined
  #collecting: Promise<void> | null = null

  constructor(default_bytes: number) {
    this.#default_bytes = default_bytes
    this.unread = new UnreadBodies(default_bytes)
  }

  /** The memory for one request. The default limit always has room for one body. */
  of(account_id: string, limits: Limits): MemoryPart {
    return new MemoryPart(this, account_id, this.#limitOf(limits))
  }

  answer(account_id: string, limits: Limits): AnswerMemory {
    return new AnswerMemory(this, account_id, this.#limitOf(limits))
  }

  /** The memory for an answer that is made whole before it is sent (D113). */
  made(account_id: string, limits: Limits): MadeAnswerMemory {
    return new MadeAnswerMemory(this, account_id, this.#limitOf(limits))
  }

  #limitOf({ memory_bytes, body_bytes }: Limits): number {
    return memory_bytes ?? Math.max(this.#default_bytes, COPIES * body_bytes)
  }

  /** Counts a body that waits for the ledger, as `UnreadBodies` does. Throws `overloaded` if there is no memory for it. */
  wait(headers: Headers, address: string | null): EndOfWait {
    const done = this.unread.wait(headers, address)
    if (done === null) throw noMemory()
    return done
  }

  /**
   * Takes bytes for a body. False if they are refused, null if they are free now, otherwise a promise that resolves
   * once freed memory was collected. An account that has and freed little does not wait for what others freed (D78).
   * Answers leave a part of the limit to bodies, and accounts share that part.
   */
  take(account_id: string, bytes: number, limit_bytes: number): Promise<void> | null | false {
    const freed_bytes = this.#freed.used
    const capacity = Math.max(limit_bytes, this.#answer_bytes + limit_bytes * LITTLE)
    if (this.#share.acquire(account_id, bytes, capacity - freed_bytes)) return null
    if (freed_bytes === 0 || !this.#share.acquire(account_id, bytes, capacity)) return false
    const has_little = this.#share.of(account_id) + this.#freed.of(account_id) <= limit_bytes * LITTLE
    const collected = this.#collect()
    return has_little ? null : collected
  }

  /** Takes bytes for an answer. False if the answer must wait for them. */
  takeAnswer(account_id: string, bytes: number, limit_bytes: number, is_reading: boolean): boolean {
    const share = this.#share
    const has_little = share.of(account_id) + bytes <= limit_bytes * LITTLE
    const is_alone = this.#reading === (is_reading ? 1 : 0) && share.used <= limit_bytes * ONE_BY_ONE
    if (!has_little && !is_alone && !share.has(account_id, bytes, limit_bytes)) return false
    this.#answer_bytes += bytes
    share.add(account_id, bytes)
    return true
  }

  /** Takes bytes for a made answer (D113). False if the account would then have more than the rest that is free. */
  takeMade(account_id: string, bytes: number, limit_bytes: number): boolean {
    const share = this.#share
    if (share.of(account_id) + bytes > limit_bytes - share.used - bytes) return false
    this.#answer_bytes += bytes
    share.add(account_id, bytes)
    return true
  }

  answerReads(is_reading: boolean): void {
    this.#reading += is_reading ? 1 : -1
    if (!is_reading) this.#retryAnswers()
  }

  /** Queues an answer, and calls its `retry` when there may be memory for it. */
  addWaiting(account_id: string, answer: AnswerMemory): void {
    const waiting = this.#waiting.get(account_id)
    if (waiting === undefined) this.#waiting.set(account_id, new Set([answer]))
    else waiting.add(answer)
    this.#retryAnswers()
  }

  removeWaiting(account_id: string, answer: AnswerMemory): void {
    const waiting = this.#waiting.get(account_id)
    waiting?.delete(answer)
    this.#waiting.delete(account_id)
    if (waiting !== undefined && waiting.size > 0) this.#waiting.set(account_id, waiting)
  }

  /**
   * Retries the first answer of each account. An account whose answer gets its memory goes to the end of the turns, so
   * this loop reaches it again.
   */
  #retryAnswers(): void {
    for (const [first] of this.#waiting.values()) first?.retry()
  }

  /** Frees bytes of an answer. `are_free`: they need no garbage collection. */
  removeAnswer(account_id: string, bytes: number, are_free: boolean): void {
    this.#answer_bytes -= bytes
    if (are_free) this.discard(account_id, bytes)
    else this.release(account_id, bytes)
  }

  /** Frees memory that needs no garbage collection. */
  discard(account_id: string, bytes: number): void {
    this.#share.release(account_id, bytes)
    this.#retryAnswers()
  }

  release(account_id: string, bytes: number): void {
    this.discard(account_id, bytes)
    if (bytes < LARGE_BYTES) return
    this.#freed.add(account_id, bytes)
    this.#garbage_bytes += bytes
    if (this.#garbage_bytes < COLLECT_BYTES) return
    this.#due ??= setTimeout(() => this.#collectNow(false), COLLECT_MS).unref()
  }

  /** Resolves once freed memory was collected. */
  #collect(): Promise<void> {
    this.#collecting ??= this.#collection()
    return this.#collecting
  }

  async #collection(): Promise<void> {
    const wait_ms = Math.max(0, this.#collect_at_ms - performance.now())
    await new Promise((resolve) => setTimeout(resolve, wait_ms).unref())
    const began_ms = performance.now()
    this.#collectNow(true)
    const ended_ms = performance.now()
    this.#collect_at_ms = ended_ms + Math.max(COLLECT_MS, (ended_ms - began_ms) * COLLECTIONS_APART)
    this.#freed = new FairShare()
    this.#collecting = null
  }

  /** Collects now. The event loop stops for about a fifth of the time if it does not wait for the end. */
  #collectNow(waits: boolean): void {
    clearTimeout(this.#due)
    this.#due = undefined
    this.#garbage_bytes = 0
    Bun.gc(waits)
  }
}

/** The memory of a process that one account has taken. */
abstract class AccountMemory {
  protected readonly memory: Memory
  protected readonly account_id: string
  protected readonly limit_bytes: number

  constructor(memory: Memory, account_id: string, limit_bytes: number) {
    this.memory = memory
    this.account_id = account_id
    this.limit_bytes = limit_bytes
  }
}

export class MemoryPart extends AccountMemory {
  #bytes = 0
  #freed = false

  /**
   * Takes the memory that so many bytes of a body need. Resolves when the reader may continue; null if now. Throws
   * `overloaded` without memory, or if the part was freed.
   */
  take(body_bytes: number): Promise<void> | null {
    const bytes = body_bytes * COPIES
    this.#checkOpen()
    const taken = this.memory.take(this.account_id, bytes, this.limit_bytes)
    if (taken === false) throw noMemory()
    this.#bytes += bytes
    return taken === null ? null : taken.then(() => this.#checkOpen())
  }

  /** Counts read bytes of a large body, or the work of a whole turn. Resolves when the reader may continue; null if now. */
  read(bytes?: number): Promise<void> | null {
    return this.memory.pace.read(this.account_id, bytes)
  }

  /** Frees the memory of so many bytes of a body, or of all of it, which needs no garbage collection. */
  discard(body_bytes = Number.POSITIVE_INFINITY): void {
    const bytes = Math.min(body_bytes * COPIES, this.#bytes)
    this.memory.discard(this.account_id, bytes)
    this.#bytes -= bytes
  }

  /** Frees everything. Idempotent. */
  free(): void {
    this.#freed = true
    if (this.#bytes > 0) this.memory.release(this.account_id, this.#bytes)
    this.#bytes = 0
  }

  #checkOpen(): void {
    if (this.#freed) throw noMemory()
  }
}

/** The memory of an answer that is made whole before it is sent (D113). */
export class MadeAnswerMemory extends AccountMemory {
  #length = 0
  /** Bytes that count. */
  #bytes = 0
  #freed = false

  /**
   * Takes memory for more bytes; a total below `LARGE_BYTES` counts as 0. Throws `overloaded` without memory, or if it
   * was freed, and `invalid_request` if the answer can never fit.
   */
  take(bytes: number): void {
    this.#length += bytes
    if (this.#length < LARGE_BYTES) return
    if (this.#length * 2 > this.limit_bytes) throw new GatewayError("invalid_request", { message: TOO_LARGE })
    const more = this.#length - this.#bytes
    if (this.#freed || !this.memory.takeMade(this.account_id, more, this.limit_bytes))
      throw noMemory("answer")
    this.#bytes = this.#length
  }

  /** Frees all of it. Idempotent. */
  free(): void {
    this.#freed = true
    this.memory.removeAnswer(this.account_id, this.#bytes, false)
    this.#bytes = 0
  }
}

const TOO_LARGE =
  "This answer is too large. Choose a shorter range, fewer dimensions or a lower `limit`, or raise `limits.memory` of the gateway."

function noMemory(what = "request body"): GatewayError {
  return new GatewayError("overloaded", {
    message: `The gateway has no memory for this ${what} now. Retry in a few seconds.`,
  })
}

/**
 * Longer than a client may stop reading (D31), because such a client's answer may have the memory that another one
 * waits for.
 */
const WAIT_MS = 75_000

/** The memory of an answer, until its client has taken it or left. */
export class AnswerMemory extends AccountMemory {
  #bytes = 0
  #is_reading = false
  /** The bytes that the answer waits for; null if it does not wait. */
  #wanted: { readonly bytes: number; readonly end: (is_there: boolean) => void } | null = null

  /**
   * Sets the size of the answer so far; a size below `LARGE_BYTES` counts as 0. Null if there is memory for it.
   * Otherwise resolves with true once there is, or with false after `WAIT_MS` or `stop`.
   */
  hold(answer_bytes: number): Promise<boolean> | null {
    const more = (answer_bytes < LARGE_BYTES ? 0 : answer_bytes) - this.#bytes
    if (more < 0) this.#remove(-more, true)
    // The rest may still be read, but is not kept.
    if (this.#bytes === 0) this.#setReading(false)
    if (more <= 0 || this.#take(more)) return null
    this.#setReading(false)
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.stop(), WAIT_MS).unref()
      const end = (is_there: boolean) => {
        clearTimeout(timer)
        this.#wanted = null
        this.memory.removeWaiting(this.account_id, this)
        resolve(is_there)
      }
      this.#wanted = { bytes: more, end }
      this.memory.addWaiting(this.account_id, this)
    })
  }

  /** Takes the bytes that the answer waits for. True if it got them. */
  retry(): boolean {
    if (this.#wanted === null || !this.#take(this.#wanted.bytes)) return false
    this.#wanted.end(true)
    return true
  }

  /** Ends the wait and the reading, because the answer is complete or nobody wants the rest. */
  stop(): void {
    this.#wanted?.end(false)
    this.#setReading(false)
  }

  /** Frees all bytes, which need a garbage collection. Idempotent. */
  free(): void {
    this.stop()
    if (this.#bytes > 0) this.#remove(this.#bytes, false)
  }

  #take(bytes: number): boolean {
    if (!this.memory.takeAnswer(this.account_id, bytes, this.limit_bytes, this.#is_reading)) return false
    this.#bytes += bytes
    this.#setReading(true)
    return true
  }

  #remove(bytes: number, are_free: boolean): void {
    this.#bytes -= bytes
    this.memory.removeAnswer(this.account_id, bytes, are_free)
  }

  #setReading(is_reading: boolean): void {
    if (is_reading === this.#is_reading) return
    this.#is_reading = is_reading
    this.memory.answerReads(is_reading)
  }
}

/** The bytes of bodies, answers and streams that are read in a turn of the event loop, about 0.5 ms. */
const TURN_BYTES = 262_144
/** Of these, the bytes that an account gets before the next one: those of eight calls. */
const ACCOUNT_TURN_BYTES = 16_384

/** Bounds the bytes that are read in a turn of the event loop. Accounts take turns (D78). */
export class Pace {
  #left_bytes = TURN_BYTES
  #is_ticking = false
  readonly #waiters = new Waiters(ACCOUNT_TURN_BYTES)

  /** Counts bytes to read, or the work of a whole turn. Resolves when the reader may continue; null if now. */
  read(account_id: string, bytes = TURN_BYTES): Promise<void> | null {
    const is_free = bytes < this.#left_bytes
    if (is_free) this.#left_bytes -= bytes
    // Only after half of the bytes, because it costs more than to count a small part.
    if (!is_free || this.#left_bytes < TURN_BYTES / 2) this.#startTicking()
    return is_free ? null : this.#waiters.wait(account_id, bytes)
  }

  #startTicking(): void {
    if (!this.#is_ticking) setImmediate(this.#tick)
    this.#is_ticking = true
  }

  readonly #tick = (): void => {
    this.#is_ticking = false
    this.#left_bytes = Math.min(this.#left_bytes + TURN_BYTES, TURN_BYTES)
    while (this.#left_bytes > 0) {
      const bytes = this.#waiters.next()
      if (bytes === 0) return
      // Bounded, because otherwise all others would wait for many large answers.
      this.#left_bytes = Math.max(this.#left_bytes - bytes, -TURN_BYTES)
    }
    this.#startTicking()
  }
}
