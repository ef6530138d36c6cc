import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { type Address, connect, type SocketAddress } from "../../src/ledger/database/address.ts"
import { connectDatabase, openDatabase } from "../../src/ledger/database/database.ts"
import { readVersion } from "../../src/ledger/database/migration.ts"
import { statement } from "../../src/ledger/database/statement.ts"
import { printUsd } from "../../src/money.ts"
import type { GatewayProcess } from "../process/gateway-process.ts"
import { Workplace } from "../process/workplace.ts"
import { emptyDatabase } from "../support/database.ts"
import { isMissing } from "../support/external.ts"
import { CHAT, chat, configFor, until, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { PGBOUNCER, startPgBouncer } from "../support/pgbouncer.ts"
import { HELLO, startProvider } from "../support/provider.ts"
import { EventReceiver } from "./event-receiver.ts"
import { Random } from "./random.ts"

/** Debian's PgBouncer in transaction mode between the gateways and their Postgres, as docs/deploying.md says. */

const DAY_MS = 86_400_000
const is_absent = isMissing(
  PGBOUNCER,
  "gateways work through a transaction pooler, and start over a single connection",
)

let drop: () => Promise<void>
let address: SocketAddress
const closing = new AsyncDisposableStack()

beforeAll(async () => {
  const fresh = await emptyDatabase()
  if (!("socket_path" in fresh.address)) throw new Error("the test cluster is reached by its socket")
  address = fresh.address
  drop = fresh.drop
})
afterAll(async () => {
  await closing.disposeAsync()
  await drop()
})

async function pooler(pool_size: number): Promise<Address> {
  return { url: `${await poolerUrl(pool_size)}?prepare=false` }
}

async function poolerUrl(pool_size: number): Promise<string> {
  const pgbouncer = await startPgBouncer(address, pool_size)
  closing.defer(() => pgbouncer.stop())
  return pgbouncer.url
}

describe.skipIf(is_absent)("through PgBouncer in transaction mode", () => {
  test("six gateways start at once on an empty database, over a pool of one connection", async () => {
    const pooled = await pooler(1)
    expect(await readVersion(pooled)).toBe("none")
    const opened = await Promise.all(Array.from({ length: 6 }, () => openDatabase(pooled)))
    await Promise.all(opened.map((database) => database.close()))
    expect(await readVersion(pooled)).toBe("same")
  })

  test("a session of ours has jit off where the server is asked directly, and works where the pooler refuses that", async () => {
    for (const [where, expected] of [
      [address, "off"],
      [await pooler(2), null],
    ] as const) {
      const database = await connectDatabase(where)
      const [row] = await database.operators.execute("SHOW jit")
      expect(expected === null || row?.jit === expected).toBe(true)
      await database.close()
    }
  })

  test("no connection runs a statement of another under its name, even without prepare=false", async () => {
    const url = await poolerUrl(2)
    const database = await connectDatabase({ url })
    const other = connect({ url }, { max: 1, prepare: false, fetch_types: false })
    const [one, two] = [database.connection(), database.connection()]
    try {
      const [first, second] = ["first", "second"].map((name) =>
        statement("sweep", sql`SELECT ${sql.raw(`'${name}'`)} AS name, ${sql.raw("$1")}::text AS value`),
      )
      if (first === undefined || second === undefined) throw new Error("no statement")
      expect(await one.run(first, ["a"], 1_000)).toEqual([{ name: "first", value: "a" }])
      // While one connection of the pooler is taken, everything goes over the other one.
      await other.begin(async (taken) => {
        await taken`SELECT`
        expect(await two.run(second, ["b"], 1_000)).toEqual([{ name: "second", value: "b" }])
        expect(await one.run(first, ["c"], 1_000)).toEqual([{ name: "first", value: "c" }])
      })
    } finally {
      await Promise.all([one.end(), two.end(), other.end(), database.close()])
    }
  })

  test("two gateways with fewer connections than they use sell an account exactly, and tell a sink", async () => {
    const PAID = 40
    const CHARGE_NANO = 30_000n
    const provider = await startProvider()
    closing.defer(() => provider.stop())
    provider.reply(HELLO)
    const pooled = await pooler(6)
    if (!("url" in pooled)) throw new Error("a pooler has a URL")
    const places = [new Workplace(), new Workplace()]
    for (const place of places) closing.defer(() => place.clear())
    const gateways = await Promise.all(
      places.map((place) => {
        place.configure(configFor(provider.url, { tags: ["team"] }))
        return place.start({ DATABASE_URL: pooled.url })
      }),
    )
    const [first] = gateways
    if (first === undefined) throw new Error("no gateway was started")
    const operator = operatorOf(first.url)
    const settledBalance = (id: string) => untilIs(() => operator.balance(id), { held: "0" })
    const receiver = await EventReceiver.open(new Random(1), false)
    closing.defer(() => receiver.stop())
    receiver.mend()
    await operator.admin("POST", "/sinks", { name: "all", url: receiver.url, allow_private: true })
    const rich = await operator.account("10")
    // Budgets and credits with a priority are held by other statements.
    const budget = { name: "Requests", selector: "all", unit: "requests", amount: "100", per: "day" }
    await operator.admin("POST", `/accounts/${rich.id}/budgets`, budget)
    await operator.admin("POST", `/accounts/${rich.id}/credits`, { amount: "1", priority: 10 })
    const asked = Array.from({ length: PAID }, (_, at) => chat(gateways[at % 2] ?? first, rich.key))
    const statuses = await Promise.all(asked.map(async (answer) => (await answer).status))
    expect(statuses).toEqual(statuses.map(() => 200))
    expect(await settledBalance(rich.id)).toMatchObject({ balance: "10.9988", held: "0" })

    await sellByAllParts(gateways)

    // Enough to hold five calls at once.
    const POOR_NANO = 20_150_000n
    const poor = await operator.account(printUsd(POOR_NANO))
    const racing = Array.from({ length: 30 }, (_, at) => chat(gateways[at % 2] ?? first, poor.key))
    const answers = await Promise.all(racing.map(async (answer) => (await answer).status))
    // A busy machine may keep some from a connection of the pooler for longer than a hold waits (D27).
    expect(answers.filter((status) => ![200, 402, 503].includes(status))).toEqual([])
    expect(answers).toContain(200)
    const served = answers.filter((status) => status === 200).length
    const left = printUsd(POOR_NANO - BigInt(served) * CHARGE_NANO)
    expect(await settledBalance(poor.id)).toMatchObject({ balance: left, held: "0" })
    expect((await operator.audit()).violations).toEqual([])
    const calls = await operator.calls("?limit=200")
    const ids = calls.filter(({ state }) => state === "settled").map(({ id }) => String(id))
    expect(ids.length).toBe(PAID + served + LABELLED)
    await until(
      () => ids.filter((id) => !receiver.taken.has(id)),
      (missing) => missing.length === 0,
    )
    for (const gateway of gateways) {
      gateway.signal("SIGTERM")
      expect(await gateway.exited).toBe(0)
    }
  })
})

/** Calls that `sellByAllParts` makes. */
const LABELLED = 3

/** D94, D98, D99, D110: end users with a rate limit each, a price list, and sums for a provider's report, by both gateways. */
async function sellByAllParts(gateways: readonly GatewayProcess[]): Promise<void> {
  const [one, other] = gateways
  if (one === undefined || other === undefined) throw new Error("there are two gateways")
  const { admin, account, balance, callOf } = operatorOf(one.url)
  const { id, key } = await account("1")
  // An answer leaves after 250 ms even if its settlement is still in the spool (D32).
  const settled = () => untilIs(() => balance(id), { held: "0" })
  const rate = { name: "Rate", selector: "end_user", unit: "requests", amount: "2", per: "minute" }
  await admin("POST", `/accounts/${id}/budgets`, rate)
  const list = { name: "Partners", prices: [{ model: CHAT, prices: { input: "2", output: "8" } }] }
  const made = await admin<{ id: string }>("POST", "/price-lists", list)
  await admin("POST", `/price-lists/${made.id}/assignments`, { account_id: id })
  // A busy machine may refuse a call (D27).
  const callBy = (gateway: GatewayProcess, end_user: string) =>
    until(
      () =>
        chat(
          gateway,
          key,
          {},
          {
            headers: {
              authorization: `Bearer ${key}`,
              "content-type": "application/json",
              "x-tollgate-end-user": end_user,
              "x-tollgate-tags": "team=search",
            },
          },
        ),
      ({ status }) => status !== 503,
    )
  const first = await callBy(one, "ann")
  expect((await callOf(first)).charge).toBe("0.00006")
  const statuses = [first.status, (await callBy(other, "ann")).status, (await callBy(one, "ann")).status]
  expect([...statuses, (await callBy(other, "bob")).status]).toEqual([200, 200, 429, 200])
  await settled()
  const { data } = await admin<{ data: { name: string; calls: number }[] }>(
    "GET",
    `/usage?by=end_user&account=${id}`,
  )
  expect(data.map(({ name, calls }) => [name, calls]).sort()).toEqual([
    ["ann", 2],
    ["bob", 1],
  ])
  const [from, to] = [-DAY_MS, DAY_MS].map((ms) => new Date(Date.now() + ms).toISOString())
  const sums = await admin<{ data: { calls: number }[] }>(
    "GET",
    `/reconciliation?upstream=first&step=day&from=${from}&to=${to}`,
  )
  expect(sums.data.reduce((all, { calls }) => all + calls, 0)).toBeGreaterThanOrEqual(LABELLED)
}
