import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { type SQL, sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { MAX_VIOLATIONS } from "../../src/ledger/journal/audit.ts"
import { accounts, credits, reservations } from "../../src/ledger/schema.ts"
import { printUsd } from "../../src/money.ts"
import { parseTime } from "../../src/wire/time.ts"
import { type Office, openOffice, plantCall } from "./office.ts"

let office: Office
const account = nextId()
const other = nextId()
const stranger = nextId()
const settled_id = nextId()
const open_id = nextId()
const expired_id = nextId()
const closed_at = new Date()

beforeAll(async () => {
  office = await openOffice()
})
afterAll(() => office.close())

/** Two accounts whose books agree: 100 credited, 30 + 7 charged and 20 held on the one, nothing but 50 credited on the other. */
beforeEach(async () => {
  const { database } = office
  await database.execute(sql`TRUNCATE ${accounts}, ${credits}, ${reservations}`)
  await database.insert(accounts).values([
    { id: account, name: "a", balance_nano: 63n, held_nano: 20n },
    { id: other, name: "b", balance_nano: 50n },
  ])
  await database.insert(credits).values([
    { id: nextId(), account_id: account, amount_nano: 105n },
    { id: nextId(), account_id: account, amount_nano: -5n },
    { id: nextId(), account_id: other, amount_nano: 50n },
  ])
  const call = { account_id: account }
  await plantCall(database, {
    ...call,
    id: settled_id,
    state: "settled",
    amount_nano: 40n,
    charge_nano: 30n,
    closed_at,
  })
  await plantCall(database, {
    ...call,
    id: expired_id,
    state: "expired",
    amount_nano: 9n,
    charge_nano: 7n,
    closed_at,
  })
  await plantCall(database, { ...call, id: open_id, amount_nano: 20n, checkpoint_nano: 3n })
  await plantCall(database, { ...call, state: "released", amount_nano: 11n, charge_nano: 0n, closed_at })
})

async function audited() {
  const { status, body } = await office.ask("GET", "/admin/audit")
  expect(status).toBe(200)
  return body
}

test("books that agree have no violations", async () => {
  const before = Date.now()
  const body = await audited()
  expect(body as unknown).toEqual({
    checked_at: expect.any(String),
    accounts: 2,
    open_reservations: 1,
    violations: [],
  })
  const checked_ms = parseTime(body.checked_at)?.getTime() ?? 0
  expect(Math.abs(checked_ms - before)).toBeLessThan(60_000)
})

test("books without an account have no violations", async () => {
  await office.database.execute(sql`TRUNCATE ${accounts}, ${credits}, ${reservations}`)
  expect((await audited()) as unknown).toMatchObject({ accounts: 0, open_reservations: 0, violations: [] })
})

const usd = (nano: number) => printUsd(BigInt(nano))
const balance = (recorded: number, expected: number, account_id = account) => ({
  account_id,
  kind: "balance",
  recorded: usd(recorded),
  expected: usd(expected),
})
const held = (recorded: number, expected: number, account_id = account) => ({
  ...balance(recorded, expected, account_id),
  kind: "held",
})
const orphaned = (balance_nano: number, held_nano: number, account_id: string) => [
  { ...balance(0, balance_nano, account_id), recorded: null },
  { ...held(0, held_nano, account_id), recorded: null },
]

const corruptions: [string, () => SQL, () => object[]][] = [
  [
    "a balance that moved",
    () => sql`UPDATE ${accounts} SET balance_nano = 64 WHERE id = ${account}`,
    () => [balance(64, 63)],
  ],
  [
    "a balance one too low",
    () => sql`UPDATE ${accounts} SET balance_nano = 62 WHERE id = ${account}`,
    () => [balance(62, 63)],
  ],
  [
    "a hold that stayed",
    () => sql`UPDATE ${accounts} SET held_nano = 60 WHERE id = ${account}`,
    () => [held(60, 20)],
  ],
  [
    "a hold that was lost",
    () => sql`UPDATE ${accounts} SET held_nano = 0 WHERE id = ${account}`,
    () => [held(0, 20)],
  ],
  [
    "balance and held wrong by the same",
    () => sql`UPDATE ${accounts} SET balance_nano = 73, held_nano = 30 WHERE id = ${account}`,
    () => [balance(73, 63), held(30, 20)],
  ],
  [
    "a balance moved from one account to another",
    () =>
      sql`UPDATE ${accounts} SET balance_nano = balance_nano + CASE WHEN id = ${account} THEN 10 ELSE -10 END`,
    () => [balance(73, 63), balance(40, 50, other)],
  ],
  [
    "a credit deleted",
    () => sql`DELETE FROM ${credits} WHERE account_id = ${other}`,
    () => [balance(50, 0, other)],
  ],
  [
    "a credit edited",
    () => sql`UPDATE ${credits} SET amount_nano = 51 WHERE account_id = ${other}`,
    () => [balance(50, 51, other)],
  ],
  [
    "a credit written twice",
    () => sql`INSERT INTO ${credits} (id, account_id, amount_nano) VALUES (${nextId()}, ${other}, 50)`,
    () => [balance(50, 100, other)],
  ],
  [
    "a charge edited",
    () => sql`UPDATE ${reservations} SET charge_nano = 31 WHERE id = ${settled_id}`,
    () => [balance(63, 62)],
  ],
  [
    "an expiry's charge edited",
    () => sql`UPDATE ${reservations} SET charge_nano = 0 WHERE id = ${expired_id}`,
    () => [balance(63, 70)],
  ],
  [
    "a journal line deleted",
    () => sql`DELETE FROM ${reservations} WHERE id = ${settled_id}`,
    () => [balance(63, 93)],
  ],
  ["an open hold deleted", () => sql`DELETE FROM ${reservations} WHERE id = ${open_id}`, () => [held(20, 0)]],
  [
    "an open hold edited",
    () => sql`UPDATE ${reservations} SET amount_nano = 21 WHERE id = ${open_id}`,
    () => [held(20, 21)],
  ],
  [
    "an open hold closed without its account",
    () =>
      sql`UPDATE ${reservations} SET state = 'settled', charge_nano = 5, closed_at = now() WHERE id = ${open_id}`,
    () => [balance(63, 58), held(20, 0)],
  ],
  [
    "a settled call opened again",
    () =>
      sql`UPDATE ${reservations} SET state = 'open', charge_nano = NULL, closed_at = NULL WHERE id = ${settled_id}`,
    () => [balance(63, 93), held(20, 60)],
  ],
  [
    "a call booked on another account",
    () => sql`UPDATE ${reservations} SET account_id = ${other} WHERE id = ${open_id}`,
    () => [held(20, 0), held(0, 20, other)],
  ],
  [
    "an account deleted under its journal",
    () => sql`DELETE FROM ${accounts} WHERE id = ${account}`,
    () => orphaned(63, 20, account),
  ],
  [
    "a credit of no account",
    () => sql`INSERT INTO ${credits} (id, account_id, amount_nano) VALUES (${nextId()}, ${stranger}, 10)`,
    () => orphaned(10, 0, stranger),
  ],
  [
    "an open hold of no account",
    () => sql`UPDATE ${reservations} SET account_id = ${stranger} WHERE id = ${open_id}`,
    () => [held(20, 0), ...orphaned(0, 20, stranger)],
  ],
  [
    "a released call of no account, which sums up to nothing",
    () => sql`UPDATE ${reservations} SET account_id = ${stranger} WHERE state = 'released'`,
    () => orphaned(0, 0, stranger),
  ],
]

test.each(corruptions)("the audit finds %s", async (_, plant, expected) => {
  await office.database.execute(plant())
  const { violations } = await audited()
  const order = (list: readonly object[]) =>
    list.map((entry) => JSON.stringify(entry, Object.keys(entry).sort())).sort()
  expect(order(violations)).toEqual(order(expected()))
})

test("sums beyond an int8 are told, not a 500", async () => {
  const huge = sql`SELECT gen_random_uuid(), ${other}::uuid, 9223372036854775807 FROM generate_series(1, 4)`
  await office.database.execute(sql`INSERT INTO ${credits} (id, account_id, amount_nano) ${huge}`)
  const { violations } = await audited()
  expect(violations.map(({ expected }) => expected)).toEqual(["36893488147.419103278"])
})

test("a thoroughly broken set of books is told up to a limit", async () => {
  const many = sql`SELECT gen_random_uuid(), gen_random_uuid(), 1 FROM generate_series(1, ${MAX_VIOLATIONS}::int)`
  await office.database.execute(sql`INSERT INTO ${credits} (id, account_id, amount_nano) ${many}`)
  expect((await audited()).violations).toHaveLength(MAX_VIOLATIONS)
})
