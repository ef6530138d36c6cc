import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { parseUsd } from "../../src/money.ts"
import { type AdminHarness, openAdminHarness, type Planted, plantCalls } from "../admin/admin-harness.ts"
import { until, untilIs } from "../support/gateway.ts"
import { deliveringGateway } from "./delivering-gateway.ts"
import { Lago, OpenMeter, Stripe } from "./vendors.ts"

/** D96: OpenMeter, Stripe and Lago count every charge once, and one event that they refuse holds back no other for long. */

const CUSTOMER = "cus_NciAYcXfLnqBoz"
const DAY_MS = 86_400_000
const vendors = [
  { kind: "openmeter", Double: OpenMeter, meter: undefined, unit: 1_000_000_000n },
  { kind: "stripe", Double: Stripe, meter: "tollgate_nano_usd", unit: 1n },
  { kind: "lago", Double: Lago, meter: "tollgate_usd", unit: 1_000_000_000n },
] as const

let admin: AdminHarness
let account_id: string
const open: { stop(): Promise<void> }[] = []
const lines: string[] = []

beforeEach(async () => {
  admin = await openAdminHarness()
  const { body } = await admin.ask("POST", "/admin/accounts", { name: "Acme", external_id: CUSTOMER })
  account_id = body.id
  lines.length = 0
})
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.stop()
  await admin.close()
})

interface Shown {
  readonly state: string
  readonly reason: string | null
  readonly skipped: readonly {
    readonly id: string
    readonly source: string
    readonly type: string
    readonly at: string
    readonly reason: string
  }[]
}

async function shown(): Promise<Shown> {
  const { data }: { data: Shown[] } = JSON.parse((await admin.ask("GET", "/admin/sinks")).text)
  const [sink] = data
  if (sink === undefined) throw new Error("there is no sink")
  return sink
}

async function attached({ kind, Double, meter }: (typeof vendors)[number], retries_ms = [50]) {
  const vendor = new Double()
  open.push(vendor)
  const { url, token } = vendor
  const made = await admin.ask("POST", "/admin/sinks", {
    name: kind,
    kind,
    url,
    token,
    meter,
    allow_private: true,
  })
  if (made.status !== 201) throw new Error(made.text)
  const { deliveries } = await deliveringGateway(admin.database, lines, { retries_ms })
  open.push(deliveries)
  return { vendor, id: made.body.id }
}

/** Settled calls for 5 nano-USD each, unless it is said otherwise. */
async function plant(...calls: readonly (Partial<Planted> & { readonly id: string })[]) {
  const planted = calls.map((call) => ({ ...CALL, ...call, account_id: call.account_id ?? account_id }))
  await plantCalls(admin.database, planted)
}
const CALL = { state: "settled", charge_nano: 5n, prompt_tokens: 3, cached_tokens: 0, completion_tokens: 1 }

const counted = (vendor: { readonly counted: readonly unknown[] }, least: number) =>
  until(
    async () => vendor.counted.length,
    (count) => count >= least,
  )

/** Calls that were charged 1, 2, 3, … nano-USD, and one that was corrected by 7 nano-USD less. */
async function calls(count: number, whose = account_id, first = 1): Promise<string[]> {
  const planted = Array.from({ length: count }, (_, at) => {
    const charge_nano = BigInt(first + at)
    const corrected = { corrected: { charge_nano: charge_nano - 7n } }
    const is_last = at === count - 1
    return {
      id: nextId(),
      account_id: whose,
      charge_nano,
      state: is_last ? "expired" : "settled",
      ...(is_last && corrected),
    }
  })
  await plant(...planted)
  return planted.map(({ id }) => id)
}

const nanoOf = ({ value }: { readonly value: string }, unit: bigint) =>
  unit === 1n ? BigInt(value) : (parseUsd(value) ?? 0n)

describe.each(vendors)("$kind", (kind) => {
  test("D96: counts every charge and correction once, also when answers are lost", async () => {
    const { body: other } = await admin.ask("POST", "/admin/accounts", { name: "Internal" })
    const { vendor } = await attached(kind)
    vendor.lost = 3
    const ids = await calls(70, account_id, 10)
    const unnamed = await calls(2, other.id, 10)
    const wanted = [...ids, `${ids.at(-1)}/c`].toSorted()
    const countedOf = () => vendor.counted.filter(({ whose }) => whose === CUSTOMER)
    await until(
      async () => countedOf().length,
      (count) => count >= wanted.length,
    )
    expect(
      countedOf()
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(wanted)
    const sum_nano = countedOf().reduce((sum, each) => sum + nanoOf(each, kind.unit), 0n)
    expect(sum_nano).toBe(BigInt((70 * (10 + 79)) / 2 - 7))
    // Only OpenMeter counts an account without an external id: by its own one.
    const others = vendor.counted.filter(({ whose }) => whose !== CUSTOMER)
    expect(new Set(others.map(({ whose }) => whose))).toEqual(
      new Set(kind.kind === "openmeter" ? [other.id] : []),
    )
    expect(unnamed).toHaveLength(2)
  })

  test("D96: an event that is refused for ever is shown, recorded and skipped", async () => {
    const { vendor } = await attached(kind)
    const ids = Array.from({ length: 9 }, () => nextId())
    const poison = ids[4] ?? ""
    vendor.poison.add(poison)
    await plant(...ids.map((id) => ({ id })))
    await until(shown, ({ skipped }) => skipped.length > 0)
    expect((await shown()).skipped).toEqual([
      {
        id: poison,
        source: `/accounts/${account_id}`,
        type: "tollgate.call.ended",
        at: expect.any(String),
        reason: expect.stringMatching(/^status 4\d\d$/),
      },
    ])
    const wanted = ids.filter((id) => id !== poison).toSorted()
    await counted(vendor, wanted.length)
    expect(vendor.counted.map(({ id }) => id).toSorted()).toEqual(wanted)
    expect(lines.filter((line) => line.startsWith("warn an event was not delivered"))).toHaveLength(2)
    expect(lines.filter((line) => line.includes("it was skipped"))).toHaveLength(1)
    expect(await shown()).toMatchObject({ state: "active" })
  })

  test("D96: a sink that refuses events of three accounts in a row for ever stops, and its token is shown nowhere", async () => {
    const { vendor, id } = await attached(kind)
    const others = ["cus_B", "cus_C"].map(async (external_id) => {
      const { body } = await admin.ask("POST", "/admin/accounts", { name: external_id, external_id })
      return body.id
    })
    const whose = [account_id, account_id, ...(await Promise.all(others))]
    const planted = whose.map((each) => ({ id: nextId(), account_id: each }))
    for (const each of planted) vendor.poison.add(each.id)
    await plant(...planted)
    await untilIs(shown, { state: "stopped" })
    const { skipped, reason } = await shown()
    expect([skipped.length, reason]).toEqual([4, expect.stringContaining("4 events in a row were refused")])
    await calls(1, account_id, 10)
    const changed = await admin.ask("PATCH", `/admin/sinks/${id}`, { token: "wrong-token", paused: false })
    expect(changed.status).toBe(200)
    await untilIs(shown, { state: "failing" })
    expect(await shown()).toMatchObject({ reason: "status 401" })
    expect((await admin.ask("POST", `/admin/sinks/${id}/rotate`, {})).status).toBe(400)
    const change = (fields: object) => admin.ask("PATCH", `/admin/sinks/${id}`, fields)
    const elsewhere = { url: "https://elsewhere.example" }
    const { status, body } = await change(elsewhere)
    expect([status, body.error.param]).toEqual([400, "token"])
    for (const kept of [{ ...elsewhere, token: "another-token" }, { url: `${elsewhere.url}/v2` }])
      expect((await change(kept)).status).toBe(200)
    const told = [...admin.texts, ...lines].join()
    for (const secret of [vendor.token, "wrong-token"]) expect(told).not.toContain(secret)
  })
})

test("D96: Stripe gets the events of one customer one after another", async () => {
  const { body: other } = await admin.ask("POST", "/admin/accounts", { name: "B", external_id: "cus_B" })
  const ids = [...(await calls(20, account_id, 10)), ...(await calls(20, other.id, 10))]
  const { vendor, id } = await attached(vendors[1])
  const from = new Date(Date.now() - 3_600_000).toISOString()
  expect((await admin.ask("POST", `/admin/sinks/${id}/replay`, { from })).status).toBe(200)
  await counted(vendor, ids.length + 2)
  expect(vendor instanceof Stripe && vendor.overlaps).toBe(0)
  expect(lines.filter((line) => line.includes("status 429"))).toEqual([])
})

test("D96: Stripe gets nothing again that it may have counted and forgotten", async () => {
  // No second try before the time is changed: Stripe says that it has the event.
  const { vendor, id } = await attached(vendors[1], [3_600_000])
  vendor.lost = 1
  await calls(1, account_id, 10)
  await untilIs(shown, { state: "failing" })
  await admin.database.execute(
    sql`UPDATE tollgate.sinks SET failing_since = now() - interval '21 hours', retry_at = NULL`,
  )
  await untilIs(shown, { state: "stopped" })
  // From now on it would count the same identifier again.
  vendor.ahead_ms = DAY_MS + 1_000
  const { requests } = vendor
  expect(await shown()).toMatchObject({ reason: expect.stringContaining("it failed for too long") })
  const from = new Date(Date.now() - 21 * 3_600_000).toISOString()
  const replayed = await admin.ask("POST", `/admin/sinks/${id}/replay`, { from })
  expect([replayed.status, replayed.body.error.param]).toEqual([400, "from"])
  const other = { name: "other", kind: "stripe", url: vendor.url, token: vendor.token, meter: "m", from }
  const made = await admin.ask("POST", "/admin/sinks", { ...other, allow_private: true })
  expect([made.status, made.body.error.param]).toEqual([400, "from"])
  expect(vendor.requests).toBe(requests)
  expect(vendor.counted).toHaveLength(1)
})

test("D96: a sink for Stripe stops if its gateway died 20 hours ago, and goes on when an operator resumes it", async () => {
  const { vendor, id } = await attached(vendors[1])
  /** As if the gateway had been killed that long ago, and another one began. */
  const restarted = async (hours: number) => {
    await open.pop()?.stop()
    const dead = nextId()
    await admin.database.execute(sql`INSERT INTO tollgate.gateways (id, floor_id, lease_until)
      VALUES (${dead}, ${dead}, now() - ${hours}::int * interval '1 hour')`)
    await admin.database.execute(sql`UPDATE tollgate.sinks SET gateway_id = ${dead}`)
    const { deliveries } = await deliveringGateway(admin.database, lines)
    open.push(deliveries)
  }
  await calls(1, account_id, 10)
  await counted(vendor, 2)
  await restarted(19)
  await calls(1, account_id, 20)
  await counted(vendor, 4)
  const { requests } = vendor
  await restarted(21)
  await calls(1, account_id, 30)
  await until(shown, ({ state }) => state === "stopped")
  expect(await shown()).toMatchObject({
    reason: expect.stringContaining("look for the last charges in Stripe"),
  })
  expect(vendor.requests).toBe(requests)
  await admin.ask("PATCH", `/admin/sinks/${id}`, { paused: false })
  await counted(vendor, 6)
})

test("D96: a sink for Stripe stops if its gateway left a request without an answer 20 hours ago", async () => {
  const { vendor } = await attached(vendors[1])
  vendor.silent = 1
  await calls(1, account_id, 10)
  await untilIs(() => vendor.requests, 1)
  await open.pop()?.stop()
  await admin.database.execute(sql`UPDATE tollgate.gateways SET lease_until = now() - interval '21 hours'`)
  const { deliveries } = await deliveringGateway(admin.database, lines)
  open.push(deliveries)
  await until(shown, ({ state }) => state === "stopped")
  expect(vendor.requests).toBe(1)
})

test("D96: a sink for Stripe stops after a second restore, which forgets the order of events", async () => {
  const { vendor } = await attached(vendors[1])
  await calls(1, account_id, 10)
  await untilIs(() => vendor.counted.length, 2)
  const { requests } = vendor
  // A row that another transaction wrote than it names is one of a restored dump.
  await admin.database.execute(sql`UPDATE tollgate.feed_epochs SET series = 2`)
  await untilIs(shown, { state: "stopped" })
  expect(await shown()).toMatchObject({ reason: expect.stringContaining("was restored twice") })
  expect(vendor.requests).toBe(requests)
})

test("D96: an account that is no customer of Stripe delays nobody, and is shown", async () => {
  const { body: wrong } = await admin.ask("POST", "/admin/accounts", { name: "B", external_id: "acme" })
  const { vendor } = await attached(vendors[1])
  const ids = [...(await calls(5, wrong.id, 10)), ...(await calls(2, account_id, 10))]
  await untilIs(() => vendor.counted.length, 3)
  expect(vendor.requests).toBe(3)
  await until(shown, ({ skipped }) => skipped.length > 0)
  expect(await shown()).toMatchObject({
    state: "active",
    skipped: [
      {
        id: `${ids[4]}/c`,
        source: `/accounts/${wrong.id}`,
        reason: "the external_id acme is no customer of Stripe (cus_…)",
      },
    ],
  })
  expect(lines.filter((line) => line.includes("the events of an account are skipped"))).toHaveLength(1)
})

test("D96: an event that is refused for ever is sent again soon each time", async () => {
  const { vendor } = await attached(vendors[1], [50, 3_600_000])
  const [poison = ""] = await calls(2, account_id, 10)
  vendor.poison.add(poison)
  await until(shown, ({ skipped }) => skipped.length === 1)
})

test("D96: events that are too old for Stripe are skipped", async () => {
  const { vendor } = await attached(vendors[1])
  const old = new Date(Date.now() - 36 * 86_400_000)
  const ids = [nextId(), nextId()]
  await plant({ id: ids[0] ?? "", held_at: old, ended_at: old }, { id: ids[1] ?? "" })
  await untilIs(() => vendor.counted.length, 1)
  expect(vendor.counted.map(({ id }) => id)).toEqual(ids.slice(1))
  await until(shown, ({ skipped }) => skipped.length === 1)
})

const REFUSED: readonly (readonly [fields: object, param: string])[] = [
  [{ kind: "stripe", meter: "m" }, "token"],
  [{ kind: "stripe", token: "t" }, "meter"],
  [{ kind: "lago", token: "t" }, "meter"],
  [{ kind: "openmeter", token: "t", meter: "m" }, "meter"],
  [{ kind: "webhook", token: "t" }, "token"],
  [{ kind: "webhook", meter: "m" }, "meter"],
  [{ kind: "stripe", meter: "m", token: "rk_live_\u2026" }, "token"],
  [{ kind: "stripe", meter: "m", token: "two words" }, "token"],
  [{ kind: "kafka" }, "kind"],
  [{ name: "A B" }, "name"],
  [{ url: "https://127.0.0.1/" }, "url"],
  [{ url: "http://a.example.com/" }, "url"],
  [{ types: [] }, "types"],
  [{ types: ["call"] }, "types"],
  [{ from: "yesterday" }, "from"],
  [{ secret: "whsec_" }, "secret"],
  ...vendors.map(
    ({ kind, meter }) => [{ kind, meter, token: "t", url: "https://169.254.169.254/" }, "url"] as const,
  ),
]
test("what a vendor or a webhook cannot take is refused", async () => {
  for (const [fields, param] of REFUSED) {
    const body = { name: "a", url: "https://api.example.com", ...fields }
    const refused = await admin.ask("POST", "/admin/sinks", body)
    expect({ fields, status: refused.status, param: refused.body.error.param }).toEqual({
      fields,
      status: 400,
      param,
    })
  }
})
