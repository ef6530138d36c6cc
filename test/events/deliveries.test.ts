import { afterEach, beforeEach, expect, test } from "bun:test"
import { createHmac } from "node:crypto"
import { sql } from "drizzle-orm"
import { NIL_ID, nextId } from "../../src/id.ts"
import { SinkQueue } from "../../src/ledger/feed/sinks.ts"
import { type AdminHarness, openAdminHarness } from "../admin/admin-harness.ts"
import { until, untilIs } from "../support/gateway.ts"
import { feedReaches } from "../support/horizon.ts"
import { deliveringGateway } from "./delivering-gateway.ts"

/** D96: every event reaches every sink, whatever one of them or a gateway does. */

interface Got {
  readonly id: string
  readonly body: string
  readonly headers: Headers
}

/** A receiver that answers as told: a status, now or later, or never. */
class Receiver {
  readonly got: Got[] = []
  /** The answers to the next messages; then 200. */
  readonly answers: (number | Promise<number> | "never")[] = []
  readonly #server = Bun.serve({
    port: 0,
    fetch: async (request) => {
      const body = await request.text()
      const told = this.answers.shift() ?? 200
      if (told === "never") return new Promise<Response>(() => {})
      const answer = await told
      const { headers } = request
      if (answer === 200) this.got.push({ id: headers.get("webhook-id") ?? "", body, headers })
      return new Response(null, { status: answer })
    },
  })

  get url(): string {
    return this.#server.url.href
  }

  get ids(): string[] {
    return this.got.map(({ id }) => id)
  }

  stop(): Promise<void> {
    return this.#server.stop(true)
  }
}

/** Sinks of a database that does not answer. */
class SilentSinkQueue extends SinkQueue {
  override claim() {
    return new Promise<never>(() => {})
  }
}

let admin: AdminHarness
let account_id: string
const open: { stop(): Promise<void> }[] = []
const lines: string[] = []

beforeEach(async () => {
  admin = await openAdminHarness()
  account_id = await admin.openAccount()
  lines.length = 0
})
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.stop()
  await admin.close()
})

async function gateway(retries_ms: readonly number[] = [50], { beside }: { beside?: SinkQueue[] } = {}) {
  const made = await deliveringGateway(admin.database, lines, { retries_ms, beside })
  open.push(made.deliveries)
  return made
}

/** A receiver, and the sink by this name that delivers to it. */
async function receiving(name: string, more: object = {}) {
  const sink = new Receiver()
  open.push(sink)
  const made = await admin.ask("POST", "/admin/sinks", { name, url: sink.url, allow_private: true, ...more })
  if (made.status !== 201) throw new Error(made.text)
  const { id, secret }: { id: string; secret: string } = JSON.parse(made.text)
  return { sink, id, secret }
}

interface Shown {
  readonly name: string
  readonly state: string
  readonly lag_seconds: number | null
  readonly reason: string | null
}

async function shown(name: string): Promise<Shown> {
  const { data }: { data: Shown[] } = JSON.parse((await admin.ask("GET", "/admin/sinks")).text)
  const found = data.find((sink) => sink.name === name)
  if (found === undefined) throw new Error(`no sink ${name}`)
  return found
}

async function addCredits(count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => nextId())
  for (const id of ids) await admin.ask("POST", `/admin/accounts/${account_id}/credits`, { id, amount: "1" })
  return ids
}

const reached = (sink: Receiver, count: number) =>
  until(
    async () => sink.ids,
    (ids) => new Set(ids).size >= count,
  )

function signature(secret: string, { id, body, headers }: Got): string {
  const key = Buffer.from(secret.slice("whsec_".length), "base64")
  const signed = `${id}.${headers.get("webhook-timestamp")}.${body}`
  return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`
}

test("D96: a sink gets each event once, signed, also during a rotation, and what `replay` asks for again", async () => {
  await addCredits(2)
  // While a transaction of the server is open, a new sink begins before it.
  await feedReaches(admin.database)
  const { sink, id, secret } = await receiving("billing")
  await gateway()
  const ids = await addCredits(20)
  await reached(sink, 20)
  expect(sink.ids.toSorted()).toEqual(ids.toSorted())
  for (const got of sink.got) {
    expect(got.headers.get("webhook-signature")).toBe(signature(secret, got))
    expect(JSON.parse(got.body)).toMatchObject({ specversion: "1.0", id: got.id, subject: account_id })
  }
  await untilIs(() => shown("billing"), { state: "active", lag_seconds: 0 })
  const rotated = await admin.ask("POST", `/admin/sinks/${id}/rotate`, {})
  const { secret: fresh }: { secret: string } = JSON.parse(rotated.text)
  await addCredits(1)
  await reached(sink, 21)
  const last = sink.got.at(-1)
  if (last === undefined) throw new Error("nothing came")
  expect(last.headers.get("webhook-signature")).toBe(`${signature(fresh, last)} ${signature(secret, last)}`)
  await admin.ask("POST", `/admin/sinks/${id}/replay`, { from: "2020-01-01T00:00:00Z" })
  await reached(sink, 23)
  await untilIs(() => sink.got.length, 21 + 23)
  // The secret is shown by what makes it, and by nothing else.
  const told = [...admin.texts.filter((text) => !text.includes('"secret"')), ...lines].join()
  for (const one of [secret, fresh]) expect(told).not.toContain(one)
  expect((await admin.ask("GET", "/admin/sinks")).text).not.toContain("whsec_")
})

test("D96: a place that was read before a delivery, and is used after it, sends nothing again", async () => {
  const { sink } = await receiving("billing")
  const taken = Promise.withResolvers<number>()
  sink.answers.push(taken.promise)
  const [first] = await addCredits(1)
  // Otherwise the first look could find nothing, and the sink would be idle before its first event.
  await feedReaches(admin.database)
  const { queue } = await gateway()
  const asked = Promise.withResolvers<void>()
  let looks = 0
  queue.wait = async () => {
    // The looks while the first event is being sent.
    if (sink.answers.length > 0 || (await placeOf("billing")).is_idle || ++looks > 1) return
    taken.resolve(200)
    await until(
      () => placeOf("billing"),
      ({ is_idle }) => is_idle,
    )
    asked.resolve()
  }
  await asked.promise
  const [second] = await addCredits(1)
  await reached(sink, 2)
  expect(sink.ids).toEqual([first ?? "", second ?? ""])
})

/** True if a sink has got all events, and its place is after everything that was written then. */
async function placeOf(name: string) {
  const [row] = await admin.database.execute<{ is_idle: boolean }>(
    sql`SELECT event_id = ${NIL_ID}::uuid AND delivered_at IS NOT NULL AS is_idle FROM tollgate.sinks WHERE name = ${name}`,
  )
  return { is_idle: row?.is_idle === true }
}

test("D96: an event that is refused is sent again until it is taken, and no other is left out", async () => {
  const { sink } = await receiving("flaky")
  sink.answers.push(...Array.from({ length: 12 }, (_, at) => (at % 3 === 0 ? 500 : at % 3 === 1 ? 200 : 404)))
  const { deliveries } = await gateway()
  const ids = await addCredits(30)
  await reached(sink, 30)
  expect([...new Set(sink.ids)].toSorted()).toEqual(ids.toSorted())
  expect(lines.some((line) => line.startsWith("warn an event was not delivered"))).toBeTrue()
  await untilIs(() => deliveries.lags().get("flaky"), 0)
})

test("D96: a failure after an event was taken is the first one again, also within one page", async () => {
  const { sink } = await receiving("twice")
  // Eight messages are sent at a time: refused, taken on the second attempt, and the next eight refused.
  for (const status of [500, 200, 500]) sink.answers.push(...Array.from({ length: 8 }, () => status))
  const ids = await addCredits(20)
  // Otherwise the first attempt may be at fewer than eight.
  await feedReaches(admin.database)
  await gateway([50, 3_600_000])
  await reached(sink, 20)
  expect(sink.ids.toSorted()).toEqual(ids.toSorted())
})

test("D96: a failure counts for its event, not for one that comes again after a restart of the database", async () => {
  const { sink } = await receiving("restarted")
  await gateway([50, 3_600_000])
  const [first = ""] = await addCredits(1)
  await reached(sink, 1)
  const refused = Promise.withResolvers<number>()
  // Then both events are refused, the first of which comes again.
  sink.answers.push(refused.promise, 500, 500)
  const [second = ""] = await addCredits(1)
  await untilIs(() => sink.answers.length, 2)
  await admin.database.execute(sql`
    INSERT INTO tollgate.feed_epochs (number, series, place, from_xid, seen_xid)
    SELECT number + 1, series, place, '0', seen_xid FROM tollgate.feed_epochs ORDER BY number DESC LIMIT 1`)
  refused.resolve(500)
  await reached(sink, 2)
  expect(sink.ids.toSorted()).toEqual([first, first, second].toSorted())
})

test("D96: a database that does not answer delays no sink of another one, also when the gateway stops", async () => {
  const { sink } = await receiving("billing")
  const { deliveries } = await gateway([50], {
    beside: [new SilentSinkQueue("silent", admin.database, nextId)],
  })
  await addCredits(1)
  await reached(sink, 1)
  await addCredits(1)
  await reached(sink, 2)
  await deliveries.stop()
  const [row] = await admin.database.execute(sql`SELECT gateway_id FROM tollgate.sinks`)
  expect(row).toEqual({ gateway_id: null })
})

test("D96: a sink that a gateway claims while it stops is left to others", async () => {
  await receiving("billing")
  const { deliveries, queue } = await gateway()
  const asked = Promise.withResolvers<void>()
  const claiming = Promise.withResolvers<void>()
  const claimed = Promise.withResolvers<void>()
  queue.begin = () => {
    asked.resolve()
    return claiming.promise
  }
  queue.wait = async () => claimed.resolve()
  await asked.promise
  const stopping = deliveries.stop()
  // It leaves its sinks now if it does not wait for the claim.
  for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
  claiming.resolve()
  await Promise.all([stopping, claimed.promise])
  const [row] = await admin.database.execute(sql`SELECT gateway_id FROM tollgate.sinks`)
  expect(row).toEqual({ gateway_id: null })
})

test("D96: a statement that hangs delays deliveries for the deadline, and hung ones leave operators connections", async () => {
  const queue = new SinkQueue("main", admin.database, nextId, 50)
  const lock = Promise.withResolvers<void>()
  const hung = Promise.withResolvers<void>()
  const locked = admin.database.transaction(async (transaction) => {
    await transaction.execute(sql`LOCK TABLE tollgate.sinks`)
    hung.resolve()
    await lock.promise
  })
  await hung.promise
  for (let times = 0; times < 5; times += 1)
    expect(queue.codeOf(await queue.claim().catch((error: unknown) => error))).toBe("deadline")
  const waiting = async () => {
    const [row] = await admin.database.execute<{ waiting: number }>(
      sql`SELECT count(*)::int AS waiting FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return row?.waiting ?? 0
  }
  // On a busy machine a statement reaches its lock after its deadline.
  expect(await until(waiting, (count) => count >= 2)).toBe(2)
  lock.resolve()
  await locked
  await until(
    () => queue.claim().catch(() => null),
    (claimed) => claimed !== null,
  )
})

test("D96: a sink that never answers or always fails delays no other, and its lag grows", async () => {
  const { sink: slow } = await receiving("slow")
  const { sink: failing } = await receiving("failing")
  const { sink: fast } = await receiving("fast")
  slow.answers.push(...Array<"never">(1_000).fill("never"))
  failing.answers.push(...Array<number>(1_000).fill(503))
  const { deliveries } = await gateway([60_000])
  const ids = await addCredits(100)
  await reached(fast, 100)
  expect(fast.ids.toSorted()).toEqual(ids.toSorted())
  expect([slow.ids, failing.ids]).toEqual([[], []])
  await untilIs(() => shown("failing"), { state: "failing", reason: "status 503" })
  for (const name of ["slow", "failing"])
    await until(
      () => deliveries.lags().get(name),
      (lag_s) => lag_s !== undefined && lag_s > 0,
    )
})

test("D96: 410 stops a sink; resumed, it goes on where it was", async () => {
  const { sink, id } = await receiving("gone")
  sink.answers.push(200, 410)
  await gateway()
  const [first = ""] = await addCredits(1)
  await reached(sink, 1)
  const rest = await addCredits(3)
  await untilIs(() => shown("gone"), { state: "stopped" })
  const before = new Set(sink.ids)
  expect(before.has(first)).toBeTrue()
  await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: false })
  await reached(sink, 4)
  expect([...new Set(sink.ids)].toSorted()).toEqual([first, ...rest].toSorted())
})

test("D96: a paused sink gets nothing, and everything when it is resumed", async () => {
  const { sink, id } = await receiving("paused", { types: ["tollgate.credit.added"] })
  await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: true })
  await gateway()
  const ids = await addCredits(5)
  await feedReaches(admin.database)
  expect((await shown("paused")).lag_seconds).toBeGreaterThan(0)
  expect(sink.ids).toEqual([])
  await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: false })
  await reached(sink, 5)
  expect(sink.ids.toSorted()).toEqual(ids.toSorted())
  expect((await admin.ask("DELETE", `/admin/sinks/${id}`)).status).toBe(204)
  expect((await admin.ask("DELETE", `/admin/sinks/${id}`)).status).toBe(404)
})

test.each(["paused", "its gateway stops"])(
  "D96: what a sink takes while it is %s is not sent again",
  async (what) => {
    const { sink, id } = await receiving("billing", { types: ["tollgate.credit.added"] })
    const taken = Promise.withResolvers<number>()
    sink.answers.push(taken.promise)
    const { deliveries } = await gateway()
    const [first = ""] = await addCredits(1)
    await untilIs(() => sink.answers.length, 0)
    const paused = async () => void (await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: true }))
    const changing = what === "paused" ? paused() : deliveries.stop()
    if (what === "paused") await changing
    taken.resolve(200)
    await changing
    await untilIs(() => shown("billing"), { lag_seconds: 0 })
    if (what === "paused") await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: false })
    else await gateway()
    const [second = ""] = await addCredits(1)
    await until(
      async () => sink.ids.includes(second),
      (has) => has,
    )
    expect(sink.ids).toEqual([first, second])
  },
)

test("D96: one gateway delivers; when its lease has lapsed, another one continues", async () => {
  const { sink } = await receiving("billing")
  const first = await gateway()
  await addCredits(1)
  await reached(sink, 1)
  const second = await gateway()
  await addCredits(5)
  await reached(sink, 6)
  expect([first.deliveries.lags().size, second.deliveries.lags().size]).toEqual([1, 0])
  await admin.database.execute(
    sql`UPDATE tollgate.gateways SET lease_until = now() - interval '1 second' WHERE id = ${first.id}::uuid`,
  )
  await untilIs(() => second.deliveries.lags().size, 1)
  await untilIs(() => first.deliveries.lags().size, 0)
  const ids = await addCredits(5)
  await reached(sink, 11)
  expect(ids.every((id) => sink.ids.includes(id))).toBeTrue()
})

test("D96: a gap in the feed stops one sink, and hides neither others nor what is changed", async () => {
  const { sink: lost, id } = await receiving("lost")
  const { sink: well } = await receiving("well")
  const paused = await receiving("paused")
  await admin.ask("PATCH", `/admin/sinks/${paused.id}`, { paused: true })
  await admin.database.execute(sql`UPDATE tollgate.sinks SET epoch = gen_random_uuid() WHERE name <> 'well'`)
  const reason = "the ledger does not know the place in the feed"
  expect(await shown("lost")).toMatchObject({ state: "active", lag_seconds: null, reason })
  const rotated = await admin.ask("POST", `/admin/sinks/${id}/rotate`, {})
  expect([rotated.status, rotated.text.includes("whsec_")]).toEqual([200, true])
  await gateway()
  const ids = await addCredits(5)
  await reached(well, 5)
  await untilIs(() => shown("lost"), { state: "stopped" })
  expect(await shown("paused")).toMatchObject({ state: "paused", lag_seconds: null, reason })
  const replayed = await admin.ask("POST", `/admin/sinks/${id}/replay`, { from: "2020-01-01T00:00:00Z" })
  expect(replayed.status).toBe(200)
  await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: false })
  await reached(lost, 5)
  expect(ids.every((each) => lost.ids.includes(each))).toBeTrue()
})

test("a name is taken once, and the same id again makes nothing", async () => {
  const body = { id: nextId(), name: "billing", url: "https://billing.example.com/" }
  expect((await admin.ask("POST", "/admin/sinks", body)).status).toBe(201)
  const again = await admin.ask("POST", "/admin/sinks", body)
  expect([again.status, again.text.includes("secret")]).toEqual([200, false])
  const other = await admin.ask("POST", "/admin/sinks", { ...body, id: nextId() })
  expect([other.status, other.body.error.param]).toEqual([400, "name"])
})
