import { afterAll, expect, test } from "bun:test"
import { listOf } from "../../src/wire/admin.ts"
import type { BudgetBody } from "../../src/wire/budget-bodies.ts"
import { BudgetLogBody } from "../../src/wire/events.ts"
import { ADMIN_TOKEN, chat, startGateway, until } from "../support/gateway.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"
import { twoShards } from "../support/two-shards.ts"

/** D97: what happened to budgets, and refusals by them, in the second of two shards. */

const { shards, drop } = await twoShards()
const provider = await startProvider()
provider.reply(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
const gateway = await startGateway(provider, {}, null, [{ ...shards[0], open: false }, shards[1]])
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
  await drop()
})

const LOG = listOf(BudgetLogBody)
type Log = (typeof LOG)["static"]

const read = (id: string, query = "") => gateway.admin<Log>("GET", `/budgets/${id}/entries${query}`)

async function status(key: string): Promise<number> {
  const answer = await chat(gateway, key)
  await answer.text()
  return answer.status
}

/** Calls refused by budgets of a unit, for all calls by day. */
async function refusals(unit: string): Promise<number> {
  const name = `tollgate_budget_refusals_total{selector="all",unit="${unit}",per="day"} `
  const line = (await gateway.service.printMetrics()).split("\n").find((one) => one.startsWith(name))
  return Number(line?.slice(name.length) ?? 0)
}

async function budgetOf(account: string, fields: object): Promise<string> {
  const body = { name: "All", selector: "all", unit: "requests", amount: "2", per: "day", ...fields }
  return (await gateway.admin<BudgetBody>("POST", `/accounts/${account}/budgets`, body)).id
}

/** A budget to which everything happens, and its deletion. */
async function lived(account: string, key: string): Promise<string> {
  const id = await budgetOf(account, { thresholds: [50], reason: "Trial" })
  expect(await status(key)).toBe(200)
  const path = `/budgets/${id}`
  await gateway.admin("PATCH", path, { amount: "3", reason: "Agreed" })
  await gateway.admin("PATCH", path, { raise: { amount: "9", until: "2099-01-01T00:00:00Z" } })
  await gateway.admin("POST", `${path}/reset`, { reason: "Test calls" })
  await gateway.admin("DELETE", path)
  return id
}

test("D97 a budget's log has its changes, their actors and reasons, and its thresholds, newest first", async () => {
  const { id: account, key } = await gateway.account("1")
  const other = await budgetOf(account, { name: "Other", thresholds: [50] })
  const id = await lived(account, key)
  const { data, next } = await read(id)
  expect(next).toBeNull()
  expect(data.map(({ type }) => type.replace("tollgate.budget.", ""))).toEqual([
    "deleted",
    "reset",
    "raised",
    "changed",
    "threshold_reached",
    "created",
  ])
  const raise = { amount: "9", until: "2099-01-01T00:00:00.000Z" }
  const made = (reason: string | null, amount: string, raised: typeof raise | null) => ({
    ...{ budget_id: id, account_id: account, name: "All", unit: "requests", per: "day", mode: "hard" },
    ...{ thresholds: [50], actor: "configured", reason, amount, raise: raised },
  })
  expect(data.map((entry) => entry.data)).toMatchObject([
    made(null, "3", raise),
    made("Test calls", "3", raise),
    made(null, "3", raise),
    made("Agreed", "3", null),
    { budget_id: id, account_id: account, unit: "requests", percent: 50, spent: "1", limit: "2" },
    made("Trial", "2", null),
  ])
  expect(data.map(({ time }) => time)).toEqual(
    data
      .map(({ time }) => time)
      .sort()
      .reverse(),
  )
  expect((await read(other)).data.map(({ type }) => type)).toEqual([
    "tollgate.budget.threshold_reached",
    "tollgate.budget.created",
  ])

  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  const created = async () =>
    (await fetch(`${gateway.url}/admin/events?types=tollgate.budget.created`, { headers })).text()
  // Transactions of other tests on the same server hold the feed back.
  await until(created, (text) => text.includes(id))

  const paged: BudgetLogBody[] = []
  for (let after: string | null = ""; after !== null; ) {
    const page: Log = await read(id, `?limit=1${after && `&after=${after}`}`)
    expect(page.data).toHaveLength(1)
    paged.push(...page.data)
    after = page.next
  }
  expect(paged).toEqual(data)

  await gateway.admin("POST", `/accounts/${account}/move`, { to: "a" })
  expect((await read(id)).data).toEqual(data)
})

test("D97 calls that budgets refuse are counted by selector, unit and period", async () => {
  const { id, key } = await gateway.account("1")
  await budgetOf(id, { amount: "1" })
  const before = await refusals("requests")
  expect([await status(key), await status(key), await status(key)]).toEqual([200, 402, 402])
  expect(await refusals("requests")).toBe(before + 2)
  expect(await refusals("usd")).toBe(0)
  await budgetOf(id, { unit: "usd", amount: "0" })
  expect(await status(key)).toBe(402)
  expect((await refusals("requests")) + (await refusals("usd"))).toBe(before + 3)
})
