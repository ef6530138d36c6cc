import { FeedGap } from "../ledger/entries.ts"
import type { LedgerLog } from "../ledger/events.ts"
import type { FeedPart } from "../ledger/feed/feed.ts"
import { columnsOf, placeOf, type SinkQueue, type SinkRow } from "../ledger/feed/sinks.ts"
import { eventBody } from "../routes/event-body.ts"
import type { FeedPlace } from "../wire/cursor.ts"
import { type Refusal, send } from "./webhook.ts"

/** The delivery of events to sinks (D96). */

/** The interval at which each database is asked for sinks and events. */
const LOOK_MS = 1_000
const PAGE = 64
/** Messages to one sink at a time. */
const PARALLEL = 8
/** The interval at which the place of a sink without events is written. */
const IDLE_MS = 60_000
/** Longest wait of `stop` for the database. */
const STOP_MS = 1_000
const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
/** The waits after failures in a row; the last one repeats. */
const RETRIES_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  12 * HOUR_MS,
] as const
/** A sink that has failed for so long stops. */
const GIVE_UP_MS = 7 * 24 * HOUR_MS

/** A sink that has taken an event since its last failure: the next failure is the first one again. */
const NOT_FAILING = { failures: 0, failing_since: null }

interface DeliveriesOptions {
  readonly queues: readonly SinkQueue[]
  readonly log: LedgerLog
  /** Called with each message to a sink: it was taken, or not. */
  sent?(sink: string, is_taken: boolean): void
  /** Replaced in tests. */
  readonly retries_ms?: readonly number[]
}

type Placed = FeedPart["events"][number]

/** Delivers events to the sinks that this process has claimed. Each sink is served by itself, so that none delays another. */
export class Deliveries {
  readonly #options: DeliveriesOptions
  readonly #stopping = new AbortController()
  readonly #running = new Map<string, Promise<void>>()
  readonly #lags = new Map<string, { readonly sink: string; since_ms: number | null }>()
  /** Those whose events could not be read, which is logged once. */
  readonly #unread = new Set<string>()
  readonly #idle_ms = new Map<string, number>()
  readonly #timer: Timer
  #looking: Promise<unknown> = Promise.resolve()
  #is_looking = false

  constructor(options: DeliveriesOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#lookAll(), LOOK_MS)
  }

  /** Seconds since the time of the oldest event that was not delivered, by sink: those of this process. */
  lags(): ReadonlyMap<string, number> {
    const lags = new Map<string, number>()
    for (const { sink, since_ms } of this.#lags.values()) {
      const lag_s = since_ms === null ? 0 : Math.max(0, (Date.now() - since_ms) / 1_000)
      lags.set(sink, Math.max(lags.get(sink) ?? 0, lag_s))
    }
    return lags
  }

  /** Aborts what is being sent, which will be sent again, and leaves the sinks to other gateways. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#stopping.abort()
    const left = async () => {
      await this.#looking
      await Promise.all(this.#running.values())
      await Promise.allSettled(this.#options.queues.map((queue) => queue.leave()))
    }
    // Without a database, the leases lapse.
    await Promise.race([left(), Bun.sleep(STOP_MS)])
  }

  #lookAll(): void {
    if (this.#is_looking || this.#stopping.signal.aborted) return
    this.#is_looking = true
    this.#looking = Promise.all(this.#options.queues.map((queue) => this.#look(queue))).finally(() => {
      this.#is_looking = false
    })
  }

  async #look(queue: SinkQueue): Promise<void> {
    try {
      // The place of a sink that is being served may be read before it is written.
      const served = new Set(this.#running.keys())
      const claimed = await queue.claim()
      const own = new Set(claimed.map((sink) => keyOf(queue, sink)))
      for (const key of this.#lags.keys())
        if (key.startsWith(`${queue.shard} `) && !own.has(key)) this.#lags.delete(key)
      for (const sink of claimed) if (sink.is_due && !served.has(keyOf(queue, sink))) this.#start(queue, sink)
      const waiting = claimed.filter((sink) => !sink.is_due && !this.#lags.has(keyOf(queue, sink)))
      await Promise.all(waiting.map((sink) => this.#readLag(queue, sink)))
    } catch {
      // The ledger says in the log that its database is unavailable. The next look asks again.
    }
  }

  async #readLag(queue: SinkQueue, sink: SinkRow): Promise<void> {
    try {
      this.#noteLag(queue, sink, await queue.events(sink, 1))
    } catch (error) {
      await this.#failed(queue, sink, error)
    }
  }

  #noteLag(queue: SinkQueue, sink: SinkRow, { events: [first] }: Pick<FeedPart, "events">): void {
    this.#unread.delete(keyOf(queue, sink))
    this.#lags.set(keyOf(queue, sink), { sink: sink.name, since_ms: first?.at.getTime() ?? null })
  }

  #start(queue: SinkQueue, sink: SinkRow): void {
    const key = keyOf(queue, sink)
    if (this.#stopping.signal.aborted) return
    const running = this.#deliver(queue, sink).catch((error: unknown) => this.#failed(queue, sink, error))
    this.#running.set(
      key,
      running.finally(() => this.#running.delete(key)),
    )
  }

  /** Delivers all events that there are, until one fails. */
  async #deliver(queue: SinkQueue, sink: SinkRow): Promise<void> {
    const key = keyOf(queue, sink)
    let at = sink
    for (;;) {
      const { events, next } = await queue.events(at, PAGE)
      this.#noteLag(queue, sink, { events })
      if (events.length === 0) {
        const last_ms = this.#idle_ms.get(key) ?? Number.NEGATIVE_INFINITY
        if (performance.now() - last_ms < IDLE_MS) return
        this.#idle_ms.set(key, performance.now())
        await queue.delivered(at, next, true)
        return
      }
      // Asked after the events: an event that comes after a change of the sink is sent as the change says.
      if (!(await queue.isCurrent(at))) return
      for (let first = 0; first < events.length; first += PARALLEL) {
        const chunk = events.slice(first, first + PARALLEL)
        if (!(await this.#deliverSome(queue, at, chunk))) return
        const { place } = chunk.at(-1) ?? { place: next }
        at = { ...at, ...columnsOf(place), ...NOT_FAILING }
      }
    }
  }

  /** Sends some events at a time, and records up to where all were taken. False if one was not. */
  async #deliverSome(queue: SinkQueue, sink: SinkRow, events: readonly Placed[]): Promise<boolean> {
    const refusals = await Promise.all(events.map((event) => this.#send(sink, event)))
    if (this.#stopping.signal.aborted) return false
    const refused = refusals.findIndex((refusal) => refusal !== null)
    const refusal = refusals[refused] ?? null
    const taken = refusal === null ? events : events.slice(0, refused)
    const place = taken.at(-1)?.place ?? placeOf(sink)
    if (refusal === null) return queue.delivered(sink, place)
    const fresh = taken.length > 0 ? { ...sink, ...NOT_FAILING } : sink
    if (taken.length > 0 && !(await queue.delivered(sink, place))) return false
    await this.#refused(queue, fresh, place, refusal)
    return false
  }

  async #send(sink: SinkRow, event: Placed): Promise<Refusal> {
    const body = eventBody(event)
    const is_old_valid = sink.old_until !== null && sink.old_until.getTime() > Date.now()
    const secrets = [sink.secret, ...(is_old_valid && sink.old_secret !== null ? [sink.old_secret] : [])]
    const { url, allow_private } = sink
    const message = { id: body.id, body: JSON.stringify(body) }
    const refusal = await send(message, { url, allow_private, secrets }, this.#stopping.signal)
    if (!this.#stopping.signal.aborted) this.#options.sent?.(sink.name, refusal === null)
    return refusal
  }

  async #refused(
    queue: SinkQueue,
    sink: SinkRow,
    place: FeedPlace,
    { reason, is_gone }: NonNullable<Refusal>,
  ): Promise<void> {
    const { log, retries_ms = RETRIES_MS } = this.#options
    const since_ms = sink.failing_since?.getTime() ?? Date.now()
    const is_over = is_gone || Date.now() - since_ms > GIVE_UP_MS
    const retry_ms = is_over ? null : (retries_ms[sink.failures] ?? retries_ms.at(-1) ?? null)
    if (!(await queue.failed(sink, place, reason, retry_ms))) return
    const fields = { sink: sink.name, reason, failures: sink.failures + 1 }
    if (retry_ms === null) log.error(fields, "a sink of events was stopped: no event is delivered to it")
    else log.warn({ ...fields, retry_ms }, "an event was not delivered: it will be sent again")
  }

  async #failed(queue: SinkQueue, sink: SinkRow, error: unknown): Promise<void> {
    if (error instanceof FeedGap) {
      const refusal = { reason: error.message, is_gone: true }
      await this.#refused(queue, sink, placeOf(sink), refusal).catch(() => {})
    } else if (!this.#stopping.signal.aborted && !this.#unread.has(keyOf(queue, sink))) {
      this.#unread.add(keyOf(queue, sink))
      const code = queue.codeOf(error)
      this.#options.log.warn(
        { sink: sink.name, code },
        "the events of a sink could not be read: they will be read again",
      )
    }
  }
}

const keyOf = (queue: SinkQueue, { id }: SinkRow) => `${queue.shard} ${id}`
