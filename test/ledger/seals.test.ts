import { describe, expect, test } from "bun:test"
import { floorId } from "../../src/id.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import { checkSeal, type Sealed, sealMonth } from "../../src/ledger/archive/seals.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { thrown } from "../support/thrown.ts"
import {
  call,
  FIRST,
  failureOf,
  falsify,
  holdOf,
  idAt,
  SECOND,
  settled,
  standings,
  testGateway,
  until,
  violations,
} from "./test-database.ts"

/** D71: seals of months. */

/** The month that is `ahead` of the first one counts as over, and no later one: a test cannot wait for it. */
function overAfterMs(ahead: number): number {
  const first = new Date(`${month}T00:00:00Z`)
  return Date.now() - Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1 + ahead, 1) - 3_600_000
}
const running = () => false

const { db, ask, end, expire } = await testGateway()
const account = await db.account(1_000_000n)
await addMonths(db.database.upkeep)
const [row] = await db.sql`SELECT min(month)::text AS month FROM tollgate.months`
const month = String(row?.month)

const seal = async (ahead = 0): Promise<Sealed | undefined> =>
  (await sealMonth(db.database.upkeep, running, overAfterMs(ahead)))?.sealed

/** What the tokens of `settled` cost at the terms of the tests. */
const CHARGE_NANO = 4_525n

/** A call that was held at that moment of the ledger's clock. */
async function heldAt(at: Date): Promise<Hold> {
  const hold = holdOf(account, 10_000n, { id: idAt(at) })
  expect(await ask(hold)).toEqual([{ outcome: "held" }])
  return hold
}

/** What each hour of a seal says, by its first id. */
async function check(of: string): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = {}
  for (let at: string | null = null; ; ) {
    const part = await checkSeal(db.database.operators, of, at)
    if (part === null) throw new Error("there is no such hour")
    found[at ?? "first"] = part.matches
    if (part.next === null) return found
    at = part.next
  }
}

const day = (at: number, hour: number) => {
  const first = new Date(`${month}T00:00:00Z`)
  return new Date(first.getTime() + (at * 24 + hour) * 3_600_000 + 60_000)
}

let late: Hold

describe("D71: a month", () => {
  test("that is not over is not sealed", async () => {
    expect(await sealMonth(db.database.upkeep, running)).toBeNull()
  })

  test("with an open call is not sealed, and takes further calls", async () => {
    const open = await heldAt(day(3, 5))
    expect(await seal()).toBe("open")
    const other = await heldAt(day(3, 7))
    expect(await end(settled(other.id, CHARGE_NANO))).toEqual(["applied"])
    expect(await end(settled(open.id, CHARGE_NANO))).toEqual(["applied"])
  })

  test("that is over is sealed once, however many do it, with the sums of its calls", async () => {
    const corrected = await heldAt(day(3, 7))
    late = await heldAt(day(20, 1))
    expect(await expire(corrected, late)).toEqual([true, true])
    expect(await end(settled(corrected.id, CHARGE_NANO))).toEqual(["applied"])
    // Stopped after one of its three hours: the next one goes on from there, and nothing is sealed until then. Asked twice
    // before, when its entries are checked.
    let asked = 0
    const stopped = await sealMonth(db.database.upkeep, () => asked++ === 3, overAfterMs(0), 1)
    expect(stopped?.sealed).toBe("busy")
    expect(await db.sql`SELECT from_id FROM tollgate.seal_hours`).toHaveLength(1)
    expect(await checkSeal(db.database.operators, month, null)).toBeNull()
    const all = await Promise.all([seal(), seal(), seal()])
    expect(all.filter((sealed) => sealed === "sealed").length).toBeLessThan(2)
    // Those that met another one leave, and come again.
    if (!all.includes("sealed")) await until(async () => (await seal()) === "sealed")
    const rows = await db.sql`SELECT month::text, entries, calls, charge_nano FROM tollgate.seals`
    expect([...rows]).toEqual([{ month, entries: "9", calls: "4", charge_nano: String(3n * CHARGE_NANO) }])
    const sums =
      await db.sql`SELECT account_id, key_id, terms_id, calls, charge_nano, prompt_tokens, cached_tokens, completion_tokens
      FROM tollgate.seal_sums ORDER BY terms_id`
    const none = { prompt_tokens: "0", cached_tokens: "0", completion_tokens: "0" }
    expect([...sums]).toEqual([
      { ...account, terms_id: FIRST, calls: "1", charge_nano: "0", ...none },
      {
        ...account,
        terms_id: SECOND,
        calls: "3",
        charge_nano: String(3n * CHARGE_NANO),
        prompt_tokens: "9",
        cached_tokens: "3",
        completion_tokens: "6",
      },
    ])
  })

  test("that is sealed refuses entries, moves no money, and lets the rest of a batch through", async () => {
    const next = await heldAt(day(33, 0))
    const both = [late, next].map(({ id }) => settled(id, CHARGE_NANO))
    const before = await standings(db.sql)
    expect(await failureOf(end(...both))).toBe("PostgresError")
    expect(await standings(db.sql)).toEqual(before)
    const ledger = await db.ledger()
    await Promise.all(both.map((one) => ledger.end(one)))
    expect(ledger.depths().spool).toBe(1)
    expect(await call(db.sql, late.id)).toMatchObject({ state: "expired", charge_nano: "0" })
    expect(await call(db.sql, next.id)).toMatchObject({ state: "settled" })
    expect(await failureOf(ask(holdOf(account, 1n, { id: floorId(day(4, 0)) })))).toBe("PostgresError")
    expect(await violations(db.sql)).toEqual([])
  })

  test("that is sealed says of each hour whether its entries are those that were sealed", async () => {
    const hours = [day(3, 7), day(20, 1)].map((at) => floorId(new Date(at.getTime() - 60_000)))
    const [second = "", third = ""] = hours
    expect(await check(month)).toEqual({ first: true, [second]: true, [third]: true })
    const forge = async (change: string, found: Record<string, boolean>, undo: string) => {
      await falsify(db.sql, (tx) => tx.unsafe(change))
      expect(await check(month)).toEqual(found)
      await falsify(db.sql, (tx) => tx.unsafe(undo))
    }
    const one = `WHERE id = '${late.id}'`
    await forge(
      `UPDATE tollgate.ends SET charge_nano = 1 ${one}`,
      { first: true, [second]: true, [third]: false },
      `UPDATE tollgate.ends SET charge_nano = 0 ${one}`,
    )
    await forge(
      "UPDATE tollgate.seal_sums SET charge_nano = charge_nano + 1",
      { first: false, [second]: true, [third]: true },
      "UPDATE tollgate.seal_sums SET charge_nano = charge_nano - 1",
    )
    const extra = floorId(day(10, 0))
    await forge(
      `INSERT INTO tollgate.holds SELECT '${extra}', account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream FROM tollgate.holds ${one}`,
      { first: true, [second]: false, [third]: true },
      `DELETE FROM tollgate.holds WHERE id = '${extra}'`,
    )
    // As the migration of a later version would.
    await db.sql`ALTER TABLE tollgate.ends ADD COLUMN later text`
    expect(await check(month)).toEqual({ first: true, [second]: true, [third]: true })
  })

  test("that is sealed counts by its seal in the audit, which reads its entries only if it is asked to", async () => {
    const { account_id } = account
    const charged = { kind: "charge", account_id, id: late.id, recorded_nano: 1n, expected_nano: 0n } as const
    const found = async (full: boolean) => (await audit(db.database.operators, { full })).violations
    expect(await found(false)).toEqual([])
    expect(await found(true)).toEqual([])
    await falsify(db.sql, (tx) => tx`UPDATE tollgate.ends SET charge_nano = 1 WHERE id = ${late.id}`)
    expect(await found(false)).toEqual([])
    expect(await found(true)).toContainEqual(charged)
    await falsify(db.sql, (tx) => tx`UPDATE tollgate.ends SET charge_nano = 0 WHERE id = ${late.id}`)
    const sums = (by: number) =>
      falsify(
        db.sql,
        (tx) => tx`UPDATE tollgate.seal_sums SET charge_nano = charge_nano + ${by} WHERE calls = 3`,
      )
    await sums(5)
    expect(await found(false)).toMatchObject([{ kind: "balance", account_id }])
    expect(await found(true)).toEqual([])
    await sums(-5)
    expect(await found(false)).toEqual([])
  })

  test("with an entry that is wrong is not sealed", async () => {
    const hold = await heldAt(day(33, 1))
    await end(settled(hold.id, CHARGE_NANO - 1n))
    expect(await seal(1)).toBe("wrong")
    const still = await heldAt(day(33, 2))
    expect(await end(settled(still.id, CHARGE_NANO))).toEqual(["applied"])
  })

  test.each(["seals", "seal_hours", "seal_sums"])("keeps its %s", async (table) => {
    for (const change of ["DELETE FROM", "TRUNCATE"])
      expect(String(await thrown(db.sql.unsafe(`${change} tollgate.${table}`).execute()))).toContain(
        "added and never changed",
      )
  })
})
