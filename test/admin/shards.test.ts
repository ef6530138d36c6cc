import { afterAll, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import postgres from "postgres"
import { floorId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { accountSorts } from "../../src/wire/admin-query.ts"
import { freshDatabase } from "../support/database.ts"
import { falsify, idAt, linesIn, mount, plantCalls, send } from "./admin-harness.ts"

/** D74: what operators read of two shards is what they would read of one database with all of it. */

const HOUR_MS = 3_600_000
const NOW_MS = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const MODELS = ["small", "large", "other"] as const

interface Place {
  readonly database: PostgresJsDatabase
  close(): Promise<void>
}

async function openPlace(): Promise<Place> {
  const { address, drop } = await freshDatabase()
  const client = connect(address, { max: 10, onnotice: () => {} })
  const database = drizzle(client)
  return {
    database,
    close: async () => {
      await client.end()
      await drop()
    },
  }
}

const all = await openPlace()
const first = await openPlace()
const second = await openPlace()
const places = [all, first, second]

/** An account, the shard it is in, and the shard its older calls and credits are in: another one after a move. */
const owner = (name: string, home: Place, past = home) => ({
  id: idAt(new Date(NOW_MS - 90 * HOUR_MS + name.length)),
  name,
  key_ids: [idAt(new Date(NOW_MS - 89 * HOUR_MS)), idAt(new Date(NOW_MS - 88 * HOUR_MS))],
  home,
  past,
})
type Owner = ReturnType<typeof owner>

const moved = owner("moved", second, first)
const [here, there] = [owner("a", first), owner("bb", second)]
const owners = [here, there, owner("ccc", first), moved]

const call_ids: string[] = []

const one = mount({ database: all.database })
const two = mount({
  database: first.database,
  shards: [
    { name: "a", open: true, database: first.database },
    { name: "b", open: true, database: second.database },
  ],
})
for (const each of owners) await plant(each)
for (const { database } of places) await sumHours(database, () => false, 0)

afterAll(async () => {
  for (const place of places) await place.close()
})

/** What an account has, in the database of all and in its shards. */
async function plant({ id, name, key_ids, home, past }: Owner): Promise<void> {
  const calls = key_ids.flatMap((key_id, at) =>
    Array.from({ length: 12 }, (_, of) => callOf(id, key_id, at * 12 + of)),
  )
  call_ids.push(...calls.map((call) => call.id))
  const older = ({ ended_at, held_at }: (typeof calls)[number]) =>
    (ended_at ?? held_at).getTime() < NOW_MS - 30 * HOUR_MS
  for (const { database } of [all, home]) {
    await falsify(
      database,
      sql`INSERT INTO tollgate.accounts (id, name, balance_nano, created_at) VALUES (${id}, ${name}, 9000000, ${new Date(NOW_MS - 90 * HOUR_MS).toISOString()})`,
      ...key_ids.map(
        (key_id) => sql`INSERT INTO tollgate.keys (id, account_id, name, hash, prefix, created_at)
          VALUES (${key_id}, ${id}, ${`key of ${name}`}, ${`${key_id}-${key_id}`.replaceAll("-", "").slice(0, 64)}, 'tg_live_x', ${new Date(NOW_MS - HOUR_MS).toISOString()})`,
      ),
    )
  }
  for (const { database } of new Set([all, past, home]))
    await falsify(
      database,
      sql`INSERT INTO tollgate.end_users (id, account_id, subject) VALUES (${id}, ${id}, 'ann')`,
      sql`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags) VALUES (${labelsOf(id)}, ${id}, ${id}, ${`{"team":"${name.slice(0, 2)}"}`}::text::jsonb)`,
    )
  await plantCalls(all.database, calls)
  const [before = [], since = []] = [true, false].map((old) => calls.filter((call) => older(call) === old))
  await plantCalls(past.database, before)
  await plantCalls(home.database, since)
  for (let at = 0; at < 7; at += 1) {
    // All within one millisecond: their order is that of the microseconds.
    const made_at = `${new Date(NOW_MS - 80 * HOUR_MS).toISOString().slice(0, -1)}${(at * 37) % 100}+00`
    for (const { database } of [all, at % 2 === 0 ? past : home])
      await falsify(
        database,
        sql`INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, created_at)
          VALUES (${creditId(id, at)}, ${id}, ${at + 1}, ${String(at)}, ${made_at})`,
      )
  }
}

/** The number of the labels of an account's calls. */
function labelsOf(account_id: string): number {
  return Number.parseInt(account_id.slice(-7), 16)
}

/** The last digits are the account's. */
function creditId(account_id: string, at: number): string {
  return `${floorId(new Date(NOW_MS - 80 * HOUR_MS + ((at * 5) % 7))).slice(0, 14)}7${account_id.slice(15)}`
}

/** A different one for each number, over three days. */
function callOf(account_id: string, key_id: string, at: number) {
  const held_at = new Date(NOW_MS - 70 * HOUR_MS + at * 2.7 * HOUR_MS + (account_id.charCodeAt(30) % 50))
  const state =
    (["settled", "settled", "released", "expired", "settled", "open"] as const)[at % 6] ?? "settled"
  const salt = account_id.charCodeAt(33) * 17 + at * at
  return {
    id: idAt(held_at),
    account_id,
    key_id,
    labels_id: at % 4 === 0 ? null : labelsOf(account_id),
    model: MODELS[salt % 3] ?? "small",
    state,
    held_at,
    ended_at: state === "open" ? null : new Date(held_at.getTime() + 1_500),
    basis: state === "settled" ? "usage" : state === "released" ? "none" : "gateway_lost",
    failure: state === "released" ? "upstream_error" : state === "expired" ? "gateway_lost" : null,
    prompt_tokens: state === "settled" ? salt : null,
    cached_tokens: state === "settled" ? at : null,
    completion_tokens: state === "settled" ? 3 * at : null,
    charge_nano: state === "released" ? 0n : 1_000n + BigInt(salt),
    ttft_ms: 100 + salt,
    duration_ms: 1_000 + 3 * salt,
  }
}

const ask = (app: typeof one, method: string, path: string, body?: unknown) =>
  send(app, method, `/admin${path}`, body)

/**
 * Without the names of shards, which only several have, and without what is left of credits: after a move, that is left of the
 * credit that came with the account.
 */
function plain(text: string): object {
  const body: object = Object(
    JSON.parse(text, (key, value: unknown) => (key === "shard" || key === "left" ? undefined : value)),
  )
  return body
}

const times = [new Date(NOW_MS - 71 * HOUR_MS), new Date(NOW_MS - 26.4 * HOUR_MS), new Date(NOW_MS)]
const at = (moment: Date | undefined) => encodeURIComponent((moment ?? new Date()).toISOString())
const spans = [`from=${at(times[0])}&to=${at(times[2])}`, `from=${at(times[1])}&to=${at(times[2])}`]
const filters = [
  "",
  `&account=${moved.id}`,
  `&account=${here.id}`,
  `&key=${moved.key_ids[0]}`,
  `&key=${there.key_ids[1]}`,
  `&key=${crypto.randomUUID()}`,
  "&model=small",
  "&tag=team%3Dmo",
  "&end_user=ann",
]
const each = <Item>(items: readonly Item[], path: (item: Item) => string) => items.map(path)

const LISTS: readonly string[] = [
  "/accounts?",
  ...each(accountSorts, (sort) => `/accounts?sort=${sort}&`),
  "/accounts?search=O&sort=name&",
  ...each(owners, ({ id }) => `/accounts/${id}/keys?`),
  ...each(owners, ({ id }) => `/accounts/${id}/credits?`),
  ...each([...filters, "&state=open", "&failure=upstream_error"], (filter) => `/calls?${filter.slice(1)}&`),
  ...each(spans, (span) => `/calls?${span}&`),
]

const RECORDS: readonly string[] = [
  ...each(owners, ({ id }) => `/accounts/${id}`),
  ...each(
    owners.filter((each) => each !== moved),
    ({ id }) => `/accounts/${id}/balance?at=${at(times[1])}`,
  ),
  `/accounts/${crypto.randomUUID()}`,
  `/accounts/${crypto.randomUUID()}/keys`,
  `/accounts/${crypto.randomUUID()}/credits`,
  `/accounts/${crypto.randomUUID()}/balance?at=2026-01-01`,
  `/calls/${crypto.randomUUID()}`,
  `/accounts/${here.id}/credits?after=${crypto.randomUUID()}`,
]

const DIMENSIONS = [
  ...["model", "operation", "key", "account", "session", "day", "hour", "upstream,upstream_key"],
  ...["end_user", "tag:team"],
]
const GROUPED = ["key,model,day", "day,account,key", "session,hour,model,key"]

/** Those of some dimensions stand for the others where calls are filtered. */
const sums = (asked: string, dimensions = DIMENSIONS): readonly string[] => [
  ...each([...dimensions, ...GROUPED], (by) => `/usage?by=${by}&${asked}`),
  ...["model", "key", "account"].flatMap((by) =>
    each(
      dimensions === DIMENSIONS ? [2, 6] : [2],
      (groups) => `/timeline?by=${by}&groups=${groups}&${asked}`,
    ),
  ),
  `/latency?${asked}`,
  `/outcomes?${asked}`,
]

function told({ status, text }: Awaited<ReturnType<typeof ask>>) {
  return { status, body: plain(text.replace(/"request_id":"[^"]*"/, '"request_id":""')) }
}

describe("two shards answer as one database", () => {
  test.each(LISTS)("page by page: %s", async (path) => {
    for (const limit of path.startsWith("/calls") ? [7, 100] : [1, 3, 100]) {
      let after = ""
      do {
        const [alone, together] = [
          await ask(one, "GET", `${path}limit=${limit}${after}`),
          await ask(two, "GET", `${path}limit=${limit}${after}`),
        ]
        expect(alone.status).toBe(200)
        expect(told(together)).toEqual(told(alone))
        after = alone.body.next === null ? "" : `&after=${alone.body.next}`
      } while (after !== "")
    }
  })

  async function expectSame(path: string): Promise<void> {
    const [alone, together] = await Promise.all([ask(one, "GET", path), ask(two, "GET", path)])
    expect({ path, ...told(together) }).toEqual({ path, ...told(alone) })
  }

  test("accounts, balances and calls by their ids", async () => {
    for (const path of [...RECORDS, ...call_ids.map((id) => `/calls/${id}`)]) await expectSame(path)
  })

  test.each([...spans, `${spans[0]}${filters[1]}`])("sums: %s", async (asked) => {
    for (const path of sums(asked)) await expectSame(path)
  })

  test.each(filters.slice(1, -2))("sums of %s", async (filter) => {
    for (const path of sums(`${spans[1]}${filter}`, ["model"])) await expectSame(path)
  })

  test.each(spans)("D98 sums beside a provider's, in any order of a day: %s", async (asked) => {
    const rowsOf = async (app: typeof one) => {
      const { text } = await ask(app, "GET", `/reconciliation?upstream=openai&step=day&${asked}`)
      const { data }: { data: object[] } = JSON.parse(text)
      expect(data).not.toBeEmpty()
      return data.map((row) => JSON.stringify(row)).sort()
    }
    expect(await rowsOf(two)).toEqual(await rowsOf(one))
  })

  test("accounts say which shard they are in", async () => {
    const { text } = await ask(two, "GET", "/accounts?limit=100")
    const { data }: { data: { name: string; shard: string }[] } = JSON.parse(text)
    expect(Object.fromEntries(data.map(({ name, shard }) => [name, shard]))).toEqual({
      a: "a",
      bb: "b",
      ccc: "a",
      moved: "b",
    })
    expect((await ask(one, "GET", "/accounts")).text).not.toContain('"shard"')
  })
})

describe("changes go to the shard of the account", () => {
  test("names, keys and credits; an id stands for one thing in all shards", async () => {
    for (const { id, name } of [here, there]) {
      expect((await ask(two, "PATCH", `/accounts/${id}`, { name: `${name}!` })).status).toBe(200)
      expect(plain((await ask(two, "GET", `/accounts/${id}`)).text)).toMatchObject({ name: `${name}!` })
      const key_id = crypto.randomUUID()
      const made = await ask(two, "POST", `/accounts/${id}/keys`, { id: key_id })
      expect([made.status, made.body.id]).toEqual([201, key_id])
      expect((await ask(two, "POST", `/accounts/${id}/keys`, { id: key_id })).status).toBe(200)
      expect((await ask(two, "PATCH", `/keys/${key_id}`, { name: "new" })).status).toBe(200)
      expect((await ask(two, "DELETE", `/keys/${key_id}`)).status).toBe(204)
      const elsewhere = id === here.id ? there.id : here.id
      const taken = await ask(two, "POST", `/accounts/${elsewhere}/keys`, { id: key_id })
      expect([taken.status, taken.body.error.param]).toEqual([400, "id"])
      const credit = { id: crypto.randomUUID(), amount: "1" }
      expect((await ask(two, "POST", `/accounts/${id}/credits`, credit)).status).toBe(201)
      const again = await ask(two, "POST", `/accounts/${id}/credits`, credit)
      expect([again.status, again.body.account.balance]).toEqual([200, "1.009"])
      const other = await ask(two, "POST", `/accounts/${elsewhere}/credits`, credit)
      expect([other.status, other.body.error.param]).toEqual([400, "id"])
    }
  })

  test("a credit that was made before a move is not made again", async () => {
    for (const made of [0, 1]) {
      const repeat = { id: creditId(moved.id, made), amount: `0.00000000${made + 1}` }
      const again = await ask(two, "POST", `/accounts/${moved.id}/credits`, repeat)
      expect([again.status, again.body.account.balance]).toEqual([200, "0.009"])
      const other = await ask(two, "POST", `/accounts/${moved.id}/credits`, { ...repeat, amount: "3" })
      expect(other.status).toBe(400)
    }
  })

  test.each([
    ["PATCH", "/accounts/", { name: "x" }],
    ["POST", "/accounts/:/keys", {}],
    ["POST", "/accounts/:/credits", { amount: "1" }],
    ["PATCH", "/keys/", { name: "x" }],
    ["DELETE", "/keys/", undefined],
  ])("of nothing are a 404: %s %s", async (method, path, body) => {
    const id = crypto.randomUUID()
    const [before, after] = path.split(":")
    expect((await ask(two, method, `${before}${id}${after ?? ""}`, body)).status).toBe(404)
  })
})

describe("new accounts", () => {
  const count = async ({ database }: Place) =>
    Number((await database.execute<{ count: number }>(sql`SELECT count(*) FROM tollgate.accounts`))[0]?.count)

  test("are spread evenly over the open shards", async () => {
    const before = [await count(first), await count(second)] as const
    for (let made = 0; made < 200; made += 1)
      expect((await ask(two, "POST", "/accounts", { name: "new" })).status).toBe(201)
    for (const [place, had] of [
      [first, before[0]],
      [second, before[1]],
    ] as const)
      expect((await count(place)) - had).toBeGreaterThan(60)
  })

  test("with one id are one account, however many requests there are at once", async () => {
    const before = (await count(first)) + (await count(second))
    for (let round = 0; round < 10; round += 1) {
      const id = crypto.randomUUID()
      const answers = await Promise.all(
        Array.from({ length: 6 }, () => ask(two, "POST", "/accounts", { id, name: "once" })),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 201])
    }
    expect((await count(first)) + (await count(second))).toBe(before + 10)
  })

  test("are not made in a closed shard, where known ones stay known", async () => {
    const closing = (open: boolean) =>
      mount({
        database: first.database,
        shards: [
          { name: "a", open: false, database: first.database },
          { name: "b", open, database: second.database },
        ],
      })
    const [open, closed] = [closing(true), closing(false)]
    const before = await count(first)
    for (let made = 0; made < 20; made += 1)
      expect((await ask(open, "POST", "/accounts", { name: "new" })).status).toBe(201)
    const known = { id: here.id, name: "again" }
    expect((await ask(open, "POST", "/accounts", known)).status).toBe(200)
    expect(await count(first)).toBe(before)
    expect((await ask(closed, "POST", "/accounts", { name: "new" })).status).toBe(400)
    expect((await ask(closed, "POST", "/accounts", known)).status).toBe(200)
    const only = mount({
      database: first.database,
      shards: [{ name: "a", open: false, database: first.database }],
    })
    expect((await ask(only, "POST", "/accounts", known)).status).toBe(200)
    expect((await ask(only, "POST", "/accounts", { name: "new" })).status).toBe(400)
    expect((await ask(only, "POST", "/accounts", { id: crypto.randomUUID(), name: "new" })).status).toBe(400)
  })
})

describe("while a shard is away", () => {
  const fresh = () => crypto.randomUUID()

  /** What is asked of a gateway that reaches the first shard alone. */
  async function operate(method: string, path: string, body?: object) {
    const { database } = first
    const nowhere = postgres("postgres://nobody@127.0.0.1:1/nothing", { max: 10 })
    const app = mount({
      database,
      deadline_ms: 1_000,
      shards: [
        { name: "a", open: true, database },
        { name: "b", open: true, database: drizzle(nowhere) },
      ],
    })
    const { status, text } = await ask(app, method, path, body)
    await nowhere.end({ timeout: 0 })
    return { status, is_named: text.includes("shard b") }
  }

  const served: readonly [method: string, path: string, status: number, body?: object][] = [
    ["GET", `/accounts/${here.id}`, 200],
    ["PATCH", `/accounts/${here.id}`, 200, { name: "renamed" }],
    ["POST", `/accounts/${here.id}/credits`, 201, { amount: "1" }],
    ["POST", `/accounts/${here.id}/keys`, 201, {}],
    ["GET", `/accounts/${here.id}/keys`, 200],
    ["PATCH", `/keys/${here.key_ids[0]}`, 200, { name: "renamed" }],
    ["POST", "/accounts", 201, { name: "new" }],
    ["POST", "/accounts", 200, { id: here.id, name: "known" }],
  ]
  test.each(served)("%s %s is served: %d", async (method, path, status, body = undefined) => {
    expect(await operate(method, path, body)).toEqual({ status, is_named: false })
  })

  const refused: readonly [method: string, path: string, body?: object][] = [
    ["GET", `/accounts/${there.id}`],
    ["GET", `/accounts/${there.id}/keys`],
    ["PATCH", `/keys/${there.key_ids[0]}`, { name: "renamed" }],
    ["POST", `/accounts/${there.id}/credits`, { amount: "1" }],
    ["GET", `/accounts/${fresh()}`],
    ["GET", `/calls/${fresh()}`],
    ["GET", "/accounts"],
    ["GET", "/calls"],
    ["GET", `/calls?account=${here.id}`],
    ["GET", `/accounts/${here.id}/credits`],
    ["GET", `/accounts/${here.id}/balance?at=2026-01-01`],
    ["GET", "/usage"],
    ["GET", "/timeline"],
    ["GET", "/latency"],
    ["GET", "/outcomes"],
    ["GET", "/audit"],
    ["GET", "/journal"],
    ["POST", "/sums/check", {}],
    ["POST", "/accounts", { id: fresh(), name: "new" }],
    ["POST", `/accounts/${here.id}/credits`, { id: fresh(), amount: "1" }],
    ["POST", `/accounts/${here.id}/keys`, { id: fresh() }],
  ]
  test.each(refused)("%s %s is a 503 that names the shard", async (method, path, body = undefined) => {
    expect(await operate(method, path, body)).toEqual({ status: 503, is_named: true })
  })
})

test("D94 to forget an end user can be repeated by its name if one shard has failed", async () => {
  const id = idAt(new Date(NOW_MS))
  for (const { database } of [first, second])
    await database.execute(
      sql`INSERT INTO tollgate.end_users (id, account_id, subject) VALUES (${id}, ${moved.id}, 'bob')`,
    )
  const forget = () => ask(two, "POST", `/accounts/${moved.id}/forget-end-user`, { end_user: "bob" })
  await first.database.execute(
    sql`ALTER TABLE tollgate.end_users ADD CONSTRAINT fails CHECK (subject IS NOT NULL) NOT VALID`,
  )
  expect((await forget()).status).toBeGreaterThanOrEqual(500)
  await first.database.execute(sql`ALTER TABLE tollgate.end_users DROP CONSTRAINT fails`)
  expect((await forget()).body).toMatchObject({ id })
  for (const { database } of [first, second])
    expect([
      ...(await database.execute(sql`SELECT subject FROM tollgate.end_users WHERE id = ${id}`)),
    ]).toEqual([{ subject: null }])
})

describe("checks of the ledger", () => {
  test("the audit has the violations of all shards, with their names", async () => {
    for (const { database } of [first, second])
      await database.execute(
        sql`UPDATE tollgate.accounts SET held_nano = 77 WHERE id = (SELECT min(id::text)::uuid FROM tollgate.accounts)`,
      )
    const { text } = await ask(two, "GET", "/audit")
    const { violations }: { violations: { shard: string; kind: string; recorded: string }[] } =
      JSON.parse(text)
    const wrong = violations.filter(({ kind, recorded }) => kind === "held" && recorded === "0.000000077")
    expect(wrong.map(({ shard }) => shard).sort()).toEqual(["a", "b"])
    const lines = linesIn<{ audit: object; shard: string }>(
      (await ask(two, "GET", "/audit/progress?share=100")).text,
    )
    expect(lines.at(-1)?.audit).toMatchObject({ violations })
    for (const { shard } of lines.slice(0, -1)) expect(["a", "b"]).toContain(shard)
  })

  test("the months of all shards, and the seal of one by its shard", async () => {
    const { data }: { data: { month: string; shard: string }[] } = JSON.parse(
      (await ask(two, "GET", "/journal")).text,
    )
    expect(new Set(data.map(({ shard }) => shard))).toEqual(new Set(["a", "b"]))
    expect(data.map(({ month }) => month)).toEqual(
      data
        .map(({ month }) => month)
        .toSorted()
        .reverse(),
    )
    const [{ month } = { month: "" }] = data
    expect((await ask(two, "POST", "/journal/check", { month })).body.error).toMatchObject({ param: "shard" })
    expect((await ask(two, "POST", "/journal/check", { month, shard: "c" })).status).toBe(400)
    expect((await ask(two, "POST", "/journal/check", { month, shard: "b" })).status).toBe(404)
  })

  test("the sums of a day are checked in all shards", async () => {
    let day: string | null = null
    let differed = 0
    await second.database.execute(sql`UPDATE tollgate.days SET charge_nano = charge_nano + 1`)
    do {
      const { text } = await ask(two, "POST", "/sums/check", day === null ? {} : { day })
      const found: { day: string; differed: number; next: string | null } = JSON.parse(text)
      differed += found.differed
      day = found.next
    } while (day !== null)
    expect(differed).toBeGreaterThan(0)
  })
})
