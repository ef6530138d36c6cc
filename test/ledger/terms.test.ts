import { afterAll, expect, test } from "bun:test"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { type Database, openDatabase } from "../../src/ledger/database/database.ts"
import { LedgerUnavailable, NoAnswer, type PriceTerms } from "../../src/ledger/entries.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { call, FIRST, holdOf, nth, openTestDatabase, SECOND, settled } from "./test-database.ts"

/** D56: what calls are sold at is a row of its own, made once and named by a number. */

const db = await openTestDatabase()
const others: Database[] = await Promise.all([1, 2, 3].map(() => openDatabase(db.address)))
afterAll(async () => {
  await Promise.all(others.map((other) => other.close()))
  await db.close()
})

const price = { input_pico: 1n, cached_input_pico: 2n, output_pico: 3n, per_call_nano: 4n }
const terms: PriceTerms = { family: "chat", model: "m", upstream: "u", price }

const register = (...wanted: readonly PriceTerms[]) => registerTerms(db.database.operators, wanted)

test("D56 the same terms get the same number, in whichever order and however often they are asked for", async () => {
  const other = { ...terms, model: "n" }
  const [one, two] = await register(terms, other)
  expect(one).not.toBe(two)
  expect(await register(other, terms, terms, other)).toEqual([two, one, one, two].map(Number))
  expect(await (await db.ledger()).terms([terms])).toEqual([Number(one)])
})

test("D100 known terms wait for no other gateway, and a call that waits too long is told nothing of changes", async () => {
  const own = { ...terms, customer_price_id: nextId(), list_terms_id: 1 }
  const ids = await register(own)
  const ledger = await db.ledger()
  await db.sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(7061981)`
    expect(await register(own)).toEqual(ids)
    const error = await ledger.customerTerms([{ ...own, model: "n" }]).catch((refused: unknown) => refused)
    expect(error).toBeInstanceOf(LedgerUnavailable)
    expect(error).not.toBeInstanceOf(NoAnswer)
  })
})

const changes: [what: string, changed: PriceTerms][] = [
  ["size of prompts", { ...terms, above_tokens: 9 }],
  ["price of reasoning", { ...terms, price: { ...price, buckets: { reasoning: 3n } } }],
  ["price of output", { ...terms, price: { ...price, output_pico: 9n } }],
  ["quotes in its names", { ...terms, model: 'm","u', upstream: "" }],
  ["the largest price there is", { ...terms, price: { ...price, input_pico: 2n ** 63n - 1n } }],
]
test.each(changes)("D56 terms that differ in the %s get another number", async (_, changed) => {
  const [one] = await register(terms)
  const [other] = await register(changed)
  expect(other).not.toBe(one)
  expect(await register(changed, terms)).toEqual([Number(other), Number(one)])
})

test("D56 gateways that start together make each row once", async () => {
  const drawn = fc.record({
    family: fc.constantFrom("chat", "messages"),
    model: fc.constantFrom("a", "b"),
    upstream: fc.constantFrom("x", "y"),
    price: fc.record({
      input_pico: fc.bigInt(0n, 1n),
      cached_input_pico: fc.bigInt(0n, 1n),
      output_pico: fc.constant(5n),
      per_call_nano: fc.bigInt(0n, 1n),
    }),
  })
  const configuration = fc.array(drawn, { minLength: 1, maxLength: 6 })
  const numbers = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(fc.array(configuration, { minLength: 3, maxLength: 3 }), async (configurations) => {
      const registered = await Promise.all(
        configurations.map((wanted, at) => registerTerms(nth(others, at).operators, wanted)),
      )
      for (const [at, wanted] of configurations.entries()) {
        for (const [place, one] of wanted.entries()) {
          const number = nth(nth(registered, at), place)
          const text = JSON.stringify(one, (_, value) => (typeof value === "bigint" ? `${value}` : value))
          expect(number).toBe(numbers.get(text) ?? number)
          numbers.set(text, number)
        }
      }
    }),
    { numRuns: 12 },
  )
  expect(new Set(numbers.values()).size).toBe(numbers.size)
  const [row] = await db.sql`SELECT count(*)::int AS rows FROM tollgate.terms WHERE output_pico = 5`
  expect(row?.rows).toBe(numbers.size)
})

test("D56 a hold names the terms of the first upstream, its end those of the one that answered, and no later price changes them", async () => {
  const ledger = await db.ledger()
  const account = await db.account(1_000n)
  const [one, other] = [holdOf(account, 10n), holdOf(account, 10n)]
  await Promise.all([one, other].map((hold) => ledger.hold(hold)))
  expect(await call(db.sql, one.id)).toMatchObject({ upstream: "first", input_pico: "250000" })
  await ledger.end(settled(one.id, 5n, { terms_id: SECOND }))
  await ledger.end(settled(other.id, 5n, { terms_id: null }))
  const dearer = { ...price, input_pico: 777n }
  const [changed] = await ledger.terms([
    { family: "chat", model: "model", upstream: "second", price: dearer },
  ])
  expect(changed).not.toBe(SECOND)
  expect(await call(db.sql, one.id)).toMatchObject({ upstream: "second", input_pico: "250000" })
  expect(await call(db.sql, other.id)).toMatchObject({ upstream: "first", input_pico: "250000" })
  const named = await db.sql`SELECT h.terms_id AS held, e.terms_id AS ended
    FROM tollgate.holds h JOIN tollgate.ends e USING (id) WHERE id IN ${db.sql([one.id, other.id])} ORDER BY id`
  expect([...named]).toEqual([
    { held: FIRST, ended: SECOND },
    { held: FIRST, ended: FIRST },
  ])
})
