import { afterAll, expect, test } from "bun:test"
import type { OperatorUsageReport, UsageReport } from "../../src/wire/usage-report.ts"
import { chat, endSound, startGateway } from "../support/gateway.ts"
import { HELLO, startProvider } from "../support/provider.ts"
import { accountIn, twoShards } from "../support/two-shards.ts"

/** D94: calls with end users and tags of accounts in two shards, through one gateway. */

const RULES = { tags: ["feature"] }
const CHARGE = "0.00003"
const DAY_MS = 86_400_000

const { shards, drop } = await twoShards()
const provider = await startProvider()
provider.reply(HELLO)
const both = await startGateway(provider, RULES, null, shards)
afterAll(async () => {
  await endSound(both, provider)
  await drop()
})
const accounts = [await customer("a", "search"), await customer("b", "ops")] as const

/** An account in a shard, and a key whose calls are a team's. */
async function customer(shard: string, team: string) {
  const id = await accountIn(both, shard)
  const { key } = await both.admin<{ key: string }>("POST", `/accounts/${id}/keys`, { labels: { team } })
  return { id, key }
}

async function call(place: 0 | 1, end_user: string | null, tags: string | null): Promise<string> {
  const headers = { ...(tags !== null && { "x-tollgate-tags": tags }) }
  const fields = { ...(end_user !== null && { user: end_user }) }
  const answer = await chat(both, accounts[place].key, fields, { headers })
  expect(answer.status).toBe(200)
  await answer.text()
  return answer.headers.get("x-request-id") ?? ""
}

async function groups(by: string): Promise<(readonly [name: string, calls: number, charge: string])[]> {
  const { data } = await both.admin<OperatorUsageReport>("GET", `/usage?by=${by}`)
  return data.map(({ group, name, calls, charge }) => [name ?? group, calls, charge] as const).sort()
}

test("D94 lists, receipts and sums by end user and tag are those of both shards", async () => {
  const ids = [
    await call(0, "ann", "feature=rag"),
    await call(1, "ann", "feature=rag"),
    await call(1, "bob", null),
    await call(1, null, "feature=chat"),
  ]
  // An end user belongs to an account.
  const one = (name: string) => [name, 1, CHARGE] as const
  expect(await groups("end_user")).toEqual([one(""), one("ann"), one("ann"), one("bob")])
  expect(await groups("tag:feature")).toEqual([one(""), one("chat"), ["rag", 2, "0.00006"]])
  expect(await groups("tag:team")).toEqual([["ops", 3, "0.00009"], one("search")])
  const list = async (query: string) =>
    (await both.admin<{ data: { id: string }[] }>("GET", `/calls?${query}`)).data.map(({ id }) => id).sort()
  expect(await list("tag=feature=rag")).toEqual(ids.slice(0, 2).sort())
  expect(await list("tag=feature=rag,team=ops")).toEqual(ids.slice(1, 2))
  expect(await list("end_user=ann")).toEqual(ids.slice(0, 2).sort())
  const receipt = await both.admin("GET", `/calls/${ids[1]}`)
  expect(receipt).toMatchObject({ end_user: "ann", tags: { team: "ops", feature: "rag" } })
})

test("D94 a client sees the end users of its own account, and one that is forgotten is so in its account only", async () => {
  const own = async (place: 0 | 1): Promise<readonly (string | null)[]> => {
    const { data } = await both.own<UsageReport>("/v1/usage?by=end_user", accounts[place].key)
    return data.flatMap(({ group, name }) => (group === "" ? [] : name)).sort()
  }
  expect([await own(0), await own(1)]).toEqual([["ann"], ["ann", "bob"]])
  await both.admin("POST", `/accounts/${accounts[1].id}/forget-end-user`, { end_user: "ann" })
  expect(await own(0)).toEqual(["ann"])
  expect(await own(1)).toEqual(["bob", null])
})

test("D98 the calls of both shards are our side of a comparison with a provider's usage", async () => {
  const now_ms = Date.now()
  const from_ms = now_ms - (now_ms % DAY_MS)
  const query = new URLSearchParams({
    upstream: "first",
    step: "day",
    from: new Date(from_ms - DAY_MS).toISOString(),
    to: new Date(from_ms + DAY_MS).toISOString(),
  })
  const { data } = await both.admin<{ data: { calls: number; prompt_tokens: number }[] }>(
    "GET",
    `/reconciliation?${query}`,
  )
  const sum = (of: (sums: (typeof data)[number]) => number) => data.reduce((all, one) => all + of(one), 0)
  const made = (await both.calls("?limit=1000")).length
  expect(made).toBeGreaterThan(3)
  expect([sum(({ calls }) => calls), sum(({ prompt_tokens }) => prompt_tokens)]).toEqual([made, 10 * made])
})
