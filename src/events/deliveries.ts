import { FeedGap } from "../ledger/entries.ts"
import type { LedgerLog } from "../ledger/events.ts"
import type { FeedPart } from "../ledger/feed/feed.ts"
import { placeOf, type SinkQueue, type SinkRow } from "../ledger/feed/sinks.ts"
import { eventBody } from "../routes/event-body.ts"
import type { FeedPlace } from "../wire/cursor.ts"
import type { EventBody } from "../wire/events.ts"
import type { OneOrMore } from "../wire/list.ts"
import type { SinkKind, SkippedEvent } from "../wire/sink-kinds.ts"
import { printTime } from "../wire/time.ts"
import { lago } from "./lago.ts"
import { openmeter } from "./openmeter.ts"
import { post, type SinkAnswer } from "./post.ts"
import type { Meaning, SinkKindOf } from "./sink-kind.ts"
import { stripe } from "./stripe.ts"
import { webhook } from "./webhook.ts"

/** The delivery of events to sinks (D96). */

/** The interval at which a database with sinks of this process is asked for events. */
const LOOK_MS = 1_000
/** The interval at which a database without any is asked for sinks. There is no LISTEN through a pooler. */
const SEARCH_MS = 5_000
const PAGE = 64
const PARALLEL = 8
/** Failures of an event before it is skipped, the last two of them refusals for ever. */
const REFUSALS = 3
/** The interval at which the place of a sink without events is written. */
const IDLE_MS = 60_000
/** Longest wait of `stop` for answers, and then for the database. */
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
const GIVE_UP_MS = 7 * 24 * HOUR_MS

interface DeliveriesOptions {
  readonly queues: readonly SinkQueue[]
  readonly log: LedgerLog
  /** Called with the events of each request to a sink. */
  sent?(sink: string, outcome: "taken" | "refused" | "skipped", count: number): void
  /** Replaced in tests. */
  readonly retries_ms?: readonly number[]
  /** Both intervals of looks; replaced in tests. */
  readonly look_ms?: number
}

const kinds: Readonly<Record<SinkKind, SinkKindOf>> = { webhook, openmeter, stripe, lago }

interface Unsent {
  readonly refused: OutgoingEvent
  readonly reason: string
  readonly meaning: Exclude<Meaning, "taken">
  /** True if it has no answer because the gateway stops. */
  readonly is_unsent?: boolean
}

const STOPPED = "a sink of events was stopped: no event is delivered to it"

/** An event that a sink gets, with its place among the others. */
interface OutgoingEvent {
  readonly event: EventBody
  readonly at: number
  readonly place: FeedPlace
}

/** Delivers events to the sinks that this process has claimed. Each sink is served by itself, so that none delays another. */
export class Deliveries {
  readonly #options: DeliveriesOptions
  #is_stopping = false
  readonly #aborting = new AbortController()
  readonly #running = new Map<string, Promise<void>>()
  readonly #lags = new Map<string, { readonly sink: string; since_ms: number | null }>()
  /** Ids of sinks that may have taken events whose answers the stop of this gateway did not wait for. */
  readonly #unanswered = new Set<string>()
  /** Those whose events could not be read, which is logged once. */
  readonly #unread = new Set<string>()
  readonly #idle_ms = new Map<string, number>()
  /** Times of the next question to databases without sinks of this process. */
  readonly #search_at_ms = new Map<SinkQueue, number>()
  readonly #timer: Timer
  /** Each database is asked by itself, so that one that does not answer delays no sink of another. */
  readonly #looking = new Map<SinkQueue, Promise<void>>()

  constructor(options: DeliveriesOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#lookAll(), options.look_ms ?? LOOK_MS)
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

  /** Waits a moment for answers, records what was taken, and leaves the sinks. What is aborted will be sent again. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#is_stopping = true
    await Promise.race([Promise.all(this.#running.values()), Bun.sleep(STOP_MS)])
    this.#aborting.abort()
    const left = this.#options.queues.map(async (queue) => {
      await this.#looking.get(queue)
      await Promise.all([...this.#running].flatMap(([key, running]) => (isOf(queue, key) ? [running] : [])))
      await queue.leave([...this.#unanswered])
    })
    // Without a database, the leases lapse.
    await Promise.race([Promise.allSettled(left), Bun.sleep(STOP_MS)])
  }

  #lookAll(): void {
    const now_ms = performance.now()
    for (const queue of this.#options.queues) {
      if (this.#looking.has(queue) || now_ms < (this.#search_at_ms.get(queue) ?? 0)) continue
      const looking = this.#look(queue).finally(() => this.#looking.delete(queue))
      this.#looking.set(queue, looking)
    }
  }

  async #look(queue: SinkQueue): Promise<void> {
    try {
      // The place of a sink that is being served may be read before it is written.
      const served = new Set(this.#running.keys())
      const claimed = await queue.claim()
      if (claimed.length > 0) this.#search_at_ms.delete(queue)
      else this.#search_at_ms.set(queue, performance.now() + (this.#options.look_ms ?? SEARCH_MS))
      const own = new Set(claimed.map((sink) => keyOf(queue, sink)))
      for (const key of this.#lags.keys()) if (isOf(queue, key) && !own.has(key)) this.#lags.delete(key)
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
    if (this.#is_stopping) return
    const running = this.#deliver(queue, sink).catch((error: unknown) => this.#failed(queue, sink, error))
    this.#running.set(
      key,
      running.finally(() => this.#running.delete(key)),
    )
  }

  /** Delivers all events that there are, until one fails. */
  async #deliver(queue: SinkQueue, sink: SinkRow): Promise<void> {
    const key = keyOf(queue, sink)
    const kind = kinds[sink.kind]
    let at = sink
    for (;;) {
      const { start, events, next } = await queue.events(at, PAGE)
      this.#noteLag(queue, sink, { events })
      if (this.#is_stopping) return
      if (events.length === 0) {
        const last_ms = this.#idle_ms.get(key) ?? Number.NEGATIVE_INFINITY
        if (performance.now() - last_ms < IDLE_MS) return
        this.#idle_ms.set(key, performance.now())
        await queue.delivered(at, next, true)
        return
      }
      // Asked after the events: an event that comes after a change of the sink is sent as the change says.
      if (!(await queue.isCurrent(at))) return
      if (
        at.failing_since !== null &&
        Date.now() - at.failing_since.getTime() > (kind.give_up_ms ?? GIVE_UP_MS)
      )
        return this.#stopped(queue, at, placeOf(at), `it failed for too long: ${at.reason ?? ""}`)
      const step = kind.most_events === 1 ? PARALLEL : PAGE
      for (let first = 0; first < events.length; first += step) {
        const chunk = events.slice(first, first + step)
        const reached = await this.#deliverSome(queue, at, first === 0 ? start : placeOf(at), chunk)
        if (reached === null || this.#is_stopping) return
        at = reached
      }
    }
  }

  /** Sends the events after a place, some at a time, and records up to where all were taken. The sink then; null if one was not. */
  async #deliverSome(
    queue: SinkQueue,
    sink: SinkRow,
    start: FeedPlace,
    placed: FeedPart["events"],
  ): Promise<SinkRow | null> {
    const kind = kinds[sink.kind]
    const events = placed.map((event, at) => ({ event: eventBody(event), at, place: event.place }))
    const outgoing = events.filter(({ event }) => kind.is_for(event))
    const requests = groupsOf(outgoing, kind.most_events)
    const turns = Map.groupBy(requests, ([first]) => (kind.in_turn ? first.event.subject : first.at))
    const found = await Promise.all(turns.values().map((each) => this.#sendInTurn(kind, sink, each)))
    const refusal = firstOf(found)
    const upTo = (count: number) => events[count - 1]?.place ?? start
    const taken = (count: number, is_idle: boolean) =>
      this.#taken(queue, sink, events.slice(0, count), is_idle)
    if (refusal === null) return taken(events.length, outgoing.length === 0)
    const { at } = refusal.refused
    const has_taken = outgoing.some((one) => one.at < at)
    const reached = at > 0 ? await taken(at, !has_taken) : sink
    if (reached === null || refusal.is_unsent) return null
    await this.#refused(queue, reached, refusal, upTo(at), upTo(at + 1))
    return null
  }

  /** Records events as delivered, and those among them that the sink would always refuse as skipped. */
  async #taken(
    queue: SinkQueue,
    sink: SinkRow,
    events: readonly OutgoingEvent[],
    is_idle: boolean,
  ): Promise<SinkRow | null> {
    const passed = events.flatMap(({ event }) => {
      const reason = kinds[sink.kind].faultOf?.(event) ?? null
      return reason === null ? [] : [skippedEvent(event, reason)]
    })
    const by_reason = new Map(passed.map((one) => [one.reason, one]))
    const place = events.at(-1)?.place ?? placeOf(sink)
    const reached = await queue.delivered(sink, place, is_idle, [...by_reason.values()])
    if (reached === null || passed.length === 0) return reached
    this.#options.sent?.(sink.name, "skipped", passed.length)
    for (const { reason, id } of by_reason.values())
      if (!sink.skipped.some((one) => one.reason === reason))
        this.#options.log.warn({ sink: sink.name, event: id, reason }, "the events of an account are skipped")
    return reached
  }

  /** Sends requests one after another, up to the first of which an event is not taken. Null if all were. */
  async #sendInTurn(
    kind: SinkKindOf,
    sink: SinkRow,
    requests: readonly OneOrMore<OutgoingEvent>[],
  ): Promise<Unsent | null> {
    for (const each of requests) {
      const unsent = this.#is_stopping ? notSent(each) : await this.#send(kind, sink, each)
      if (unsent !== null) return unsent
    }
    return null
  }

  /** Sends events as one request; one by one, if they are refused for ever together. Null if all were taken. */
  async #send(kind: SinkKindOf, sink: SinkRow, outgoing: OneOrMore<OutgoingEvent>): Promise<Unsent | null> {
    const [first, ...others] = outgoing
    const events: OneOrMore<EventBody> = [first.event, ...others.map(({ event }) => event)]
    const is_old_valid = sink.old_until !== null && sink.old_until.getTime() > Date.now()
    const { url, allow_private, secret, old_secret, meter } = sink
    const secrets: OneOrMore<string> = [secret, ...(is_old_valid && old_secret !== null ? [old_secret] : [])]
    const options = { allow_private, reads: kind.reads }
    const answer = await post(kind.request(events, { url, secrets, meter }), options, this.#aborting.signal)
    const { meaning, reason } = meaningOf(kind, answer, events)
    if (meaning === "never" && others.length > 0) {
      const alone = outgoing.map((one): OneOrMore<OutgoingEvent> => [one])
      return this.#sendInTurn(kind, sink, alone)
    }
    const is_taken = meaning === "taken"
    if (!is_taken && this.#aborting.signal.aborted) {
      this.#unanswered.add(sink.id)
      return notSent(outgoing)
    }
    this.#options.sent?.(sink.name, is_taken ? "taken" : "refused", events.length)
    return is_taken ? null : { refused: first, reason, meaning }
  }

  /** Handles a refusal of the event after the place `before`; `after` is the place after it. */
  async #refused(
    queue: SinkQueue,
    sink: SinkRow,
    { refused: { event }, reason, meaning }: Unsent,
    before: FeedPlace,
    after: FeedPlace,
  ): Promise<void> {
    const { log, retries_ms = RETRIES_MS } = this.#options
    if (meaning === "gone") return this.#stopped(queue, sink, before, reason)
    // After a restart of the database, events that were taken come again before the one that failed.
    const failed_before = isSameEvent(before, sink) ? sink.failures : 0
    const failures = failed_before + 1
    if (meaning === "never" && failures >= REFUSALS && sink.reason === reason) {
      const { id } = event
      const goes_on = await queue.skipped(sink, after, skippedEvent(event, reason))
      if (goes_on === null) return
      this.#options.sent?.(sink.name, "skipped", 1)
      log.error({ sink: sink.name, event: id, reason }, "a sink refused an event for ever: it was skipped")
      if (!goes_on) log.error({ sink: sink.name, reason }, STOPPED)
      return
    }
    // Soon: an event that is refused for ever must not hold back those of others for long.
    const wait = meaning === "never" ? 0 : failed_before
    const retry_ms = retries_ms[wait] ?? retries_ms.at(-1) ?? null
    if (!(await queue.failed(sink, before, { reason, failures, retry_ms }))) return
    const fields = { sink: sink.name, reason, failures, retry_ms }
    log.warn(fields, "an event was not delivered: it will be sent again")
  }

  async #stopped(queue: SinkQueue, sink: SinkRow, place: FeedPlace, reason: string): Promise<void> {
    const failures = sink.failures + 1
    if (await queue.failed(sink, place, { reason, failures, retry_ms: null }))
      this.#options.log.error({ sink: sink.name, reason, failures }, STOPPED)
  }

  async #failed(queue: SinkQueue, sink: SinkRow, error: unknown): Promise<void> {
    if (error instanceof FeedGap) {
      await this.#stopped(queue, sink, placeOf(sink), error.message).catch(() => {})
    } else if (!this.#is_stopping && !this.#unread.has(keyOf(queue, sink))) {
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
const isOf = (queue: SinkQueue, key: string) => key.startsWith(`${queue.shard} `)

/** True if the event after the place is the one after the sink's. */
const isSameEvent = (place: FeedPlace, sink: SinkRow) =>
  place.is_restored === sink.is_restored && place.xid === sink.xid && place.id === sink.event_id

const notSent = ([refused]: OneOrMore<OutgoingEvent>): Unsent => ({
  refused,
  reason: "the gateway stops",
  meaning: "again",
  is_unsent: true,
})

const skippedEvent = ({ id, source, type }: EventBody, reason: string): SkippedEvent => ({
  id,
  source,
  type,
  at: printTime(new Date()),
  reason,
})

/** The one before which every event was taken: in each turn, nothing was sent after an event that was not. */
const firstOf = (unsent: readonly (Unsent | null)[]) =>
  unsent
    .filter((one) => one !== null)
    .reduce<Unsent | null>((first, one) => (first && first.refused.at < one.refused.at ? first : one), null)

function meaningOf(
  kind: SinkKindOf,
  answer: SinkAnswer,
  sent: readonly EventBody[],
): { readonly meaning: Meaning; readonly reason: string } {
  if ("reason" in answer) return { meaning: "again", reason: answer.reason }
  const is_taken = answer.status >= 200 && answer.status < 300
  return { meaning: is_taken ? "taken" : kind.meaning(answer, sent), reason: `status ${answer.status}` }
}

function groupsOf(outgoing: readonly OutgoingEvent[], most: number): OneOrMore<OutgoingEvent>[] {
  const groups: OneOrMore<OutgoingEvent>[] = []
  for (let first = 0; first < outgoing.length; first += most) {
    const [one, ...others] = outgoing.slice(first, first + most)
    if (one !== undefined) groups.push([one, ...others])
  }
  return groups
}
