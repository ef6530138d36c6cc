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
export function deliveriesTo(options: DeliveriesOptions) {
  const aborting = new AbortController()
  // Each database is asked by itself, so that one that does not answer delays no sink of another.
  const shards = options.queues.map((queue) => shardDeliveries(queue, options, aborting.signal))
  const timer = setInterval(() => {
    for (const shard of shards) shard.look()
  }, options.look_ms ?? LOOK_MS)
  return {
    /** Seconds since the time of the oldest event that was not delivered, by sink: those of this process. */
    lags(): ReadonlyMap<string, number> {
      const lags = new Map<string, number>()
      for (const { sink, since_ms } of shards.flatMap((shard) => [...shard.lags.values()])) {
        const lag_s = since_ms === null ? 0 : Math.max(0, (Date.now() - since_ms) / 1_000)
        lags.set(sink, Math.max(lags.get(sink) ?? 0, lag_s))
      }
      return lags
    },
    /** Waits a moment for answers, records what was taken, and leaves the sinks. What is aborted will be sent again. */
    async stop(): Promise<void> {
      clearInterval(timer)
      await Promise.race([Promise.all(shards.map((shard) => shard.stop())), Bun.sleep(STOP_MS)])
      aborting.abort()
      // Without a database, the leases lapse.
      await Promise.race([Promise.allSettled(shards.map((shard) => shard.leave())), Bun.sleep(STOP_MS)])
    },
  }
}

/** The deliveries to the sinks in one database, until `over` is aborted. Maps are by the ids of sinks. */
function shardDeliveries(queue: SinkQueue, options: DeliveriesOptions, over: AbortSignal) {
  const { log, sent, retries_ms = RETRIES_MS, look_ms: search_ms = SEARCH_MS } = options
  let is_stopping = false
  let looking: Promise<void> | null = null
  /** The time of the next question, if no sink is of this process. */
  let search_at_ms = 0
  const running = new Map<string, Promise<void>>()
  const lags = new Map<string, { readonly sink: string; since_ms: number | null }>()
  /** Sinks that may have taken events whose answers the stop of this gateway did not wait for. */
  const unanswered = new Set<string>()
  /** Those whose events could not be read, which is logged once. */
  const unread = new Set<string>()
  const idle_ms = new Map<string, number>()

  async function look(): Promise<void> {
    try {
      // The place of a sink that is being served may be read before it is written.
      const served = new Set(running.keys())
      const claimed = await queue.claim()
      search_at_ms = claimed.length > 0 ? 0 : performance.now() + search_ms
      const own = new Set(claimed.map(({ id }) => id))
      for (const id of lags.keys()) if (!own.has(id)) lags.delete(id)
      for (const sink of claimed) if (sink.is_due && !served.has(sink.id)) start(sink)
      const waiting = claimed.filter(({ id, is_due }) => !is_due && !lags.has(id))
      await Promise.all(waiting.map(readLag))
    } catch {
      // The ledger says in the log that its database is unavailable. The next look asks again.
    }
  }

  async function readLag(sink: SinkRow): Promise<void> {
    try {
      noteLag(sink, await queue.events(sink, 1))
    } catch (error) {
      await failed(sink, error)
    }
  }

  function noteLag(sink: SinkRow, { events: [first] }: Pick<FeedPart, "events">): void {
    unread.delete(sink.id)
    lags.set(sink.id, { sink: sink.name, since_ms: first?.at.getTime() ?? null })
  }

  function start(sink: SinkRow): void {
    if (is_stopping) return
    const delivered = deliver(sink).catch((error: unknown) => failed(sink, error))
    running.set(
      sink.id,
      delivered.finally(() => running.delete(sink.id)),
    )
  }

  /** Delivers all events that there are, until one fails. */
  async function deliver(sink: SinkRow): Promise<void> {
    const kind = kinds[sink.kind]
    let at = sink
    for (;;) {
      const { start, events, next } = await queue.events(at, PAGE)
      noteLag(sink, { events })
      if (is_stopping) return
      if (events.length === 0) {
        const last_ms = idle_ms.get(sink.id) ?? Number.NEGATIVE_INFINITY
        if (performance.now() - last_ms < IDLE_MS) return
        idle_ms.set(sink.id, performance.now())
        await queue.delivered(at, next, true)
        return
      }
      // Asked after the events: an event that comes after a change of the sink is sent as the change says.
      if (!(await queue.isCurrent(at))) return
      if (
        at.failing_since !== null &&
        Date.now() - at.failing_since.getTime() > (kind.give_up_ms ?? GIVE_UP_MS)
      )
        return stopped(at, placeOf(at), `it failed for too long: ${at.reason ?? ""}`)
      const step = kind.most_events === 1 ? PARALLEL : PAGE
      for (let first = 0; first < events.length; first += step) {
        const chunk = events.slice(first, first + step)
        const reached = await deliverSome(at, first === 0 ? start : placeOf(at), chunk)
        if (reached === null || is_stopping) return
        at = reached
      }
    }
  }

  /** Sends the events after a place, some at a time, and records up to where all were taken. The sink then; null if one was not. */
  async function deliverSome(
    sink: SinkRow,
    start: FeedPlace,
    placed: FeedPart["events"],
  ): Promise<SinkRow | null> {
    const kind = kinds[sink.kind]
    const events = placed.map((event, at) => ({ event: eventBody(event), at, place: event.place }))
    const outgoing = events.filter(({ event }) => kind.is_for(event))
    const requests = groupsOf(outgoing, kind.most_events)
    const turns = Map.groupBy(requests, ([first]) => (kind.in_turn ? first.event.subject : first.at))
    const found = await Promise.all(turns.values().map((each) => sendInTurn(kind, sink, each)))
    const refusal = firstOf(found)
    const upTo = (count: number) => events[count - 1]?.place ?? start
    if (refusal === null) return taken(sink, events, outgoing.length === 0)
    const { at } = refusal.refused
    const has_taken = outgoing.some((one) => one.at < at)
    const reached = at > 0 ? await taken(sink, events.slice(0, at), !has_taken) : sink
    if (reached === null || refusal.is_unsent) return null
    await refused(reached, refusal, upTo(at), upTo(at + 1))
    return null
  }

  /** Records events as delivered, and those among them that the sink would always refuse as skipped. */
  async function taken(
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
    sent?.(sink.name, "skipped", passed.length)
    for (const { reason, id } of by_reason.values())
      if (!sink.skipped.some((one) => one.reason === reason))
        log.warn({ sink: sink.name, event: id, reason }, "the events of an account are skipped")
    return reached
  }

  /** Sends requests one after another, up to the first of which an event is not taken. Null if all were. */
  async function sendInTurn(
    kind: SinkKindOf,
    sink: SinkRow,
    requests: readonly OneOrMore<OutgoingEvent>[],
  ): Promise<Unsent | null> {
    for (const each of requests) {
      const unsent = is_stopping ? notSent(each) : await send(kind, sink, each)
      if (unsent !== null) return unsent
    }
    return null
  }

  /** Sends events as one request; one by one, if they are refused for ever together. Null if all were taken. */
  async function send(
    kind: SinkKindOf,
    sink: SinkRow,
    outgoing: OneOrMore<OutgoingEvent>,
  ): Promise<Unsent | null> {
    const [first, ...others] = outgoing
    const events: OneOrMore<EventBody> = [first.event, ...others.map(({ event }) => event)]
    const is_old_valid = sink.old_until !== null && sink.old_until.getTime() > Date.now()
    const { url, allow_private, secret, old_secret, meter } = sink
    const secrets: OneOrMore<string> = [secret, ...(is_old_valid && old_secret !== null ? [old_secret] : [])]
    const options = { allow_private, reads: kind.reads }
    const answer = await post(kind.request(events, { url, secrets, meter }), options, over)
    const { meaning, reason } = meaningOf(kind, answer, events)
    if (meaning === "never" && others.length > 0) {
      const alone = outgoing.map((one): OneOrMore<OutgoingEvent> => [one])
      return sendInTurn(kind, sink, alone)
    }
    const is_taken = meaning === "taken"
    if (!is_taken && over.aborted) {
      unanswered.add(sink.id)
      return notSent(outgoing)
    }
    sent?.(sink.name, is_taken ? "taken" : "refused", events.length)
    return is_taken ? null : { refused: first, reason, meaning }
  }

  /** Handles a refusal of the event after the place `before`; `after` is the place after it. */
  async function refused(
    sink: SinkRow,
    { refused: { event }, reason, meaning }: Unsent,
    before: FeedPlace,
    after: FeedPlace,
  ): Promise<void> {
    if (meaning === "gone") return stopped(sink, before, reason)
    // After a restart of the database, events that were taken come again before the one that failed.
    const failed_before = isSameEvent(before, sink) ? sink.failures : 0
    const failures = failed_before + 1
    if (meaning === "never" && failures >= REFUSALS && sink.reason === reason) {
      const { id } = event
      const goes_on = await queue.skipped(sink, after, skippedEvent(event, reason))
      if (goes_on === null) return
      sent?.(sink.name, "skipped", 1)
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

  async function stopped(sink: SinkRow, place: FeedPlace, reason: string): Promise<void> {
    const failures = sink.failures + 1
    if (await queue.failed(sink, place, { reason, failures, retry_ms: null }))
      log.error({ sink: sink.name, reason, failures }, STOPPED)
  }

  async function failed(sink: SinkRow, error: unknown): Promise<void> {
    if (error instanceof FeedGap) {
      await stopped(sink, placeOf(sink), error.message).catch(() => {})
    } else if (!is_stopping && !unread.has(sink.id)) {
      unread.add(sink.id)
      const code = queue.codeOf(error)
      log.warn({ sink: sink.name, code }, "the events of a sink could not be read: they will be read again")
    }
  }

  return {
    lags,
    look(): void {
      if (looking !== null || performance.now() < search_at_ms) return
      looking = look().finally(() => {
        looking = null
      })
    },
    /** Begins no more deliveries. Resolves when the current ones have ended. */
    async stop(): Promise<void> {
      is_stopping = true
      await Promise.all(running.values())
    },
    async leave(): Promise<void> {
      await looking
      await Promise.all(running.values())
      await queue.leave([...unanswered])
    },
  }
}

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
