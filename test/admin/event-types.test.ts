import { afterEach, beforeEach, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { alerts } from "../../src/ledger/schema/alerts.ts"
import { attempts } from "../../src/ledger/schema/attempts.ts"
import { budget_crossings } from "../../src/ledger/schema/budgets.ts"
import { end_users } from "../../src/ledger/schema/labels.ts"
import { usualEvents } from "../../src/wire/events.ts"
import { type AdminHarness, openAdminHarness, plantCall } from "./admin-harness.ts"
import { askEvents, type Line, readAll, readEvents, restoredFrom } from "./feed.ts"

/** D96: every kind of entry is an event, in the order of the journal, with ids that stay. */

const open: AdminHarness[] = []
let admin: AdminHarness
beforeEach(async () => {
  admin = await openAdminHarness()
  open.push(admin)
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

const YEAR = new Date().getUTCFullYear() + 1
const later = (month: number) => new Date(Date.UTC(YEAR, month)).toISOString()

async function done(method: string, path: string, body?: object) {
  const { status, text, body: answer } = await admin.ask(method, path, body)
  if (status >= 300) throw new Error(text)
  return answer
}

/** Entries of every kind, those of an attempt and a threshold several at a time. */
async function everyEntry(): Promise<string> {
  const { id: account_id } = await done("POST", "/admin/accounts", { name: "Acme", external_id: "crm-17" })
  const call = { account_id, charge_nano: 300n, prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1 }
  const id = await plantCall(admin.database, { ...call, state: "settled" })
  await plantCall(admin.database, { ...call, state: "expired", corrected: { charge_nano: 900n } })
  const attempt = { id, account_id, upstream: "openai", duration_ms: 12, ended_at: new Date() }
  await admin.database.insert(attempts).values([
    { ...attempt, ordinal: 0, status: 503, request_id: "req_7" },
    { ...attempt, ordinal: 1, failure: "timeout" },
  ])
  await grants(account_id)
  await budget(account_id)
  const ann = nextId()
  await admin.database.insert(end_users).values({ id: ann, account_id, subject: "ann@example.com" })
  const upstream = { upstream: "openai", upstream_key: null }
  await admin.database.insert(alerts).values([
    { type: "tollgate.balance.low", account_id, details: { balance: "4000000000", threshold: "5000000000" } },
    { type: "tollgate.upstream.down", details: upstream },
    { type: "tollgate.upstream.up", details: upstream },
    { type: "tollgate.upstream.account_refused", details: { ...upstream, upstream_key: "team-a" } },
  ])
  await done("POST", `/admin/accounts/${account_id}/forget-end-user`, { end_user: "ann@example.com" })
  return account_id
}

async function grants(account_id: string): Promise<void> {
  const credits = `/admin/accounts/${account_id}/credits`
  await done("POST", credits, { amount: "5", effective_at: later(1) })
  await admin.database.execute(sql`UPDATE tollgate.grants SET starts_at = now()`)
  await admin.database.execute(sql`UPDATE tollgate.accounts SET next_change_at = now()`)
  const { id } = await done("POST", credits, { amount: "2", expires_at: later(2) })
  await done("POST", `/admin/credits/${id}/void`, { reason: "Chargeback" })
  await done("POST", credits, { amount: "3", expires_at: later(3) })
  // A call was charged meanwhile, and its money leaves.
  await admin.database.execute(sql`UPDATE tollgate.accounts SET balance_nano = balance_nano - 1000000000`)
  await admin.database.execute(
    sql`UPDATE tollgate.grants SET expires_at = now() WHERE expires_at IS NOT NULL`,
  )
  await admin.database.execute(sql`UPDATE tollgate.accounts SET next_change_at = now()`)
  await admin.database.execute(sql`SELECT tollgate.change_grants(${account_id}::uuid)`)
  await admin.database.execute(sql`SELECT tollgate.leave_grants(${account_id}::uuid, ${nextId()}::uuid)`)
}

async function budget(account_id: string): Promise<void> {
  const body = { name: "All", selector: "all", amount: "10", per: "total", thresholds: [50, 80] }
  const { id: budget_id } = await done("POST", `/admin/accounts/${account_id}/budgets`, body)
  await done("PATCH", `/admin/budgets/${budget_id}`, { name: "Everything", reason: "Clearer" })
  await done("PATCH", `/admin/budgets/${budget_id}`, { raise: { amount: "20", until: later(4) } })
  const crossing = {
    budget_id,
    account_id,
    since: new Date(),
    spent: 8_000_000_000n,
    amount: 10_000_000_000n,
  }
  await admin.database.insert(budget_crossings).values([
    { ...crossing, percent: 50 },
    { ...crossing, percent: 80 },
  ])
  await done("POST", `/admin/budgets/${budget_id}/reset`, {})
  await done("DELETE", `/admin/budgets/${budget_id}`)
}

/** The balance as docs/events.md computes it, without the charges. */
function balanceOf(lines: readonly Line[]): number {
  const amounts = lines.map(({ type, data: { amount, effective_at, created_at = "" } }) => {
    if (type === "tollgate.credit.added") return (effective_at ?? "") > created_at ? 0 : Number(amount)
    if (type === "tollgate.credit.started") return Number(amount)
    return ["tollgate.credit.expired", "tollgate.credit.voided"].includes(type) ? -Number(amount) : 0
  })
  return amounts.reduce((sum, amount) => sum + amount, 0)
}

test("D96: every kind of entry is an event, and every line can be continued from", async () => {
  const account_id = await everyEntry()
  const { lines, ids } = await readAll(admin, null, 5)
  expect(new Set(lines.map(({ type }) => type))).toEqual(new Set(usualEvents))
  expect(new Set(ids).size).toBe(ids.length)
  for (const { type, subject, source } of lines) {
    const of_upstream = { subject: "openai", source: "/upstreams/openai" }
    const of_account = { subject: "crm-17", source: `/accounts/${account_id}` }
    expect({ subject, source }).toEqual(type.startsWith("tollgate.upstream.") ? of_upstream : of_account)
  }
  for (const [at, { cursor }] of lines.entries())
    expect((await askEvents(admin, { after: cursor, limit: 50 })).lines.map(({ id }) => id)).toEqual(
      ids.slice(at + 1),
    )
  const { balance } = await done("GET", `/admin/accounts/${account_id}`)
  expect(balanceOf(lines) - 1).toBe(Number(balance))
  for (const type of usualEvents) {
    const { lines: found } = await askEvents(admin, { types: type, limit: 50 })
    expect(found.map(({ id }) => id)).toEqual(lines.filter((line) => line.type === type).map(({ id }) => id))
  }
})

const EXAMPLE = /^ {4}(\{"type":.*\})$/gm

test("docs/events.md has an example of each type, with the fields that events have", async () => {
  await everyEntry()
  const { lines } = await readAll(admin, null, 50)
  const page = await Bun.file(new URL("../../docs/events.md", import.meta.url)).text()
  const examples: Pick<Line, "type" | "data">[] = [...page.matchAll(EXAMPLE)].map(([, text]) =>
    JSON.parse(text ?? ""),
  )
  const fieldsOf = (shown: typeof examples) =>
    new Map(shown.map(({ type, data }) => [type, Object.keys(data).toSorted()]))
  const wanted = fieldsOf(lines.filter(({ type }) => !type.startsWith("tollgate.call.")))
  expect(Object.fromEntries(fieldsOf(examples))).toEqual(Object.fromEntries(wanted))
})

test("D96: the same events with the same ids and data, also from a restored ledger", async () => {
  await everyEntry()
  const { lines } = await readAll(admin, null, 50)
  const tables = [
    "attempts",
    "credits",
    "grant_entries",
    "budget_entries",
    "budget_crossings",
    "end_users",
    "alerts",
  ]
  const restored = await restoredFrom(admin, tables)
  open.push(restored)
  const told = (line: object) => ({ ...line, cursor: undefined })
  const kept = lines.filter(({ type }) => !type.startsWith("tollgate.call."))
  expect((await readAll(restored, null, 3)).lines.map(told)).toEqual(kept.map(told))
  // A reader of the lost server continues where it was.
  const behind = kept[4]
  expect((await readAll(restored, behind?.cursor ?? null, 3)).lines.map(told)).toEqual(
    kept.slice(5).map(told),
  )
})

test("the subject is the account's external id, as it is when the event is read", async () => {
  const { id } = await done("POST", "/admin/accounts", { name: "Acme" })
  await done("POST", `/admin/accounts/${id}/credits`, { amount: "1" })
  const subjects = async () => (await readEvents(admin)).lines.map(({ subject }) => subject)
  expect(await subjects()).toEqual([id])
  await done("PATCH", `/admin/accounts/${id}`, { external_id: "crm-1" })
  expect(await subjects()).toEqual(["crm-1"])
  await done("PATCH", `/admin/accounts/${id}`, { external_id: null })
  expect(await subjects()).toEqual([id])
})
