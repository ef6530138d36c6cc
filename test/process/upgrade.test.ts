import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { parseUsd, printUsd } from "../../src/money.ts"
import { createOldLedger, VERSION_0_2 } from "../ledger/old-ledger.ts"
import { emptyDatabase, type FreshDatabase, withSql } from "../support/database.ts"
import { CHAT, chat, configFor, until } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { HELLO, type Provider, startProvider } from "../support/provider.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

/**
 * The upgrade of a ledger whose rows version 0.2.0 wrote itself, and whose gateway was killed during a call: three accounts, keys of which one
 * is limited and one revoked, and calls that were settled, released, cut and left open.
 */

const ROWS = readFileSync(join(import.meta.dir, "../fixtures/ledger-0.2.0.sql"), "utf8")
const Nullable = Type.Union([Type.String(), Type.Null()])
/** What the admin API of 0.2.0 said of it. */
const facts = Value.Parse(
  Type.Object({
    key: Type.String(),
    limited_key: Type.String(),
    revoked_key: Type.String(),
    accounts: Type.Array(
      Type.Object({ id: Type.String(), name: Type.String(), balance: Type.String(), held: Type.String() }),
    ),
    calls: Type.Array(Type.Object({ id: Type.String(), state: Type.String(), charge: Nullable })),
  }),
  JSON.parse(ROWS.split("\n")[1]?.slice(3) ?? "null"),
)
const accountNamed = (name: string) => {
  const found = facts.accounts.find((account) => account.name === name)
  if (found === undefined) throw new Error(`there is no account ${name}`)
  return found
}
/** Of the checkpoint of the call that was open, which its expiry charges. */
const CHECKPOINT_NANO = 40_000n
/** Of 10 prompt and 5 completion tokens. */
const CALL_NANO = 30_000n

const UPGRADED = new Date().toISOString()
let fresh: FreshDatabase
let provider: Provider
let place: Workplace
let gateway: GatewayProcess

beforeAll(async () => {
  fresh = await emptyDatabase()
  await withSql(fresh.address, async (sql) => {
    await createOldLedger(sql, VERSION_0_2)
    await sql.unsafe(ROWS)
  })
  provider = await startProvider()
  provider.reply(HELLO)
  place = new Workplace()
  place.configure(configFor(provider.url, { lease: { renew: "200ms", expire: "1s" }, tags: ["team"] }))
  gateway = await place.start(databaseVariables(fresh.address))
})
afterAll(async () => {
  await place.clear()
  await provider.stop()
  await fresh.drop()
})

const admin = <Answer>(method: string, path: string, body?: object) =>
  operatorOf(gateway.url).admin<Answer>(method, path, body)
const balanceOf = async (name: string) =>
  (await operatorOf(gateway.url).balance(accountNamed(name).id)).balance
const less = (usd: string, nano: bigint) => printUsd((parseUsd(usd) ?? 0n) - nano)

describe("D109 the ledger of version 0.2.0, at this version", () => {
  test("has every balance; the call that was open is charged its checkpoint, and holds nothing", async () => {
    const acme = accountNamed("Acme")
    await until(
      () => operatorOf(gateway.url).balance(acme.id),
      ({ held }) => held === "0",
    )
    expect(await balanceOf("Acme")).toBe(less(acme.balance, CHECKPOINT_NANO))
    for (const name of ["Globex", "Initech"]) expect(await balanceOf(name)).toBe(accountNamed(name).balance)
  })

  test("has every call with its state and its charge", async () => {
    expect(facts.calls).toHaveLength(10)
    for (const { id, state, charge } of facts.calls) {
      const open = { state: "expired", charge: printUsd(CHECKPOINT_NANO) }
      expect(await operatorOf(gateway.url).call(id)).toMatchObject(
        state === "open" ? open : { state, charge },
      )
    }
  })

  test("lets its keys call, as they could before", async () => {
    const before = await balanceOf("Acme")
    const statuses = [facts.key, facts.limited_key, facts.revoked_key].map(async (key) => {
      const answer = await chat(gateway, key)
      await answer.text()
      return answer.status
    })
    expect(await Promise.all(statuses)).toEqual([200, 200, 401])
    expect(await balanceOf("Acme")).toBe(less(before, CALL_NANO))
    expect(await balanceOf("Globex")).toBe(less(accountNamed("Globex").balance, CALL_NANO))
  })

  test("passes a full audit, and starts again", async () => {
    const audit = () => operatorOf(gateway.url).admin("GET", "/audit?full=true")
    expect(await audit()).toMatchObject({ accounts: 3, open_holds: 0, violations: [] })
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    gateway = await place.start(databaseVariables(fresh.address))
    expect(await audit()).toMatchObject({ accounts: 3, open_holds: 0, violations: [] })
  })
})

interface Group {
  readonly group: string
  readonly name: string | null
  readonly calls: number
  readonly charge: string
}

interface FeedEvent {
  readonly type: string
  readonly data: { readonly id: string }
}

/** Calls of accounts that only the version before has made; each part is used as on the first day after the upgrade. */
describe("D109 on the ledger of version 0.2.0", () => {
  const DAY = "from=2026-11-26&to=2026-11-27"
  let acme: string
  let key_id: string
  const called = async (headers: Record<string, string> = {}) => {
    const init = {
      headers: { authorization: `Bearer ${facts.key}`, "content-type": "application/json", ...headers },
    }
    const answer = await chat(gateway, facts.key, {}, init)
    return { status: answer.status, id: answer.headers.get("x-request-id") ?? "", body: await answer.json() }
  }
  /** Of the day of the calls before, and since the upgrade: a report is of at most a year. */
  const usageBy = async (by: string) => {
    const reports = [DAY, `from=${UPGRADED}`].map((span) =>
      admin<{ data: Group[] }>("GET", `/usage?by=${by}&account=${acme}&${span}`),
    )
    return (await Promise.all(reports)).flatMap(({ data }) => data)
  }
  const chargedBy = async (by: string) =>
    (await usageBy(by)).reduce((sum, { charge }) => sum + (parseUsd(charge) ?? 0n), 0n)

  async function endedInFeed(): Promise<string[]> {
    const answer = await fetch(`${gateway.url}/admin/events?types=tollgate.call.ended&limit=1000`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    const lines = (await answer.text()).split("\n").filter((line) => line !== "")
    return lines.map((line): FeedEvent => JSON.parse(line)).map(({ data }) => data.id)
  }

  beforeAll(async () => {
    acme = accountNamed("Acme").id
    const { data } = await admin<{ data: { id: string; name: string }[] }>("GET", `/accounts/${acme}/keys`)
    key_id = data.find(({ name }) => name === "production")?.id ?? ""
  })

  test("D94 an old key gets labels, and calls from before have no end user and no tag", async () => {
    await admin("PATCH", `/keys/${key_id}`, { labels: { team: "search" } })
    const { id } = await called({ "x-tollgate-end-user": "ann" })
    expect(await operatorOf(gateway.url).call(id)).toMatchObject({
      tags: { team: "search" },
      end_user: "ann",
    })
    const whole = await chargedBy("model")
    for (const by of ["end_user", "tag:team"]) expect(await chargedBy(by)).toBe(whole)
    const users = await usageBy("end_user")
    expect(users.map(({ name, calls }) => [name, calls])).toContainEqual(["ann", 1])
    expect(users.find(({ group }) => group === "")?.calls).toBe(6)
    await admin("POST", `/accounts/${acme}/forget-end-user`, { end_user: "ann" })
    expect((await usageBy("end_user")).map(({ name }) => name)).not.toContain("ann")
    expect(await chargedBy("end_user")).toBe(whole)
  })

  test("D97, D99 budgets and rate limits refuse from their creation on, and name themselves", async () => {
    const budget = (fields: object) =>
      admin<{ id: string }>("POST", `/accounts/${acme}/budgets`, { selector: "all", ...fields })
    const { id } = await budget({ name: "Trial", amount: "0.000001", per: "total" })
    expect(await called()).toMatchObject({
      status: 402,
      body: { error: { code: "budget_reached", budget: { id, name: "Trial" }, spent: "0" } },
    })
    await admin("DELETE", `/budgets/${id}`)
    const rate = await budget({ name: "Rate", amount: "1", unit: "requests", per: "minute" })
    expect([(await called()).status, (await called()).status]).toEqual([200, 429])
    await admin("DELETE", `/budgets/${rate.id}`)
  })

  test("D95 a credit that expires is spent before the credits of before, and what is unused of it is voided", async () => {
    const credits = `/accounts/${acme}/credits`
    const before = await balanceOf("Acme")
    const credit = { amount: "1", priority: 10, expires_at: "2999-01-01T00:00:00Z" }
    const { id } = await admin<{ id: string }>("POST", credits, credit)
    await called()
    const { data } = await admin<{ data: { id: string; left: string }[] }>("GET", credits)
    expect(data.map(({ left }) => left)).toContain(less("1", CALL_NANO))
    await admin("POST", `/credits/${id}/void`, {})
    // The call was paid by the credit, so the rest is as it was.
    expect(await balanceOf("Acme")).toBe(before)
  })

  test("D100, D110 a price list and a price of the account change what new calls cost, and no old call", async () => {
    const charges = async () => {
      const all = facts.calls.map(({ id }) => operatorOf(gateway.url).call(id))
      return (await Promise.all(all)).map(({ charge, prices }) => [charge, prices])
    }
    const before = await charges()
    const cost = async () => (await operatorOf(gateway.url).call((await called()).id)).charge
    const list = { name: "Partners", prices: [{ model: CHAT, prices: { input: "2", output: "8" } }] }
    const { id } = await admin<{ id: string }>("POST", "/price-lists", list)
    await admin("POST", `/price-lists/${id}/assignments`, { account_id: acme })
    expect(await cost()).toBe(printUsd(2n * CALL_NANO))
    await admin("POST", `/accounts/${acme}/prices`, { model: CHAT, price_multiplier: "3" })
    expect(await cost()).toBe(printUsd(3n * CALL_NANO))
    expect(await charges()).toEqual(before)
  })

  test("D96 the feed begins with the upgrade: the end of the open call, and each call since, once", async () => {
    const made = (await operatorOf(gateway.url).calls("?limit=1000")).map(({ id }) => String(id))
    const old = new Set(facts.calls.filter(({ state }) => state !== "open").map(({ id }) => id))
    const wanted = made.filter((id) => !old.has(id)).toSorted()
    // Transactions of other tests on the same server hold the feed back.
    const told = await until(endedInFeed, (ids) => ids.length >= wanted.length)
    expect(told.toSorted()).toEqual(wanted)
  })

  test("D98 the calls of before are compared with a provider's report like others", async () => {
    const { data } = await admin<{ data: unknown }>("GET", `/reconciliation?upstream=first&step=day&${DAY}`)
    const settled = facts.calls.filter(({ state }) => state === "settled").length
    expect(data).toMatchObject([{ model: CHAT, calls: settled, attempts: 0, estimated: { calls: 1 } }])
  })

  test("and after all that it passes a full audit", async () => {
    expect(await admin("GET", "/audit?full=true")).toMatchObject({ violations: [] })
  })
})
