import { expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { buckets, recordOf } from "../../src/kinds.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { End } from "../../src/ledger/entries.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { lineOf, parseLine } from "../../src/ledger/queue/spool.ts"
import { priceOf } from "../support/price.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  type Account,
  call,
  FIRST,
  falsify,
  holdOf,
  settled,
  testGateway,
  writeCheckpoints,
} from "./test-database.ts"

/** D60: ends count their buckets, and the audit computes the charge from them. */

const PRICE = {
  ...priceOf(1_000n, 100n, 4_000n),
  buckets: {
    cache_write: 1_250n,
    cache_write_1h: 2_000n,
    reasoning: 3_000n,
    audio_input: 16_000n,
    audio_output: 64_000n,
    image_input: 2_500n,
    web_search: 10_000_000n,
    image_output: 30_000n,
    cached_audio_input: 2_000n,
    page: 1_000_000n,
  },
  tool_runs: { x_search: 5_000_000n, code_interpreter: 30_000_000n, file_search: 2_500_000n },
}
const USAGE = {
  prompt_tokens: 100,
  cached_tokens: 10,
  completion_tokens: 50,
  buckets: {
    cache_write: 8,
    cache_write_1h: 5,
    reasoning: 20,
    audio_input: 4,
    audio_output: 6,
    image_input: 2,
    web_search: 3,
    image_output: 5,
    cached_audio_input: 7,
    page: 2,
  },
  tool_runs: { x_search: 2, code_interpreter: 1, file_search: 0 },
}
/**
 * 71 + 10 + 10 + 64 + 5 of the prompt, 0.3 + 14 of what is cached, 76 + 60 + 384 + 150 of the output; three searches of
 * 10,000, two pages of 1,000, a run of 30,000 and two of 5,000.
 */
const COST = 72_845n
const KINDS = [8, 5, 20, 4, 6, 2, 3, 5, 7, 2]
/** From the 33rd on the runs of code_interpreter, file_search and x_search. */
const COUNTS = [...KINDS, ...Array.from({ length: 22 }, () => 0), 1, 0, 2]

let terms_id: number

const { db, connection, gateway_id, ask, end, endUnknown, expire } = await testGateway()
const [registered = 0] = await registerTerms(db.database.operators, [
  { family: "chat", model: "card", upstream: "first", price: PRICE },
])
terms_id = registered

async function held(account: Account, at = terms_id) {
  const hold = holdOf(account, 90_000n, { terms_id: at })
  expect(await ask(hold)).toEqual([{ outcome: "held" }])
  return hold
}

const counted = (id: string, changes: Partial<End> = {}) =>
  settled(id, COST, { terms_id, usage: USAGE, ...changes })
/** What tokens of `settled` cost at the first terms. */
const PLAIN = 4_525n
const found = async () => (await audit(db.database.operators)).violations

test("D60 the usage of these tests counts every bucket", () => {
  expect(Object.keys(USAGE.buckets)).toEqual([...buckets])
})

test("D60 an end with buckets, alone or beside others, is what the audit computes", async () => {
  const account = await db.account(1_000_000n)
  const [alone, plain, beside] = [await held(account), await held(account, FIRST), await held(account)]
  expect(await end(counted(alone.id))).toEqual(["applied"])
  expect(await end(settled(plain.id, PLAIN), counted(beside.id))).toEqual(["applied", "applied"])
  expect(await call(db.sql, alone.id)).toMatchObject({ buckets: COUNTS, reasoning_pico: "3000" })
  expect(await call(db.sql, beside.id)).toMatchObject({ buckets: COUNTS, charge_nano: `${COST}` })
  expect(await call(db.sql, plain.id)).toMatchObject({ buckets: null, reasoning_pico: null })
  expect(await found()).toEqual([])
})

test("D60 expiry charges the buckets of the checkpoint, at the terms of the upstream that answered", async () => {
  const account = await db.account(1_000_000n)
  const [hold, late] = [await held(account), await held(account)]
  const seen = { charge_nano: COST, basis: "partial", usage: USAGE, terms_id } as const
  await writeCheckpoints(connection, gateway_id, ...[hold, late].map(({ id }) => ({ id, ...seen })))
  expect(await expire(hold, late)).toEqual([true, true])
  expect(await call(db.sql, hold.id)).toMatchObject({ model: "card", buckets: COUNTS, state: "expired" })
  expect(await found()).toEqual([])
  const usage = { ...USAGE, buckets: { ...USAGE.buckets, web_search: 4 } }
  await endUnknown(counted(late.id, { charge_nano: COST + 10_000n, usage }))
  expect(await call(db.sql, late.id)).toMatchObject({ buckets: COUNTS.with(6, 4), state: "settled" })
  expect(await found()).toEqual([])
})

test("D48 sums of usage show what was counted of each bucket, corrections with their difference", async () => {
  const account = await db.account(1_000_000n)
  const [ended, plain, late] = [await held(account), await held(account, FIRST), await held(account)]
  const seen = { id: late.id, charge_nano: COST, basis: "partial", usage: USAGE, terms_id } as const
  await writeCheckpoints(connection, gateway_id, seen)
  await expire(late)
  const usage = { ...USAGE, buckets: { ...USAGE.buckets, web_search: 4 } }
  const ends = [
    counted(ended.id),
    settled(plain.id, PLAIN),
    counted(late.id, { charge_nano: COST + 10_000n, usage }),
  ]
  expect(await endUnknown(...ends)).toEqual(["applied", "applied", "applied"])
  const range = {
    from: new Date(Date.now() - 60_000),
    to: new Date(Date.now() + 60_000),
    by: "model",
  } as const
  const { total, groups } = await sumUsage(db.database.operators, {
    ...range,
    account_ids: [account.account_id],
  })
  const twice = recordOf(buckets, (bucket) => 2 * (COUNTS[buckets.indexOf(bucket)] ?? 0))
  const searches = (COUNTS[6] ?? 0) + 4
  expect(total.buckets).toEqual({ ...twice, web_search: searches, tool_run: 6 })
  expect(groups.map(({ values, buckets }) => [values[0], buckets.reasoning])).toEqual([
    ["card", 2 * (COUNTS[2] ?? 0)],
    ["model", 0],
  ])
})

test("D60 the audit finds each count that is not what was charged", async () => {
  const account = await db.account(2_000_000n)
  const places = COUNTS.flatMap((count, at) => (count > 0 ? [at + 1] : []))
  const holds = await Promise.all(places.map(() => held(account)))
  await end(...holds.map(({ id }) => counted(id)))
  await falsify(db.sql, async (tx) => {
    for (const [at, { id }] of holds.entries())
      await tx.unsafe(`UPDATE tollgate.ends SET buckets[${places[at]}] = 0 WHERE id = '${id}'`)
  })
  const wrong = await found()
  expect(wrong).toMatchObject(wrong.map(() => ({ kind: "charge", recorded_nano: COST })))
  expect(new Set(wrong.map(({ id }) => id))).toEqual(new Set(holds.map(({ id }) => id)))
  await falsify(
    db.sql,
    (tx) => tx`UPDATE tollgate.ends SET buckets = ${COUNTS} WHERE id IN ${tx(holds.map(({ id }) => id))}`,
  )
})

test("D62 D70 the audit finds terms of larger prompts that a reported prompt does not reach", async () => {
  const [large = 0] = await registerTerms(db.database.operators, [
    {
      family: "chat",
      model: "card",
      upstream: "first",
      price: PRICE,
      above_tokens: USAGE.prompt_tokens,
      service_tier: "flex",
    },
  ])
  const account = await db.account(1_000_000n)
  const charged = async (changes: Partial<End>) => {
    const hold = await held(account)
    await end(counted(hold.id, { terms_id: large, ...changes }))
    return hold.id
  }
  const id = await charged({})
  // An estimate may be cut down to what was held.
  await charged({ basis: "estimate" })
  expect(await found()).toMatchObject([{ kind: "charge", id, recorded_nano: COST, expected_nano: null }])
  await falsify(db.sql, (tx) => tx`UPDATE tollgate.ends SET terms_id = ${terms_id} WHERE id = ${id}`)
  expect(await found()).toEqual([])
})

test("D60 the spool keeps buckets, and does not read those that it does not know", () => {
  const spooled = { account_id: nextId(), end: counted(nextId()), hold: null }
  const line = lineOf(spooled).trimEnd()
  expect(parseLine(line)).toEqual(spooled)
  expect(parseLine(line.replace('"reasoning"', '"thinking"'))).toBeNull()
})
