import { and, asc, eq, notInArray, sql } from "drizzle-orm"
import { NIL_ID } from "../../id.ts"
import type { Trouble } from "../../wire/alerts.ts"
import type { FeedPlace } from "../../wire/cursor.ts"
import { type EventType, eventTypes, usualEvents } from "../../wire/events.ts"
import { MAX_SKIPPED, type SkippedEvent, STRIPE_KNOWS_MS } from "../../wire/sink-kinds.ts"
import type { Made } from "../accounts/made.ts"
import { answerOf } from "../database/answer.ts"
import { errorCode } from "../database/database-errors.ts"
import { withDeadline } from "../database/deadline.ts"
import { mergeRows } from "../database/row-shape.ts"
import type { Db } from "../database/statement.ts"
import { FeedGap, NoAnswer } from "../entries.ts"
import { sinks } from "../schema/sinks.ts"
import { gateways } from "../schema/tables.ts"
import { noteTroubles } from "./alerts.ts"
import { type FeedPart, firstPlace, readFeed } from "./feed.ts"
import { type FeedState, feedState } from "./place.ts"

/** Sinks in one database: what operators see and change of them, and their delivery by one gateway at a time (D96). */

export type SinkRow = typeof sinks.$inferSelect

export interface Sink extends SinkRow {
  /** Seconds since the time of the oldest event that is not delivered; 0 if there is none, null if the feed cannot be read. */
  readonly lag_s: number | null
}

export interface NewSink
  extends Pick<SinkRow, "id" | "name" | "kind" | "meter" | "url" | "allow_private" | "secret"> {
  readonly types: readonly EventType[] | null
  /** The time of the first event to deliver; null for now. */
  readonly from: Date | null
}

export interface SinkChange {
  readonly url?: string | undefined
  readonly token?: string | undefined
  readonly types?: readonly EventType[] | null | undefined
  readonly paused?: boolean | undefined
}

export async function createSink(database: Db, new_sink: NewSink): Promise<Made<"sink", Sink, "conflict">> {
  const { from, types, ...sink } = new_sink
  const place = columnsOf(await startOf(database, from))
  const [made] = await database
    .insert(sinks)
    .values({ ...sink, types: types && [...types], ...place })
    .onConflictDoNothing()
    .returning()
  if (made !== undefined) return { outcome: "created", sink: { ...made, lag_s: 0 } }
  const known = await getSink(database, new_sink.id)
  const same =
    known !== null &&
    known.name === new_sink.name &&
    known.url === new_sink.url &&
    known.kind === new_sink.kind
  return same ? { outcome: "known", sink: known } : { outcome: "conflict" }
}

export async function listSinks(database: Db): Promise<Sink[]> {
  const rows = await database.select().from(sinks).orderBy(asc(sinks.name))
  return Promise.all(rows.map((row) => withLag(database, row)))
}

async function getSink(database: Db, id: string): Promise<Sink | null> {
  const [row] = await database.select().from(sinks).where(eq(sinks.id, id))
  return row === undefined ? null : withLag(database, row)
}

/** Never fails: what one sink has not got must hide no other, nor a change that was made. */
async function withLag(database: Db, row: SinkRow): Promise<Sink> {
  try {
    const { events } = await eventsOf(database, row, 1)
    return { ...row, lag_s: lagOf(events) }
  } catch (error) {
    return { ...row, lag_s: null, reason: error instanceof FeedGap ? error.message : row.reason }
  }
}

function lagOf([first]: FeedPart["events"]): number {
  return first === undefined ? 0 : Math.max(0, (Date.now() - first.at.getTime()) / 1_000)
}

/** Changes a sink. One that runs again tries its next event immediately. Null if there is none with this id. */
export function changeSink(
  database: Db,
  id: string,
  { url, token, types, paused }: SinkChange,
): Promise<Sink | null> {
  const state = paused === undefined ? undefined : paused ? "paused" : "active"
  return change(database, id, {
    ...(url !== undefined && { url }),
    ...(token !== undefined && { secret: token }),
    ...(types !== undefined && { types: types && [...types] }),
    ...(state !== undefined && { state }),
    ...HEALTHY,
    // Only a decision to go on begins the time anew after which a sink that fails stops.
    ...(paused !== false && { failing_since: sinks.failing_since }),
    // An operator who resumes it knows what its last gateway may have sent.
    ...(paused === false && { gateway_id: null }),
  })
}

/** Sets a new secret; the one before signs too for some hours. */
export function rotateSink(
  database: Db,
  id: string,
  secret: string,
  keep_hours: number,
): Promise<Sink | null> {
  return change(database, id, {
    secret,
    old_secret: sql`${sinks.secret}`,
    old_until: sql`now() + ${keep_hours}::int * interval '1 hour'`,
  })
}

/** Delivers the events since a time, again or for the first time. Throws `FeedGap` if some are archived. */
export async function replaySink(database: Db, id: string, from: Date): Promise<Sink | null> {
  return change(database, id, { ...columnsOf(await startOf(database, from)), ...HEALTHY, gateway_id: null })
}

export async function deleteSink(database: Db, id: string): Promise<boolean> {
  const gone = await database.delete(sinks).where(eq(sinks.id, id)).returning({ id: sinks.id })
  return gone.length > 0
}

const HEALTHY = { failures: 0, failing_since: null, retry_at: null, reason: null }
/** Accounts whose events in a row a sink refuses for ever before it stops: then it is the configuration that is wrong. */
const MAX_ACCOUNTS = 3

async function change(database: Db, id: string, changes: object): Promise<Sink | null> {
  const [row] = await database
    .update(sinks)
    .set({ ...changes, revision: sql`${sinks.revision} + 1` })
    .where(eq(sinks.id, id))
    .returning()
  return row === undefined ? null : withLag(database, row)
}

/** The place of a reader who wants what happens from a time, or from now on. */
async function startOf(database: Db, from: Date | null): Promise<FeedPlace> {
  const state = await feedState(database)
  return from === null ? nowIn(state) : firstPlace(database, state, from)
}

function nowIn({ current, horizon }: FeedState): FeedPlace {
  return { epoch: current.id, is_restored: false, xid: horizon, id: NIL_ID }
}

export function columnsOf({ epoch, is_restored, xid, id }: FeedPlace) {
  return { epoch, is_restored, xid, event_id: id }
}

export function placeOf({ epoch, is_restored, xid, event_id }: SinkRow): FeedPlace {
  return { epoch, is_restored, xid, id: event_id }
}

const HERE = "here"

/** The next events of a sink. Throws `FeedGap` if some are archived. */
function eventsOf(database: Db, sink: SinkRow, limit: number): Promise<FeedPart> {
  const after = new Map([[HERE, placeOf(sink)]])
  const types = eventTypes.filter((type) => (sink.types ?? usualEvents).includes(type))
  // Stripe counts an event again that it has forgotten.
  const is_once = sink.kind === "stripe"
  return readFeed(database, HERE, { after, from: null, types, limit, is_once })
}

/** The sinks of several shards: each once, as the shard sees it that is furthest behind or not in order. */
export async function mergeSinks(parts: readonly (readonly Sink[])[]): Promise<Sink[]> {
  const worseOf = (one: Sink, other: Sink) => (isWorse(other, one) ? other : one)
  const merged = await mergeRows(parts, ({ id }) => id, worseOf)
  return merged.sort((left, right) => (left.name < right.name ? -1 : 1))
}

/** The worst that several shards say of one sink; null if none has it. */
export async function oneSink(parts: readonly (Sink | null)[]): Promise<Sink | null> {
  return (await mergeSinks([parts.filter((part) => part !== null)]))[0] ?? null
}

function isWorse(one: Sink, other: Sink): boolean {
  const [stopped, failing] = [one, other].map((sink) => sink.state === "stopped")
  if (stopped !== failing) return stopped === true
  if (one.failures !== other.failures) return one.failures > other.failures
  return (one.lag_s ?? Number.POSITIVE_INFINITY) > (other.lag_s ?? Number.POSITIVE_INFINITY)
}

interface FailedEvent {
  readonly reason: string
  /** Of this event in a row, with this one. */
  readonly failures: number
  readonly retry_ms: number | null
}

const LOST =
  "its gateway ended without recording what it sent, more than 20 hours ago: look for the last charges in Stripe, then resume"

/** As of operators' questions that read many entries. */
const DEADLINE_MS = 10_000
/** Late questions keep their connections. Beyond so many, none is asked, so that operators have the others. */
const MOST_LATE = 2

/** The sinks of one database that this process delivers to. Its methods reject with `NoAnswer` if the database fails or is late. */
export class SinkQueue {
  readonly shard: string
  readonly #database: Db
  readonly #gatewayId: () => string
  readonly #deadline_ms: number
  #late = 0

  constructor(shard: string, database: Db, gatewayId: () => string, deadline_ms = DEADLINE_MS) {
    this.shard = shard
    this.#database = database
    this.#gatewayId = gatewayId
    this.#deadline_ms = deadline_ms
  }

  async #ask<Answer>(question: (database: Db) => Promise<Answer>): Promise<Answer> {
    if (this.#late >= MOST_LATE) throw new NoAnswer("deadline", {})
    const asked = question(this.#database)
    const late = (): never => {
      this.#late += 1
      void asked.catch(() => {}).finally(() => (this.#late -= 1))
      throw new NoAnswer("deadline", {})
    }
    return answerOf(withDeadline(asked, this.#deadline_ms, late), null)
  }

  /**
   * Takes the sinks that no living gateway delivers to, and returns those of this process. One for Stripe is stopped in its place if its last
   * gateway died so long ago that Stripe has forgotten what that gateway sent and did not record.
   */
  claim(): Promise<readonly (SinkRow & { readonly is_due: boolean })[]> {
    return this.#ask((database) => this.#claim(database))
  }

  async #claim(database: Db) {
    const own = this.#gatewayId()
    await database.execute(sql`
      UPDATE ${sinks} s SET gateway_id = CASE WHEN NOT x.is_lost THEN ${own}::uuid END, state = CASE WHEN x.is_lost THEN 'stopped' ELSE s.state END,
        reason = CASE WHEN x.is_lost THEN ${LOST} ELSE s.reason END, revision = s.revision + x.is_lost::int
      FROM (SELECT id, kind = 'stripe' AND gateway_id IS NOT NULL AND NOT EXISTS (SELECT FROM ${gateways} g WHERE g.id = gateway_id
          AND g.lease_until > now() - ${STRIPE_KNOWS_MS}::float8 * interval '1 millisecond') AS is_lost FROM ${sinks}) x
      WHERE x.id = s.id AND s.gateway_id IS DISTINCT FROM ${own}::uuid AND s.state = 'active'
        AND EXISTS (SELECT FROM ${gateways} g WHERE g.id = ${own}::uuid AND g.dead_at IS NULL AND g.lease_until > now())
        AND NOT EXISTS (SELECT FROM ${gateways} g WHERE g.id = s.gateway_id AND g.dead_at IS NULL AND g.lease_until > now())`)
    const rows = await database
      .select({ sink: sinks, is_due: sql<boolean>`coalesce(${sinks.retry_at} <= now(), true)` })
      .from(sinks)
      .where(and(eq(sinks.gateway_id, own), eq(sinks.state, "active")))
    return rows.map(({ sink, is_due }) => ({ ...sink, is_due }))
  }

  /** The code of a failure of these methods, for logs that must not show statements or values. */
  codeOf(error: unknown): string {
    return error instanceof NoAnswer ? error.message : errorCode(error)
  }

  events(sink: SinkRow, limit: number): Promise<FeedPart> {
    return this.#ask((database) => eventsOf(database, sink, limit))
  }

  /** True if this process still delivers to the sink, and nobody has changed it since it was read. */
  async isCurrent(sink: SinkRow): Promise<boolean> {
    return this.#ask(async (database) => (await database.$count(sinks, this.#same(sink))) > 0)
  }

  /**
   * Records what was delivered, and returns the sink. What a sink has taken is also recorded if an operator has changed it
   * meanwhile, but not if its place was changed. `passed` are events that were skipped, one for each reason. Null if this process no longer delivers to it as it was read.
   */
  async delivered(sink: SinkRow, place: FeedPlace, is_idle = false, passed: readonly SkippedEvent[] = []) {
    const at = is_idle ? {} : { delivered_at: sql`now()`, skips: 0 }
    const reasons = new Set(passed.map(({ reason }) => reason))
    const kept = sink.skipped.filter(({ reason }) => !reasons.has(reason))
    const skipped = [...passed, ...kept].slice(0, MAX_SKIPPED)
    const [written] = await this.#ask(async (database) =>
      database
        .update(sinks)
        .set({ ...columnsOf(place), ...HEALTHY, ...at, ...(passed.length > 0 && { skipped }) })
        .where(is_idle ? this.#same(sink) : this.#samePlace(sink))
        .returning(),
    )
    return written?.revision === sink.revision ? written : null
  }

  /** Records a failure of the event after `place`; it is tried again after `retry_ms`, or the sink stops if that is null. */
  async failed(
    sink: SinkRow,
    place: FeedPlace,
    { reason, failures, retry_ms }: FailedEvent,
  ): Promise<boolean> {
    const state = await this.#write(sink, {
      ...columnsOf(place),
      reason,
      failures,
      failing_since: sql`coalesce(${sinks.failing_since}, now())`,
      ...(retry_ms === null
        ? { state: "stopped", retry_at: null }
        : { retry_at: sql`now() + ${retry_ms}::float8 * interval '1 millisecond'` }),
    })
    return state !== null
  }

  /**
   * Skips an event that the sink has refused for ever, and records it. The sink stops after those of some accounts in a row, or
   * after as many as it shows, so that none is lost unseen. `place` is that after
   * the event. Null if this process no longer delivers to the sink as it was read, else true if the sink goes on.
   */
  async skipped(sink: SinkRow, place: FeedPlace, event: SkippedEvent): Promise<boolean | null> {
    const skips = sink.skips + 1
    const alike = sink.skipped.filter(({ reason }) => reason === event.reason).slice(0, sink.skips)
    const accounts = new Set([event, ...alike].map(({ source }) => source)).size
    const is_last = accounts >= MAX_ACCOUNTS || skips >= MAX_SKIPPED
    const state = await this.#write(sink, {
      ...columnsOf(place),
      ...HEALTHY,
      skipped: [event, ...sink.skipped].slice(0, MAX_SKIPPED),
      skips: is_last ? 0 : skips,
      ...(is_last && {
        state: "stopped",
        reason: `${skips} events in a row were refused, of accounts: ${accounts}: ${event.reason}`,
      }),
    })
    return state === null ? null : state === "active"
  }

  /** Writes alerts about upstreams, each by the process that notices first. */
  troubles(seen: readonly Trouble[]): Promise<void> {
    return this.#ask((database) => noteTroubles(database, this.#gatewayId(), seen))
  }

  /**
   * Leaves the sinks to other gateways. Those that may have taken events without an answer keep the name of this gateway, as after its
   * death: they are free once its lease has ended, and one for Stripe stops if that was too long ago.
   */
  async leave(unanswered: readonly string[]): Promise<void> {
    const left = and(eq(sinks.gateway_id, this.#gatewayId()), notInArray(sinks.id, [...unanswered]))
    await this.#ask(async (database) => database.update(sinks).set({ gateway_id: null }).where(left))
  }

  /** The state of the sink then; null if it is no longer as it was read. */
  async #write(sink: SinkRow, changes: object): Promise<string | null> {
    const [written] = await this.#ask(async (database) =>
      database.update(sinks).set(changes).where(this.#same(sink)).returning({ state: sinks.state }),
    )
    return written?.state ?? null
  }

  #same(sink: SinkRow) {
    return and(this.#samePlace(sink), eq(sinks.revision, sink.revision))
  }

  #samePlace({ id, epoch, is_restored, xid, event_id }: SinkRow) {
    return and(
      eq(sinks.id, id),
      eq(sinks.gateway_id, this.#gatewayId()),
      eq(sinks.epoch, epoch),
      eq(sinks.is_restored, is_restored),
      eq(sinks.xid, xid),
      eq(sinks.event_id, event_id),
    )
  }
}
