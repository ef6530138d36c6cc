import { beforeEach, expect, test } from "bun:test"
import { type SQL, sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import {
  accounts,
  checkpoints,
  corrections,
  credits,
  ends,
  gateways,
  holds,
  keys,
  terms,
} from "../../src/ledger/schema/tables.ts"
import { printUsd } from "../../src/money.ts"
import { parseTime } from "../../src/wire/time.ts"
import { falsify, linesIn, type Planted, plantCall, send, testAdmin } from "./admin-harness.ts"

const account = nextId()
const other = nextId()
const stranger = nextId()
const key = nextId()
/** Alive, and older than every call. */
const gateway = nextId()
const settled_id = nextId()
const open_id = nextId()
const expired_id = nextId()
const late_id = nextId()
const released_id = nextId()
const everything = sql`${accounts}, ${keys}, ${credits}, ${terms}, ${holds}, ${ends}, ${corrections}, ${checkpoints}`

const adminApi = await testAdmin()
const lease_until = new Date("2100-01-01T00:00:00Z")
await adminApi.database.insert(gateways).values({ id: gateway, floor_id: account, lease_until })

/** A token of output costs 1 nano-USD. */
const prices = { input_pico: 0n, cached_input_pico: 0n, output_pico: 1_000n, per_call_nano: 0n }
const usage = (completion_tokens: number) => ({ prompt_tokens: 0, cached_tokens: 0, completion_tokens })

/**
 * Two accounts whose balances agree with the journal. 100 credited, 30 + 7 + 6 charged and 20 held on the one, whose calls are of a key with
 * a spending limit; nothing but 50 credited on the other. One call of the first was charged 2 when it expired, and 6 by
 * its correction.
 */
beforeEach(async () => {
  const { database } = adminApi
  await falsify(database, sql`TRUNCATE ${everything}`)
  await database.insert(accounts).values([
    { id: account, name: "a", balance_nano: 57n, held_nano: 20n, is_limited: true },
    { id: other, name: "b", balance_nano: 50n },
  ])
  await database.insert(keys).values({
    id: key,
    account_id: account,
    hash: nextId(),
    prefix: "tg_live_",
    spend_limit_nano: 1_000n,
    spend_period: "month",
    spent_nano: 63n,
    spent_since: new Date("2026-01-01T00:00:00Z"),
  })
  await database.insert(credits).values([
    { id: nextId(), account_id: account, amount_nano: 105n },
    { id: nextId(), account_id: account, amount_nano: -5n },
    { id: nextId(), account_id: other, amount_nano: 50n },
  ])
  const call = { account_id: account, key_id: key, gateway_id: gateway, ...prices }
  const calls: readonly Partial<Planted>[] = [
    { ...usage(30), id: settled_id, state: "settled", amount_nano: 40n, charge_nano: 30n },
    { ...usage(7), id: expired_id, state: "expired", amount_nano: 9n, charge_nano: 7n },
    {
      ...{ ...usage(2), id: late_id, state: "expired", amount_nano: 9n, charge_nano: 2n },
      corrected: { charge_nano: 6n, ...usage(6) },
    },
    { id: open_id, amount_nano: 20n, checkpoint_nano: 3n },
    { id: released_id, state: "released", amount_nano: 11n, charge_nano: 0n },
  ]
  for (const each of calls) await plantCall(database, { ...call, ...each })
})

async function audited() {
  const { status, body } = await adminApi.ask("GET", "/admin/audit")
  expect(status).toBe(200)
  return body
}

test("a ledger whose balances agree has no violations", async () => {
  const before = Date.now()
  const body = await audited()
  expect(body as unknown).toEqual({
    checked_at: expect.any(String),
    accounts: 2,
    open_holds: 1,
    violations: [],
  })
  const checked_ms = parseTime(body.checked_at)?.getTime() ?? 0
  expect(Math.abs(checked_ms - before)).toBeLessThan(60_000)
})

test("an audit that is followed writes its progress, and at last what a plain one answers", async () => {
  const lines = async (query: string) => {
    const { status, headers, text } = await send(adminApi.app, "GET", `/admin/audit/progress${query}`)
    expect([status, headers.get("content-type")]).toEqual([200, "application/x-ndjson"])
    return linesIn(text)
  }
  const { checked_at, ...plain } = await audited()
  for (const query of ["", "?full=true&share=100"]) {
    const [first, ...rest] = await lines(query)
    expect(first).toEqual({
      month: expect.stringMatching(/^\d{4}-\d{2}$/),
      calls: expect.any(Number),
      accounts: expect.any(Number),
    })
    expect(rest.at(-1)).toEqual({ audit: { ...plain, checked_at: expect.any(String) } })
  }
})

const usdOf = (nano: number | null) => (nano === null ? null : printUsd(BigInt(nano)))
const violation = (
  kind: string,
  recorded: number | null,
  expected: number | null,
  { account_id = account, id = null as string | null } = {},
) => ({ account_id, kind, id, recorded: usdOf(recorded), expected: usdOf(expected) })
const charge = (id: string, recorded: number, expected: number) =>
  violation("charge", recorded, expected, { id })
const spent = (recorded: number, expected: number) => violation("spent", recorded, expected, { id: key })
const orphaned = (balance: number, held: number) => [
  violation("balance", null, balance, { account_id: stranger }),
  violation("held", null, held, { account_id: stranger }),
]

/** What test/ledger/audit.test.ts does not falsify: several entries at once, and entries without an account. */
const corruptions: [string, SQL, object[]][] = [
  [
    "a spending limit that counts from another day on",
    sql`UPDATE ${keys} SET spent_since = now() + interval '1 day'`,
    [spent(63, 0)],
  ],
  [
    "the terms of a charge edited",
    sql`UPDATE ${terms} SET output_pico = 1001, per_call_nano = 1`,
    [charge(settled_id, 30, 32), charge(expired_id, 7, 9), charge(late_id, 2, 4), charge(late_id, 6, 8)],
  ],
  [
    "a credit of no account",
    sql`INSERT INTO ${credits} (id, account_id, amount_nano) VALUES (${nextId()}, ${stranger}, 10)`,
    orphaned(10, 0),
  ],
  [
    "an open hold of no account",
    sql`UPDATE ${holds} SET account_id = ${stranger} WHERE id = ${open_id}`,
    [violation("held", 20, 0), ...orphaned(0, 20), spent(63, 43)],
  ],
  [
    "an end of no account, which sums up to nothing",
    sql`UPDATE ${ends} SET account_id = ${stranger}, freed_nano = 0 WHERE outcome = 'released'`,
    [
      violation("held", 20, 31),
      ...orphaned(0, 0),
      violation("entry", 0, 11, { account_id: stranger, id: released_id }),
    ],
  ],
]

test.each(corruptions)("D55 the audit finds %s", async (_, plant, expected) => {
  await falsify(adminApi.database, plant)
  const { violations } = await audited()
  const order = (list: readonly object[]) =>
    list.map((entry) => JSON.stringify(entry, Object.keys(entry).sort())).sort()
  expect(order(violations)).toEqual(order(expected))
})

test("sums beyond an int8 are told, not a 500", async () => {
  const huge = sql`SELECT gen_random_uuid(), ${other}::uuid, 9223372036854775807 FROM generate_series(1, 4)`
  await adminApi.database.execute(sql`INSERT INTO ${credits} (id, account_id, amount_nano) ${huge}`)
  const { violations } = await audited()
  expect(violations.map(({ expected }) => expected)).toEqual(["36893488147.419103278"])
})
