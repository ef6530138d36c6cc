import { afterEach, beforeEach, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { watchTroubles } from "../../src/events/trouble-watch.ts"
import { nextId } from "../../src/id.ts"
import { alertLowBalances, noteTroubles } from "../../src/ledger/feed/alerts.ts"
import { gateways } from "../../src/ledger/schema/tables.ts"
import type { Trouble } from "../../src/wire/alerts.ts"
import { type AdminHarness, openAdminHarness } from "./admin-harness.ts"
import { readEvents } from "./feed.ts"

/** D96: alerts are events, each once, however many gateways notice. */

let admin: AdminHarness
beforeEach(async () => {
  admin = await openAdminHarness()
})
afterEach(() => admin.close())

const alerts = async (): Promise<[type: string, data: object][]> =>
  (await readEvents(admin)).lines
    .filter(({ type }) => /balance|upstream/.test(type))
    .map(({ type, data }) => [type.slice("tollgate.".length), data])

test("D96: a low balance is told once until it has recovered, by one of many gateways", async () => {
  const id = await admin.openAccount()
  const pay = (amount: string) => admin.ask("POST", `/admin/accounts/${id}/credits`, { amount })
  const look = () => Promise.all(Array.from({ length: 6 }, () => alertLowBalances(admin.database)))
  await pay("10")
  await look()
  const set = await admin.ask("PATCH", `/admin/accounts/${id}`, { low_balance: "5" })
  expect(set.body).toMatchObject({ low_balance: "5" })
  await look()
  await pay("-5")
  await look()
  expect(await alerts()).toEqual([])
  await pay("-0.000000001")
  await look()
  await pay("-1")
  await look()
  const first: [string, object] = ["balance.low", { account_id: id, balance: "4.999999999", threshold: "5" }]
  expect(await alerts()).toEqual([first])
  await pay("3")
  await look()
  await pay("-3")
  await look()
  expect(await alerts()).toEqual([
    first,
    ["balance.low", { account_id: id, balance: "3.999999999", threshold: "5" }],
  ])
  await admin.ask("PATCH", `/admin/accounts/${id}`, { low_balance: null })
  await look()
  expect(await alerts()).toHaveLength(2)
})

async function gateway(lives = true): Promise<string> {
  const id = nextId()
  const lease_until = sql`now() + ${lives ? 1 : -1}::int * interval '1 hour'`
  await admin.database.insert(gateways).values({ id, floor_id: id, lease_until })
  return id
}

const down = (is_on: boolean): Trouble => ({ upstream: "openai", key: null, trouble: "down", is_on })
const refused = (is_on: boolean): Trouble => ({
  upstream: "openai",
  key: "a",
  trouble: "account_refused",
  is_on,
})
const laterBy = (minutes: number) =>
  admin.database.execute(
    sql`UPDATE tollgate.upstream_troubles SET changed_at = changed_at - ${minutes}::int * interval '1 minute'`,
  )
const UPSTREAM = { upstream: "openai", upstream_key: null }

test("D96: an upstream is told to be down and up once, at most once in a minute", async () => {
  const [one, other] = [await gateway(), await gateway()]
  const note = (id: string, ...seen: Trouble[]) => noteTroubles(admin.database, id, seen)
  await note(one, down(false), refused(false))
  expect(await alerts()).toEqual([])
  await Promise.all([note(one, down(true)), note(other, down(true)), note(one, refused(true))])
  const first: [string, object][] = [
    ["upstream.account_refused", { ...UPSTREAM, upstream_key: "a" }],
    ["upstream.down", UPSTREAM],
  ]
  expect((await alerts()).toSorted()).toEqual(first)
  await note(one, down(false))
  expect(await alerts()).toHaveLength(2)
  await laterBy(2)
  const [{ gateway_id: seer } = { gateway_id: "" }] = await admin.database.execute<{ gateway_id: string }>(
    sql`SELECT gateway_id FROM tollgate.upstream_troubles WHERE trouble = 'down'`,
  )
  // Only the gateway that saw it says that it is over.
  await note(seer === one ? other : one, down(false))
  expect(await alerts()).toHaveLength(2)
  await note(seer, down(false), refused(false))
  expect((await alerts()).slice(2)).toEqual([["upstream.up", UPSTREAM]])
  await note(seer, down(true))
  expect(await alerts()).toHaveLength(3)
  await laterBy(2)
  await note(await gateway(false), down(true))
  await laterBy(2)
  // The gateway that saw it has died.
  await note(other, down(false))
  expect((await alerts()).slice(3).map(([type]) => type)).toEqual(["upstream.down", "upstream.up"])
})

test("a process tells troubles while they last and after, and otherwise once in a minute", async () => {
  let is_on = false
  const told: (readonly boolean[])[] = []
  const watch = watchTroubles(
    () => [down(is_on), refused(false)],
    async (seen) => void told.push(seen.map((each) => each.is_on)),
  )
  const look = async (s: number) => {
    watch.check(s * 1_000)
    await Promise.resolve()
    await new Promise(setImmediate)
  }
  await look(0)
  await look(5)
  is_on = true
  await look(10)
  is_on = false
  await look(15)
  await look(60)
  await look(300)
  expect(told).toEqual([[false, false], [true], [false], [false, false], [false, false]])
  await watch.stop()
})
