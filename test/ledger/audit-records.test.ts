import { afterAll, beforeAll, expect, test } from "bun:test"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { type OperatorLedger, operatorLedger } from "../../src/ledger/operators.ts"
import { holdOf, openTestDatabase, settled, type TestDatabase } from "./test-database.ts"

/** D107: audits leave evidence, in each shard. */

let places: readonly [TestDatabase, TestDatabase]
let ledger: OperatorLedger

beforeAll(async () => {
  places = [await openTestDatabase(), await openTestDatabase()]
  const [first, second] = places.map(({ database }, at) => ({
    ...{ name: "ab".charAt(at), open: true, database: database.operators },
  }))
  if (first === undefined || second === undefined) throw new Error("there are two shards")
  ledger = operatorLedger([first, second])
})
afterAll(async () => {
  for (const place of places) await place.close()
})

const PAGE = { limit: 10, after: null }
/** Entries of any age are final: nothing else writes here. */
const asked = { actor: "Ann", settle_ms: 0 }

async function records() {
  const { data } = await ledger.listAudits(PAGE)
  return data.map(({ shard, actor, is_full, violations, hash }) => ({
    shard,
    actor,
    is_full,
    violations,
    hash,
  }))
}

/** A call of a new account that is charged more than its tokens cost. */
async function call(place: TestDatabase): Promise<void> {
  const account = await place.account(1_000n)
  const connection = place.connection()
  const hold = holdOf(account, 100n)
  await holdBatch(connection, await place.gateway(), [hold], 1_000)
  await endBatch(connection, [{ end: settled(hold.id, 40n), hold: null }], 1_000)
}

test("D107 an audit that an operator asks for has a record in each shard, with its result", async () => {
  expect(await records()).toEqual([])
  await ledger.audit({ settle_ms: 0 })
  expect(await records()).toEqual([])
  await call(places[0])
  const { violations } = await ledger.audit(asked)
  await ledger.audit({ ...asked, actor: "Ben", full: true })
  const found = await records()
  const byShard = (name: string) => found.filter(({ shard }) => shard === name)
  expect(byShard("a")).toMatchObject([
    { actor: "Ben", is_full: true, violations: violations.length },
    { actor: "Ann", is_full: false, violations: violations.length },
  ])
  expect(violations).toHaveLength(1)
  expect(byShard("b")).toMatchObject([{ actor: "Ben", violations: 0 }, { actor: "Ann" }])
})

test("D107 the same entries have the same hash, other entries another", async () => {
  const hashes = async () => {
    await ledger.audit(asked)
    const { data } = await ledger.listAudits(PAGE)
    return ["a", "b"].map((name) => data.find(({ shard }) => shard === name)?.hash)
  }
  const first = await hashes()
  expect(await hashes()).toEqual(first)
  await call(places[1])
  const [same, other] = await hashes()
  expect(same).toBe(first[0])
  expect(other).not.toBe(first[1])
  expect(other).toMatch(/^[0-9a-f]{64}$/)
})

test("D107 records are listed page by page, newest first", async () => {
  const ids: string[] = []
  for (let after: string | null = null; ; ) {
    const page: Awaited<ReturnType<typeof ledger.listAudits>> = await ledger.listAudits({ limit: 3, after })
    ids.push(...page.data.map(({ id }) => id))
    if (page.next === null) break
    after = page.next
  }
  const all = await ledger.listAudits({ limit: 100, after: null })
  expect(ids).toEqual(all.data.map(({ id }) => id))
  expect(ids).toEqual(ids.toSorted().toReversed())
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.length).toBe(10)
})
