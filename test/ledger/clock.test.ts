import { describe, expect, test } from "bun:test"
import { changeKey, getKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { sumUsage } from "./sum-usage.ts"
import { type Account, holdOf, idAt, settled, spawnFile, testGateway } from "./test-database.ts"

/** D58: the ledger's clock is the database's. Gateways with another one run as processes of their own. */

const HOUR_MS = 3_600_000

const { db, ask, end } = await testGateway()

async function databaseTime(): Promise<number> {
  const [row] = await db.sql`SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms`
  return Number(row?.ms)
}

const timeOf = (id: string) => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)

describe("D58 ids follow the database's clock", () => {
  test.each([
    ["4 h behind", -4 * HOUR_MS, 0],
    ["4 h ahead", 4 * HOUR_MS, 0],
    ["right", 0, 0],
    ["right, and then 4 h behind", 0, -4 * HOUR_MS],
    ["4 h ahead, and then right", 4 * HOUR_MS, -4 * HOUR_MS],
  ])("of a gateway whose own clock is %s", async (_, skew_ms, step_ms) => {
    const account = await db.account(1_000n)
    const from_ms = await databaseTime()
    const told = { address: db.address, data_dir: await db.folder(), account, skew_ms, step_ms }
    const child = spawnFile("skewed-gateway.ts", told)
    const { before, after, next, time_ms } = JSON.parse(await new Response(child.stdout).text())
    expect(await child.exited).toBe(0)
    const to_ms = await databaseTime()
    // An answer on its way makes an id later by as long as it took, and never earlier.
    for (const at_ms of [timeOf(before), timeOf(after), timeOf(next), time_ms])
      expect(at_ms).toBeWithin(from_ms - 1, to_ms + 1_000)
    expect([before, after, next].toSorted()).toEqual([before, after, next])
    const rows = await db.sql`SELECT id, extract(epoch FROM held_at)::float8 * 1000 AS ms FROM tollgate.holds
      WHERE account_id = ${account.account_id} ORDER BY held_at`
    expect(rows.map(({ id }) => id)).toEqual([before, after])
    for (const { id, ms } of rows) expect(Math.abs(timeOf(id) - ms)).toBeLessThan(1_000)
  })
})

describe("D58 what must be exact goes by the times of entries: a call whose id is hours off", () => {
  async function today(): Promise<{ from: Date; to: Date }> {
    const [row] = await db.sql`SELECT date_trunc('day', now(), 'UTC') AS from,
      date_trunc('day', now(), 'UTC') + interval '1 day' AS to`
    return { from: row?.from, to: row?.to }
  }

  /** A hold with an id as if it were made so many milliseconds after the first moment of today. */
  async function held(account: Account, off_ms: number, amount_nano: bigint) {
    const { from } = await today()
    const id = idAt(from.getTime() + off_ms)
    const hold = holdOf(account, amount_nano, { id })
    const results = await ask(hold)
    return { hold, outcome: results[0]?.outcome }
  }
  const spent = async ({ key_id }: Account) =>
    (await getKey(db.database.operators, key_id))?.spending?.spent_nano

  test.each([
    ["23 h before today", -23 * HOUR_MS],
    ["4 h before today", -4 * HOUR_MS],
    ["tomorrow", 28 * HOUR_MS],
  ])("%s counts today, in the sums of the day and in the limit of its period", async (_, off_ms) => {
    const account = await db.account(1_000n)
    const early = await held(account, off_ms, 30n)
    const { hold } = await held(account, off_ms, 20n)
    await end(settled(hold.id, 11n))
    const { from, to } = await today()
    const sums = (range: { from: Date; to: Date }) =>
      sumUsage(db.database.sums, { ...range, by: "day", account_ids: [account.account_id] })
    expect((await sums({ from, to })).total).toMatchObject({ calls: 1, charge_nano: 11n })
    const others = [
      { from: new Date(from.getTime() - 48 * HOUR_MS), to: from },
      { from: to, to: new Date(to.getTime() + 48 * HOUR_MS) },
    ]
    for (const range of others) expect((await sums(range)).total.calls).toBe(0)

    // A limit that is set now counts it, and so does one that is there when it is held.
    const spending = { limit_nano: 100n, period: "day" } as const
    await changeKey(db.database.operators, account.key_id, { spending })
    expect(await spent(account)).toBe(41n)
    await end(settled(early.hold.id, 25n))
    expect(await spent(account)).toBe(36n)
    expect((await held(account, off_ms, 65n)).outcome).toBe("spending_limit_reached")
    expect((await held(account, off_ms, 64n)).outcome).toBe("held")
    expect(await spent(account)).toBe(100n)
    const { violations } = await audit(db.database.operators)
    // Their ids are below the floor of their gateway, and they are not priced.
    expect(violations.filter(({ kind }) => kind !== "charge" && kind !== "abandoned")).toEqual([])
  })
})
