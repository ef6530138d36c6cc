import { bytesIn } from "../wire/buffers.ts"
import type { Ending } from "../wire/call.ts"
import { ShownUsage } from "./cost.ts"
import type { EventReading, Prepared } from "./event-reading.ts"
import { LargeChunks } from "./large-chunks.ts"
import { Outlet, type OutletSource } from "./outlet.ts"
import type { EventKind, StreamEvidence } from "./reading.ts"
import type { RelayOptions } from "./relay-options.ts"
import { EventTooLarge, Framer, type SseEvent } from "./sse.ts"
import { TOO_LARGE, WholeAnswer } from "./whole-answer.ts"

/** Least cost of a part of a stream, in bytes. */
const PART_BYTES = 2_048
/** Maximum number of events, and of parsed bytes, in one turn of the event loop. */
const TURN_EVENTS = 4_096
const TURN_PARSED_BYTES = 65_536
/** A larger event is parsed in separate turns (D41). */
const LARGE_EVENT_BYTES = 262_144

/** A comment that sends the headers before the provider's first event. */
const COMMIT = new TextEncoder().encode(": ok\n\n")

type Events = ReturnType<Framer["feed"]>

/**
 * The one stream between a provider and a client (D36: forward whole events). The client pulls it, so a slow client
 * slows the provider. Whole events pass as views of the provider's bytes. Events without evidence wait until the first
 * output or usage (rule 6). The stream ends once, with one of the endings of D8, and is settled before its last byte
 * (D32).
 */
export class StreamRelay implements OutletSource {
  readonly #options: RelayOptions
  #framer: Framer
  readonly #chunks = new LargeChunks()
  /** The body, if it is a JSON object (D29); undefined while that is unknown, null for an event stream. */
  #whole: WholeAnswer | null | undefined
  /** True while such an object, which has come whole, is converted into events. */
  #is_converting = false
  readonly #reading: EventReading
  readonly #usage: ShownUsage
  readonly outlet: Outlet
  readonly #opened_ms = performance.now()
  #timer: Timer | undefined
  /** Set once; afterwards nothing is read, and only the last bytes are sent. */
  #ended = false
  #running = false
  /**
   * True if a JSON object was over the limit and read for its usage (D5), or an event over the limit ended the stream
   * (D31).
   */
  #too_large = false
  /** Set once the client is gone, while the provider is still read for the final usage (D9). */
  #draining: "client_left" | "client_stalled" | null = null
  /** The start of the pending read of the provider. */
  #read_ms: number | null = null
  /** The time at which the client stopped asking for more; null while it waits for bytes. */
  #unread_since_ms: number | null = null
  #output_seen = false
  /** A part that waits for its turn. */
  #waiting: Uint8Array | null = null
  /** The events of a part that wait for another turn. */
  #rest: Events | null = null
  /** A large event, the first of them. */
  #large: SseEvent | null = null
  /** True if the latest event was stripped, because the LF of a split CRLF follows it. */
  #stripped = false
  /** The provider's own last event, held back until the charge is durable (D32). */
  #last: readonly Uint8Array[] | null = null

  constructor(options: RelayOptions) {
    this.#options = options
    this.outlet = new Outlet(options.sizes.event_bytes, this)
    this.#reading = options.form.open(options.requested, options.usage_rules)
    this.#framer = new Framer(options.sizes.event_bytes, this.#reading.recurring)
    this.#usage = new ShownUsage(options)
  }

  /** Starts the timer. It may end the stream immediately, so call this after all set-up. */
  start(): void {
    this.#tick()
  }

  /** The evidence so far, as if the stream ended now with `ending`, for the checkpoint (D13). */
  evidence(ending: Ending): StreamEvidence {
    const evidence = this.#reading.evidence(this.#draining ?? ending)
    return this.#too_large ? { ...evidence, too_large: true } : evidence
  }

  /** Ends the stream at a shutdown's deadline (D34). */
  stop(): void {
    this.#finish("gateway_stopped")
  }

  /** Called when the client has left (D9). Thousands may leave at the same moment, so the rest waits for its turn (D78). */
  clientLeft(): void {
    if (this.outlet.gone) return
    this.outlet.dropClient()
    if (this.#ended) return
    const turn = this.#options.turn(PART_BYTES)
    if (turn === null) this.#goOnAlone()
    else void turn.then(() => this.#goOnAlone())
  }

  /** Ends the stream after its final usage; before it, cuts or drains the stream. */
  #goOnAlone(): void {
    if (this.#ended) return
    if (this.#reading.usage_final) this.#finish("completed")
    else if (this.#drain_ms <= 0) this.#finish("client_left")
    else this.#drain("client_left")
  }

  /** Cuts a client that does not read. The provider is read on as after a disconnect (D9). */
  #clientStalled(): void {
    if (this.#reading.usage_final || this.#drain_ms <= 0) this.#finish("client_stalled")
    else {
      this.outlet.dropClient()
      this.#options.cutClient()
      this.#drain("client_stalled")
    }
  }

  #drain(ending: "client_left" | "client_stalled"): void {
    this.#draining = ending
    this.#unread_since_ms = null
    this.#tick()
    if (!this.#running) void this.pull()
  }

  /** The time that the provider is read on once the client is gone; 0 if it is cut immediately. */
  get #drain_ms(): number {
    const policy_ms = this.#options.drain_ms ?? 0
    const is_whole = this.#reading.paused || this.#is_converting
    return is_whole ? Math.max(policy_ms, this.#options.times.finish_wait_ms) : policy_ms
  }

  /** The rest of that time; infinite while the client is connected. */
  #drainLeft(now: number): number {
    const { gone_ms } = this.outlet
    return gone_ms === null ? Number.POSITIVE_INFINITY : left(now, gone_ms, this.#drain_ms)
  }

  /**
   * Reads until something was sent or the stream has ended; without a client, to the end. Returns true if more may
   * follow.
   */
  async pull(): Promise<boolean> {
    this.#unread_since_ms = null
    this.#running = true
    let sent = false
    while (!this.#ended && (!sent || this.outlet.gone)) {
      this.#read_ms = performance.now()
      try {
        const next = this.#options.source.read()
        const part = next instanceof Promise ? await next : next
        const turn = part === null ? null : this.#options.turn(Math.max(part.byteLength, PART_BYTES))
        if (turn !== null) {
          this.#read_ms = null
          this.#waiting = part
          await turn
          this.#waiting = null
        }
        if (part === null && this.#whole) {
          this.#read_ms = null
          this.#is_converting = true
          await this.#whole.makeEvents()
          this.#is_converting = false
        }
        sent = !this.#ended && this.#relay(part)
        // After the end nobody would free its memory.
        if (this.#whole && !this.#ended && !(await this.#whole.keep()) && !this.#ended)
          this.#relay("over limit")
        while (this.#rest !== null && !this.#ended) {
          await this.#options.turn()
          const prepared =
            this.#large === null
              ? undefined
              : await this.#reading.prepare(this.#large, () => this.#options.turn())
          if (this.#rest !== null) sent = !this.#ended && this.#relay(this.#rest, prepared)
        }
      } catch {
        if (!this.#ended) this.#relay("broken")
      }
    }
    this.#running = false
    this.#unread_since_ms = performance.now()
    return !this.#ended
  }

  /**
   * Relays a chunk of the provider, the rest of one, or the end: clean (null), broken, or over the limit. Returns true
   * if anything was sent to the client.
   */
  #relay(chunk: Uint8Array | Events | "broken" | "over limit" | null, prepared?: Prepared): boolean {
    this.#read_ms = null
    try {
      if (chunk === null) this.#sourceEnded()
      else if (chunk === "broken") {
        this.#readUnterminated()
        this.#fail()
      } else if (chunk === "over limit") {
        if (this.#whole) this.#wholeEnded(this.#whole, true)
      } else if (chunk instanceof Uint8Array) this.#takeChunk(chunk)
      else this.#takeEvents(chunk, prepared)
      // The events of one chunk are sent in one chunk (D36).
      if (this.#rest !== null) return false
      const sent = !this.#ended && this.outlet.flush()
      this.freeChunks()
      return sent
    } catch (error) {
      this.#options.onFault(error)
      if (this.#ended) this.outlet.fail(error)
      else this.#finish("upstream_lost")
      return false
    }
  }

  freeChunks(): void {
    if (this.#rest === null) this.#chunks.release(this.outlet, this.#framer, this.#last)
  }

  outletEnded(): void {
    this.#options.memory.free()
  }

  #takeChunk(chunk: Uint8Array): void {
    this.#chunks.add(chunk)
    if (this.#whole === undefined) this.#whole = WholeAnswer.begin(chunk, this.#options)
    if (this.#whole) this.#whole.take(chunk)
    else this.#takeEvents(this.#framer.feed(chunk))
  }

  /** `prepared`: the payload of the large event, if there is one. */
  #takeEvents(events: Events, prepared?: Prepared): void {
    const large = this.#large
    this.#rest = this.#large = null
    try {
      if (large !== null) this.#take(large, true, prepared)
      let parsed_bytes = 0
      for (let count = 0; count < TURN_EVENTS && parsed_bytes < TURN_PARSED_BYTES; count++) {
        if (this.#ended) return
        const { done, value } = events.next()
        if (done) return
        const bytes = value.recurring_bytes === null ? bytesIn(value.parts) : 0
        if (bytes > LARGE_EVENT_BYTES) {
          this.#large = value
          break
        }
        parsed_bytes += bytes
        this.#take(value)
      }
      if (!this.#ended) this.#rest = events
    } catch (error) {
      if (!(error instanceof EventTooLarge)) throw error
      this.#too_large = true
      this.#fail(TOO_LARGE)
    }
  }

  /**
   * Ends the stream after a clean end of the provider's body (D8). An unterminated event counts, unless it has no JSON
   * object (D36).
   */
  #sourceEnded(): void {
    if (this.#whole) {
      this.#wholeEnded(this.#whole, false)
      return
    }
    const last = this.#framer.end()
    if (last !== null) this.#take(last, false)
    this.#finish(this.#reading.answered ? "completed" : "upstream_lost")
  }

  /** Ends the reading of a JSON object, at its end or at the limit (D29). */
  #wholeEnded(whole: WholeAnswer, is_at_limit: boolean): void {
    this.#whole = null
    this.#framer = new Framer(Number.POSITIVE_INFINITY)
    const { large } = whole
    if (large === null) this.#takeChunk(whole.events)
    else if (is_at_limit || large.whole) {
      this.#too_large = true
      if (this.#reading.takeLarge(large)) this.outlet.open()
    }
    // Otherwise it ends at the next read of the source.
    if (this.#rest === null) this.#finish("upstream_lost", large === null ? null : TOO_LARGE)
  }

  #fail(error_data: string | null = null): void {
    this.#reading.error = true
    this.#finish("upstream_lost", error_data)
  }

  /** Reads the unterminated event for the settlement. It is forwarded only at a clean end (D36). */
  #readUnterminated(): void {
    const last = this.#framer.end()
    if (last !== null) this.#noteEvidence(this.#reading.take(last))
  }

  /** Reads waiting parts and events for the settlement. They are not forwarded. */
  #readWaiting(): void {
    const part = this.#waiting
    const large = this.#large
    let events = this.#rest
    this.#waiting = this.#rest = this.#large = null
    if (large !== null) this.#noteEvidence(this.#reading.take(large))
    if (part !== null) {
      if (this.#whole === undefined) this.#whole = WholeAnswer.begin(part, this.#options)
      if (this.#whole === null) events = this.#framer.feed(part)
    }
    try {
      for (const event of events ?? []) if (!event.tail) this.#noteEvidence(this.#reading.take(event))
    } catch (error) {
      if (!(error instanceof EventTooLarge)) throw error
    }
  }

  #take(event: SseEvent, terminated = true, prepared?: Prepared): void {
    if (event.tail) {
      if (!this.#stripped) this.outlet.forward(event.parts)
      return
    }
    const read = this.#reading.take(event, prepared)
    const { kind, failed } = read
    if (kind === "nothing" && !terminated) return
    this.#noteEvidence(read)
    if (read.shown || (kind === "error" && read.trusted_usage)) this.outlet.open()
    if (kind === "error") {
      this.#finish("upstream_lost", event.data)
      return
    }
    if (kind === "done") {
      if (this.#options.form.keeps_last && !this.outlet.silent) {
        const last = this.#usage.last(event)
        this.#last = failed ? this.#options.withoutSecret(last) : last
      }
      this.#finish(failed ? "upstream_lost" : "completed")
      return
    }
    const parts = read.with_usage ? this.#usage.of(event, read.usage_only, read.final_usage) : event.parts
    const shown = parts !== null && read.reports_error ? this.#options.withoutSecret(parts) : parts
    this.#stripped = shown === null
    if (shown !== null) this.outlet.forward(shown)
    if (this.#draining !== null && this.#reading.usage_final) this.#finish(this.#draining)
  }

  /** Sends held-back events at the first evidence (rule 6). Reports the first output. */
  #noteEvidence(read: EventKind): void {
    if (read.kind !== "chunk" && read.kind !== "done") return
    if (read.output || read.trusted_usage) this.outlet.open()
    if (!read.output || this.#output_seen) return
    this.#output_seen = true
    this.#options.onOutput()
  }

  /** Ends the stream, once: empty without evidence (rule 6), otherwise with its last event or an error event. */
  #finish(ending: Ending, error_data: string | null = null): void {
    if (this.#ended) return
    this.#ended = true
    clearTimeout(this.#timer)
    this.#options.memory.stop()
    this.#readWaiting()
    this.#readUnterminated()
    if (this.#reading.done || (this.#draining !== null && this.#reading.usage_final))
      this.#options.finishSource()
    else this.#options.source.cancel()
    const outlet = this.outlet
    outlet.flush() // before the settlement: the client waits for these bytes
    const settled = this.#options.settle(this.evidence(ending))
    if (outlet.gone || ending === "client_stalled") {
      if (outlet.gone) this.#options.memory.free()
      else this.#options.cutClient()
      return
    }
    if (!outlet.silent && ending !== "completed" && this.#last === null) {
      this.#sendUsage(null)
      outlet.send(this.#options.errorEvent(ending, error_data))
    }
    void settled.then((charge_nano) => {
      const { end } = this.#options.form
      const is_whole = !outlet.silent && ending === "completed"
      if (is_whole) this.#sendUsage(charge_nano)
      outlet.close(outlet.silent ? [] : (this.#last ?? (is_whole && end !== null ? [end] : [])))
    })
  }

  /** Sends the usage that waited for the charge; null for a broken stream, whose charge is not recorded yet. */
  #sendUsage(charge_nano: bigint | null): void {
    const event = this.#usage.final(charge_nano)
    if (event !== null) this.outlet.send(event)
  }

  /**
   * Runs the stream's only timer, for header commit, keepalive, stall, idle, total and drain. Relaying a chunk sets
   * none.
   */
  #tick(): void {
    clearTimeout(this.#timer)
    if (this.#ended) return
    const now = performance.now()
    const ending = this.#ending(now)
    if (ending !== null) {
      void this.#endInTurn(ending)
      return
    }
    if (this.#commentDue() <= now) this.#comment()
    if (this.#running && !this.outlet.gone)
      this.#unread_since_ms = this.outlet.taken ? null : (this.#unread_since_ms ?? now)
    this.#timer = setTimeout(() => this.#tick(), Math.max(1, this.#nextCheckMs(now)))
  }

  /** Ends the stream in its turn, because many may end at the same time and waiting parts are then read (D78). */
  async #endInTurn(ending: Ending): Promise<void> {
    await this.#options.turn(
      this.#rest === null ? Math.max(this.#waiting?.byteLength ?? 0, PART_BYTES) : undefined,
    )
    if (this.#ended) return
    if (ending === "client_stalled") this.#clientStalled()
    else this.#finish(ending)
  }

  #ending(now: number): Ending | null {
    const { total_ms, idle_ms, times } = this.#options
    // The total timeout of a client that reads slowly is the client's own fault.
    const waits_for_client = this.#unread_since_ms !== null && !this.outlet.gone
    if (left(now, this.#opened_ms, total_ms) <= 0) return waits_for_client ? "client_stalled" : "deadline"
    if (left(now, this.#read_ms, idle_ms) <= 0) return "upstream_silent"
    if (this.#drainLeft(now) <= 0) return "client_left"
    if (this.outlet.gone) return null
    return left(now, this.#unread_since_ms, times.stall_ms) <= 0 ? "client_stalled" : null
  }

  /** Sends a comment (D36): the first one makes the server send the headers, later ones are keepalives. */
  #comment(): void {
    if (!this.outlet.sent) {
      this.outlet.send(COMMIT)
      return
    }
    this.outlet.send(this.#options.form.keepalive)
    this.#options.onKeepalive()
  }

  /** The time of the next comment; never while the client is gone or has not taken the last bytes. */
  #commentDue(): number {
    const { gone, taken, sent, sent_ms } = this.outlet
    if (gone || !taken) return Number.POSITIVE_INFINITY
    if (!sent) return this.#opened_ms + this.#options.times.commit_after_ms
    return this.#read_ms === null ? Number.POSITIVE_INFINITY : sent_ms + this.#options.times.keepalive_ms
  }

  /** Milliseconds to the next check. */
  #nextCheckMs(now: number): number {
    const { total_ms, idle_ms, times } = this.#options
    return Math.min(
      left(now, this.#opened_ms, total_ms),
      left(now, this.#read_ms, idle_ms),
      this.#drainLeft(now),
      left(now, this.#unread_since_ms, times.stall_ms),
      this.#commentDue() - now,
      times.keepalive_ms,
      idle_ms,
      times.stall_ms,
    )
  }
}

/** The rest of a period that began at `since_ms`; infinite if it did not begin. */
function left(now_ms: number, since_ms: number | null, period_ms: number): number {
  return since_ms === null ? Number.POSITIVE_INFINITY : since_ms + period_ms - now_ms
}
