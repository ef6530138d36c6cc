import { parseTime } from "../../src/wire/time.ts"
import { isObject } from "../../src/wire/usage.ts"

/** Doubles of the vendors that sinks send to: they keep what these keep, and refuse what these refuse. */

const DAY_MS = 86_400_000
const AHEAD_MS = 300_000

/** An answer, and what is counted with it. */
interface Judged {
  readonly status: number
  readonly body?: object
  readonly counted?: readonly Counted[]
}

export interface Counted {
  readonly id: string
  /** By which the vendor knows it again, if not by its id alone. */
  readonly known_by?: string
  readonly whose: string
  readonly value: string
}

abstract class Vendor {
  readonly token = `secret-${crypto.randomUUID()}`
  readonly counted: Counted[] = []
  /** Ids of events that it refuses for ever. */
  readonly poison = new Set<string>()
  requests = 0
  /** The next answers are lost, after the events were counted. */
  lost = 0
  /** The next answers never come, after the events were counted. */
  silent = 0
  /** How much later it is for the vendor than for the gateway. */
  ahead_ms = 0
  readonly #counted_ms = new Map<string, number>()
  readonly #server = Bun.serve({
    port: 0,
    fetch: async (request) => {
      this.requests += 1
      if (request.headers.get("authorization") !== `Bearer ${this.token}`)
        return new Response(null, { status: 401 })
      const { pathname } = new URL(request.url)
      if (request.method !== "POST" || pathname !== this.path) return new Response(null, { status: 404 })
      const type = request.headers.get("content-type") ?? ""
      const {
        status,
        body,
        counted = [],
      } = type === this.type ? await this.handle(await request.text()) : { status: 415 }
      this.counted.push(...counted)
      for (const { id, known_by = id } of counted) this.#counted_ms.set(known_by, this.now())
      if (counted.length > 0 && this.silent-- > 0) return new Promise<Response>(() => {})
      if (counted.length > 0 && this.lost-- > 0) return new Response(null, { status: 502 })
      return body === undefined ? new Response(null, { status }) : Response.json(body, { status })
    },
  })

  protected abstract readonly path: string
  protected abstract readonly type: string
  /** How long it knows an event that it has counted. */
  protected readonly knows_ms: number = Number.POSITIVE_INFINITY
  protected abstract judge(text: string): Judged

  get url(): string {
    return this.#server.url.href
  }

  protected handle(text: string): Judged | Promise<Judged> {
    return this.judge(text)
  }

  protected has(known_by: string): boolean {
    const counted_ms = this.#counted_ms.get(known_by)
    return counted_ms !== undefined && this.now() - counted_ms < this.knows_ms
  }

  protected now(): number {
    return Date.now() + this.ahead_ms
  }

  stop(): Promise<void> {
    return this.#server.stop(true)
  }
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

function hasNull(value: unknown): boolean {
  if (value === null) return true
  return typeof value === "object" && Object.values(value).some(hasNull)
}

/** Ingests a batch as a whole or not at all; the same source and id again is dropped. */
export class OpenMeter extends Vendor {
  protected override readonly path = "/api/v1/events"
  protected override readonly type = "application/cloudevents-batch+json"

  protected override judge(text: string): Judged {
    const events: unknown = JSON.parse(text)
    if (!Array.isArray(events) || events.length > 100) return { status: 400 }
    const counted = new Map<string, Counted>()
    for (const event of events) {
      if (!isObject(event) || event.specversion !== "1.0") return { status: 400 }
      const { id, source, type, subject, time, data } = event
      if (![id, source, type, subject].every(isText) || !isObject(data)) return { status: 400 }
      if (hasNull(data) || this.poison.has(String(id))) return { status: 400 }
      if (time !== undefined && parseTime(String(time)) === null) return { status: 400 }
      const known_by = JSON.stringify([source, id])
      const value = String(data.difference ?? data.charge ?? 0)
      if (!this.has(known_by) && !counted.has(known_by))
        counted.set(known_by, { id: String(id), known_by, whose: String(subject), value })
    }
    return { status: 204, counted: [...counted.values()] }
  }
}

/**
 * Takes one event, of a known customer and meter, that is at most 35 days old and 5 minutes ahead. The same identifier within 24 hours is
 * an error, and so are two calls of one customer at a time. After 24 hours it is another event, which counts too.
 */
export class Stripe extends Vendor {
  protected override readonly path = "/v1/billing/meter_events"
  protected override readonly type = "application/x-www-form-urlencoded"
  protected override readonly knows_ms = DAY_MS
  readonly #busy = new Set<string>()
  /** Calls that were refused because another one of their customer was open. */
  overlaps = 0

  protected override async handle(text: string): Promise<Judged> {
    const whose = new URLSearchParams(text).get("payload[stripe_customer_id]") ?? ""
    if (this.#busy.has(whose)) {
      this.overlaps += 1
      return { status: 429, body: { error: { code: "lock_timeout" } } }
    }
    this.#busy.add(whose)
    // Until the requests that were sent together have come.
    for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate)
    this.#busy.delete(whose)
    return this.judge(text)
  }

  protected override judge(text: string): Judged {
    const form = new URLSearchParams(text)
    const [identifier, whose, value] = ["identifier", "payload[stripe_customer_id]", "payload[value]"].map(
      (name) => form.get(name) ?? "",
    )
    const refused = (message: string): Judged => ({
      status: 400,
      body: { error: { type: "invalid_request_error", message } },
    })
    const timestamp = form.get("timestamp") ?? ""
    const age_ms = this.now() - Number(timestamp) * 1_000
    if (form.get("event_name") !== "tollgate_nano_usd") return refused("No active meter found for event name")
    if (!isText(identifier) || identifier.length > 100) return refused("Invalid identifier")
    if (this.has(identifier)) return refused(`An event already exists with identifier ${identifier}.`)
    if (!/^\d+$/.test(timestamp) || !(age_ms < 35 * DAY_MS) || age_ms < -AHEAD_MS)
      return refused("timestamp must be within the past 35 days")
    if (!/^cus_\w+$/.test(whose ?? "")) return refused("No such customer")
    if (!/^-?\d{1,15}$/.test(value ?? "")) return refused("value must be a whole number")
    if (this.poison.has(identifier)) return refused("The event was refused")
    return {
      status: 200,
      body: { object: "billing.meter_event" },
      counted: [{ id: identifier, whose: whose ?? "", value: value ?? "" }],
    }
  }
}

/** Takes a batch as a whole or not at all, and says what is wrong with each event. */
export class Lago extends Vendor {
  protected override readonly path = "/api/v1/events/batch"
  protected override readonly type = "application/json"

  protected override judge(text: string): Judged {
    const { events }: { events?: unknown } = JSON.parse(text)
    if (!Array.isArray(events) || events.length > 100)
      return { status: 422, body: { error_details: { events: ["too_many_events"] } } }
    const faults = events.map((event) => this.#faultOf(event))
    const error_details = Object.fromEntries(
      faults.flatMap((fault, at) => (fault === null ? [] : [[at, fault]])),
    )
    if (Object.keys(error_details).length > 0)
      return { status: 422, body: { status: 422, code: "validation_errors", error_details } }
    const counted = events.map(({ transaction_id: id, external_subscription_id: whose, properties }) => ({
      id,
      whose,
      value: properties.charge,
    }))
    return { status: 200, body: { events: [] }, counted }
  }

  #faultOf(event: unknown): Record<string, readonly string[]> | null {
    if (!isObject(event)) return { event: ["invalid"] }
    const { transaction_id: id, external_subscription_id: whose, code, timestamp, properties } = event
    if (!isText(id)) return { transaction_id: ["value_is_mandatory"] }
    if (this.has(id)) return { transaction_id: ["value_already_exist"] }
    if (!isText(whose)) return { external_subscription_id: ["value_is_mandatory"] }
    if (code !== "tollgate_usd") return { code: ["metric_not_found"] }
    if (!/^\d{10}(?:\.\d{1,3})?$/.test(String(timestamp))) return { timestamp: ["invalid_format"] }
    if (!isObject(properties) || hasNull(properties) || this.poison.has(id))
      return { properties: ["invalid_value"] }
    return null
  }
}
