import { afterEach, describe, expect, test } from "bun:test"
import { alignIds, nextId } from "../../src/id.ts"
import { type Hold, LedgerUnavailable } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { type Lease, leaseOn } from "../../src/ledger/money/lease.ts"
import { Outstanding } from "../../src/ledger/queue/outstanding.ts"
import { holdSweeper } from "../../src/ledger/queue/sweep.ts"
import { thrown } from "../support/thrown.ts"
import {
  call,
  checkpointOf,
  holdOf,
  insertHold,
  LONG_LEASE,
  lockAccount,
  openTransaction,
  released,
  settled,
  testDatabase,
  violations,
} from "./test-database.ts"

/** Who is alive, who may say that somebody is not, and what becomes of what the dead left open (D13, D35). */

const EXPIRE_MS = 400

const db = await testDatabase()
afterEach(async () => {
  expect(await violations(db.sql)).toEqual([])
  // What one test left lapsing must not be found by the next one.
  await db.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE swept_at IS NULL`
})

async function lease(expire_ms = EXPIRE_MS): Promise<Lease> {
  const made = leaseOn(db.connection(), { renew_ms: expire_ms / 4, expire_ms })
  await made.acquire(nextId())
  return made
}

/** Renews without a gap until the lease has been held for as long as it lasts. */
async function steady(): Promise<Lease> {
  const made = await lease()
  while (!made.steady) await made.renew(nextId())
  return made
}

/** Another gateway with a lease that ran out a moment ago. */
async function lapsed(): Promise<string> {
  const { gateway_id } = await lease()
  await db.sql`UPDATE tollgate.gateways SET lease_until = now() - interval '1 ms' WHERE id = ${gateway_id}`
  return gateway_id
}

async function gateway(id: string) {
  const [row] = await db.sql`SELECT dead_at IS NOT NULL AS dead, swept_at IS NOT NULL AS swept, floor_id
    FROM tollgate.gateways WHERE id = ${id}`
  return row ?? null
}

function sweeper(by: Lease, late_ms = 0) {
  const expired = { count: 0 }
  const onExpired = (count: number) => {
    expired.count += count
  }
  const made = holdSweeper(db.connection(), by, onExpired, late_ms)
  return { expired, run: () => made.run() }
}

async function heldBy(gateway_id: string, count: number, balance_nano = 1_000_000n): Promise<Hold[]> {
  const account = await db.account(balance_nano)
  const holds = Array.from({ length: count }, () => holdOf(account, 10n))
  const results = await holdBatch(db.connection(), gateway_id, holds, 300)
  expect(results.every(({ outcome }) => outcome === "held")).toBe(true)
  return holds
}

async function seenOf({ id }: Hold): Promise<string | undefined> {
  const [row] = await db.sql`SELECT charge_nano FROM tollgate.checkpoints WHERE id = ${id}`
  return row?.charge_nano
}

const states = (holds: readonly Hold[]) =>
  Promise.all(holds.map(async ({ id }) => (await call(db.sql, id))?.state))

describe("D35 a lease", () => {
  test("that lapsed is renewed as long as nobody has declared the gateway dead", async () => {
    const mine = await lease()
    const { gateway_id } = mine
    await db.sql`UPDATE tollgate.gateways SET lease_until = now() - interval '1 hour' WHERE id = ${gateway_id}`
    await mine.renew(nextId())
    expect(mine.gateway_id).toBe(gateway_id)
    const [row] =
      await db.sql`SELECT lease_until > now() AS held FROM tollgate.gateways WHERE id = ${gateway_id}`
    expect(row?.held).toBe(true)
  })

  test("of a gateway that was declared dead goes on under a new row", async () => {
    const mine = await lease()
    const dead_id = mine.gateway_id
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`
    await mine.renew(nextId())
    expect(mine.gateway_id > dead_id).toBe(true)
    expect(await gateway(dead_id)).toMatchObject({ dead: true })
    expect(await gateway(mine.gateway_id)).toMatchObject({ dead: false })
  })

  test("is succeeded once, however many ask, a renewal that comes to know of it among them", async () => {
    const mine = await lease()
    const dead_id = mine.gateway_id
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`
    const asking = Array.from({ length: 5 }, () => mine.reacquire(dead_id, nextId()))
    await Promise.all([...asking, mine.renew(nextId())])
    const next_id = mine.gateway_id
    await mine.reacquire(dead_id, nextId())
    expect(mine.gateway_id).toBe(next_id)
    const [row] = await db.sql`SELECT count(*)::int AS rows FROM tollgate.gateways WHERE id > ${dead_id}`
    expect(row?.rows).toBe(1)
  })

  test("is not given back while the ledger shows something open under it, whatever its process thinks", async () => {
    const mine = await lease()
    const [hold] = await heldBy(mine.gateway_id, 1)
    await mine.release()
    expect(await gateway(mine.gateway_id)).toMatchObject({ dead: false, swept: false })
    await endBatch(db.connection(), [{ end: released(hold?.id ?? ""), hold: null }], 300)
    await mine.release()
    expect(await gateway(mine.gateway_id)).toMatchObject({ dead: true, swept: true })
  })

  test("is the database's: a gateway's own clock has no part in it", async () => {
    const now = Date.now
    try {
      // Behind, not ahead: ids never go backwards, and those of the tests to come are made in this process.
      Date.now = () => now() - 3_600_000
      const mine = await lease()
      const [row] = await db.sql`SELECT extract(epoch FROM lease_until - now()) * 1000 AS left_ms
        FROM tollgate.gateways WHERE id = ${mine.gateway_id}`
      expect(Number(row?.left_ms)).toBeWithin(0, EXPIRE_MS)
    } finally {
      Date.now = now
      alignIds(now(), now())
    }
  })
})

describe("D35 a sweeper acts only after it has itself renewed without a gap for as long as a lease lasts", () => {
  const wound = (mine: Lease, change: string) =>
    db.sql.unsafe(`UPDATE tollgate.gateways SET ${change} WHERE id = '${mine.gateway_id}'`)
  test.each<[string, is_dead: boolean, open: () => Promise<Lease>]>([
    ["has just started declares nobody dead", false, lease],
    ["has run long enough declares a dead gateway dead", true, steady],
    [
      "paused between its decision and its statement declares nobody dead",
      false,
      async () => {
        const mine = await steady()
        await wound(mine, `lease_until = lease_until - ${EXPIRE_MS / 2} * interval '1 ms'`)
        return mine
      },
    ],
    [
      "was declared dead itself declares nobody dead",
      false,
      async () => {
        const mine = await steady()
        await wound(mine, "dead_at = now()")
        return mine
      },
    ],
  ])("a sweeper that %s", async (_, is_dead, open) => {
    const other_id = await lapsed()
    await sweeper(await open()).run()
    expect(await gateway(other_id)).toMatchObject({ dead: is_dead })
  })

  test("but never somebody whose lease runs", async () => {
    const other = await lease(60_000)
    await sweeper(await steady()).run()
    expect(await gateway(other.gateway_id)).toMatchObject({ dead: false })
  })

  test("a gap in its own renewals makes it a newcomer", async () => {
    const mine = await steady()
    await db.sql`SELECT pg_sleep(${EXPIRE_MS / 2 / 1000 + 0.02})`
    await mine.renew(nextId())
    expect(mine.steady).toBe(false)
  })

  test("a renewal that is under way wins", async () => {
    const mine = await steady()
    const other_id = await lapsed()
    await db.sql.begin(async (renewing) => {
      await renewing`UPDATE tollgate.gateways SET lease_until = now() + interval '1 minute' WHERE id = ${other_id}`
      await sweeper(mine).run()
    })
    expect(await gateway(other_id)).toMatchObject({ dead: false })
  })
})

describe("D13 what a dead gateway left open", () => {
  async function dead(count: number) {
    const { gateway_id } = await lease(LONG_LEASE.expire_ms)
    const holds = await heldBy(gateway_id, count)
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    return { gateway_id, holds }
  }

  test("expires, more than one page of it, and what the living hold stays", async () => {
    const { gateway_id, holds } = await dead(1_200)
    const living = await heldBy((await lease(LONG_LEASE.expire_ms)).gateway_id, 3)
    const mine = sweeper(await lease())
    await mine.run()
    expect(mine.expired.count).toBe(1_200)
    expect(new Set(await states(holds))).toEqual(new Set(["expired"]))
    expect(await states(living)).toEqual(["open", "open", "open"])
    expect(await gateway(gateway_id)).toMatchObject({ swept: true })
  })

  test("is swept by two at once, each hold once", async () => {
    const { holds } = await dead(400)
    const sweepers = [sweeper(await lease()), sweeper(await lease())]
    await Promise.all(sweepers.map((one) => one.run()))
    expect(sweepers.reduce((sum, { expired }) => sum + expired.count, 0)).toBe(400)
    expect(new Set(await states(holds))).toEqual(new Set(["expired"]))
  })

  test("is searched from the gateway's floor up", async () => {
    const { gateway_id, holds } = await dead(3)
    const [below, ...above] = holds
    await db.sql`UPDATE tollgate.gateways SET floor_id = ${above[0]?.id ?? ""} WHERE id = ${gateway_id}`
    await sweeper(await lease()).run()
    expect(await states(above)).toEqual(["expired", "expired"])
    expect(await states([below ?? holdOf({ account_id: "", key_id: "" }, 0n)])).toEqual(["open"])
    await db.sql`UPDATE tollgate.gateways SET floor_id = ${below?.id ?? ""}, swept_at = NULL WHERE id = ${gateway_id}`
    await sweeper(await lease()).run()
  })

  test("a locked account does not keep the others from expiring", async () => {
    const { gateway_id } = await lease(LONG_LEASE.expire_ms)
    const [stuck] = await heldBy(gateway_id, 1)
    const others = await heldBy(gateway_id, 5)
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    await using lock = await lockAccount(db.sql, stuck?.account_id ?? "")
    const mine = sweeper(await lease())
    const sweeping = mine.run()
    while (new Set(await states(others)).has("open")) {}
    expect(await call(db.sql, stuck?.id ?? "")).toMatchObject({ state: "open" })
    await lock.unlock()
    await sweeping
    expect(mine.expired.count).toBe(6)
  })

  test("is looked for again until no hold of it can be on its way any more", async () => {
    const { gateway_id } = await dead(1)
    const mine = sweeper(await lease(), 1)
    // A transaction that began before the death was declared: it may still insert a hold.
    const account = await db.account(100n)
    const late = holdOf(account, 10n)
    const inserting = await openTransaction(
      db.sql,
      (tx) => tx`SELECT 1`,
      async (tx) => {
        await insertHold(tx, late, gateway_id)
        await tx`UPDATE tollgate.accounts SET held_nano = held_nano + 10 WHERE id = ${account.account_id}`
      },
    )
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    await mine.run()
    expect(await gateway(gateway_id)).toMatchObject({ dead: true, swept: false })
    await inserting.commit()
    await mine.run()
    expect(await states([late])).toEqual(["expired"])
    expect(await gateway(gateway_id)).toMatchObject({ swept: true })
  })

  test("is not called swept before its death is old", async () => {
    const { gateway_id } = await dead(1)
    await sweeper(await lease(), 60_000).run()
    expect(await gateway(gateway_id)).toMatchObject({ dead: true, swept: false })
  })
})

describe("the ledger of one process", () => {
  test("D35 a gateway declared dead holds under a new row from the next call on", async () => {
    const ledger = await db.ledger()
    const account = await db.account(100n)
    const before = holdOf(account, 1n)
    await ledger.hold(before)
    const { gateway_id } = (await call(db.sql, before.id)) ?? {}
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    const after = Array.from({ length: 8 }, () => holdOf(account, 1n))
    const results = await Promise.all(after.map((hold) => ledger.hold(hold)))
    expect(results.every(({ outcome }) => outcome === "held")).toBe(true)
    const rows = await Promise.all(after.map(async ({ id }) => (await call(db.sql, id))?.gateway_id))
    expect(new Set(rows).size).toBe(1)
    expect(rows[0] > gateway_id).toBe(true)

    await sweeper(await lease()).run()
    await ledger.end(settled(before.id, 1n))
    expect(await call(db.sql, before.id)).toMatchObject({ state: "settled", notes: ["settled_late"] })
    await Promise.all(after.map(({ id }) => ledger.end(settled(id, 1n))))
  })

  test("sweeps by itself, and writes the checkpoints of its calls (D57)", async () => {
    const other_id = await lapsed()
    const [orphan] = await heldBy(other_id, 1)
    const account = await db.account(100n)
    const running: Hold[] = []
    const expired = Promise.withResolvers<number>()
    const ledger = await db.ledger({
      lease: { renew_ms: EXPIRE_MS / 8, expire_ms: EXPIRE_MS },
      checkpoints: () => running.map(({ id }) => checkpointOf(id, 6n)),
      events: { expired: expired.resolve },
    })
    const own = holdOf(account, 10n)
    await ledger.hold(own)
    running.push(own)
    expect(await expired.promise).toBe(1)
    expect(await call(db.sql, orphan?.id ?? "")).toMatchObject({ state: "expired" })
    while ((await seenOf(own)) !== "6") {}
    await ledger.end(settled(own.id, 7n))
  })

  test("nothing is held any more under a row that is being given back", async () => {
    const ledger = await db.ledger()
    const account = await db.account(100n)
    const before = holdOf(account, 10n)
    await ledger.hold(before)
    await ledger.end(settled(before.id, 1n))
    const { gateway_id } = (await call(db.sql, before.id)) ?? {}
    const late = holdOf(account, 10n)
    const stopping = await db.sql.begin(async (tx) => {
      await tx`SELECT FROM tollgate.gateways WHERE id = ${gateway_id} FOR UPDATE`
      const stopped = ledger.stop()
      while (
        (await tx`SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`).length === 0
      ) {}
      expect(await thrown(ledger.hold(late))).toBeInstanceOf(LedgerUnavailable)
      return [stopped]
    })
    await Promise.all(stopping)
    expect(await gateway(gateway_id)).toMatchObject({ dead: true, swept: true })
    expect(await call(db.sql, late.id)).toBeNull()
  })
})

describe("D35 the floor of a process: nothing below it is open", () => {
  const MINUTE = 60_000

  test("stays where the process began until ids are old enough", () => {
    const outstanding = new Outstanding()
    const began = outstanding.floor
    for (let minute = 0; minute < 10; minute++) expect(outstanding.raise(minute * MINUTE)).toBe(began)
  })

  test("then follows, ten minutes behind", () => {
    const outstanding = new Outstanding()
    outstanding.raise(0)
    const earlier = nextId()
    outstanding.raise(1 * MINUTE)
    const later = nextId()
    expect(outstanding.raise(10 * MINUTE) < earlier).toBe(true)
    const floor = outstanding.raise(11 * MINUTE)
    expect(floor > earlier).toBe(true)
    expect(floor < later).toBe(true)
  })

  test("but never rises above what is open", () => {
    const outstanding = new Outstanding()
    const account = { account_id: nextId(), key_id: nextId() }
    const open = [nextId(), nextId(), nextId()]
    for (const id of [...open].reverse()) outstanding.add(holdOf(account, 1n, { id }))
    for (let minute = 0; minute < 30; minute++) outstanding.raise(minute * MINUTE)
    expect(outstanding.floor).toBe(open[0] ?? "")
    outstanding.delete(open[0] ?? "")
    expect(outstanding.raise(31 * MINUTE)).toBe(open[1] ?? "")
  })

  test("is written with each renewal", async () => {
    const mine = await lease()
    const floor = nextId()
    await mine.renew(floor)
    expect(await gateway(mine.gateway_id)).toMatchObject({ floor_id: floor })
  })
})
