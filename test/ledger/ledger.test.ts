import { afterAll, describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { QUEUE_LIMIT } from "../../src/ledger/database/batch-queue.ts"
import type { DatabaseLedgerOptions } from "../../src/ledger/database-ledger.ts"
import type { StatementKind } from "../../src/ledger/events.ts"
import { Owners } from "../../src/ledger/queue/standings.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  call,
  failureOf,
  holdOf,
  ledgerAt,
  lockAccount,
  RENEWING,
  released,
  settled,
  testDatabase,
} from "./test-database.ts"

/** The ledger as the calls see it. */

const db = await testDatabase({ audited: true })
const proxy = await DatabaseProxy.start(db.address)
afterAll(() => proxy.stop())

async function counted(options: Partial<DatabaseLedgerOptions> = {}) {
  const told: { kind: StatementKind; size: number }[] = []
  const statement = (kind: StatementKind, size: number) => void told.push({ kind, size })
  const ledger = await ledgerAt(db, proxy.address, { ...options, events: { ...options.events, statement } })
  // What is done at the start is not counted: a look for dead gateways, and for answers and claims that have had their time.
  const times = (kind: StatementKind) => told.filter((statement) => statement.kind === kind).length
  while (times("sweep") < 1 || times("answers") < 2) await Bun.sleep(1)
  // Nor what follows the first statement of a connection.
  const hold = holdOf(await db.account(1n), 1n)
  await ledger.hold(hold)
  await ledger.end(released(hold.id))
  await ledger.standing(nextId())
  const during = async (work: () => Promise<unknown>) => {
    const before = { executed: proxy.executed, told: told.length }
    await work()
    return { executed: proxy.executed - before.executed, told: told.slice(before.told) }
  }
  return { ledger, during }
}

describe("micro-batches: what arrives while a statement is in flight forms the next one", () => {
  test("256 calls at once are a handful of statements, on the wire and by the events", async () => {
    const { ledger, during } = await counted()
    const account = await db.account(1_000_000n)
    const holds = Array.from({ length: 256 }, () => holdOf(account, 10n))
    await ledger.hold(holdOf(account, 1n)).then(() => ledger.standing(account.key_id))

    const holding = await during(() => Promise.all(holds.map((hold) => ledger.hold(hold))))
    expect(holding.told).toEqual(Array.from({ length: 2 }, () => ({ kind: "hold", size: 128 })))
    expect(holding.executed).toBe(2)

    const [first, ...others] = holds
    await ledger.end(settled(first?.id ?? "", 5n))
    const ending = await during(() =>
      Promise.all(others.map(({ id }, at) => ledger.end(at % 2 === 0 ? settled(id, 5n) : released(id)))),
    )
    expect(ending.told).toEqual([128, 127].map((size) => ({ kind: "end", size })))
    expect(ending.executed).toBe(2)

    const reading = await during(() => Promise.all(holds.map(() => ledger.standing(account.key_id))))
    expect(reading.executed).toBe(2)
  })

  test("one call alone is one statement each, and waits for nobody; a refusal is two: the second one says why", async () => {
    const { ledger, during } = await counted()
    const account = await db.account(100n)
    const served = await during(async () => {
      const hold = holdOf(account, 10n)
      await ledger.hold(hold)
      await ledger.end(settled(hold.id, 5n))
    })
    const statements = (...kinds: StatementKind[]) => kinds.map((kind) => ({ kind, size: 1 }))
    expect(served).toEqual({ executed: 2, told: statements("hold", "end") })
    const refused = await during(() => ledger.hold(holdOf(account, 101n)))
    expect(refused).toEqual({ executed: 2, told: statements("hold", "hold") })
  })

  test("calls of many accounts that come together are one statement, not one an account", async () => {
    const { ledger, during } = await counted()
    const accounts = await Promise.all(Array.from({ length: 100 }, () => db.account(100n)))
    const { executed } = await during(() =>
      Promise.all(accounts.map((account) => ledger.hold(holdOf(account, 10n)))),
    )
    expect(executed).toBe(1)
  })
})

describe("owner and standing", () => {
  test("D26 what a hash belongs to is asked once; an unknown hash is asked each time", async () => {
    const owners = new Owners()
    const { ledger, during } = await counted({ owners })
    const account = await db.account(100n)
    expect(owners.get(account.key_id)).toBeNull()
    expect((await during(() => ledger.standing(account.key_id))).executed).toBe(1)
    expect(owners.get(account.key_id)).toEqual({ ...account, shard: 0 })
    const unknown = crypto.randomUUID()
    for (const _ of [1, 2]) {
      expect((await during(() => ledger.standing(unknown))).executed).toBe(1)
      expect(owners.get(unknown)).toBeNull()
    }
    await db.sql`UPDATE tollgate.keys SET hash = ${unknown} WHERE id = ${account.key_id}`
    await ledger.standing(unknown)
    expect(owners.get(unknown)).toEqual({ ...account, shard: 0 })
  })

  test("D30 a key that may not call is forgotten, until it may call again", async () => {
    const owners = new Owners()
    const ledger = await db.ledger({ owners })
    const account = await db.account(100n)
    const known = async () => {
      await ledger.standing(account.key_id)
      return owners.get(account.key_id) !== null
    }
    expect(await known()).toBe(true)
    for (const [table, id, column] of [
      ["keys", account.key_id, "revoked_at"],
      ["keys", account.key_id, "suspended_at"],
      ["accounts", account.account_id, "suspended_at"],
    ] as const) {
      const to = (moment: string) =>
        db.sql.unsafe(`UPDATE tollgate.${table} SET ${column} = ${moment} WHERE id = '${id}'`)
      await to("now()")
      expect(await known()).toBe(false)
      await to("NULL")
      expect(await known()).toBe(true)
    }
  })

  test("D22, D26 the standing is of this moment", async () => {
    const ledger = await db.ledger()
    const account = await db.account(100n)
    const standing = () => ledger.standing(account.key_id)
    expect(await standing()).toEqual({
      ...account,
      shard: 0,
      active: true,
      models: null,
      available_nano: 100n,
      key_suspended: false,
      account_suspended: false,
      spending: null,
      is_limited: false,
    })
    await ledger.hold(holdOf(account, 30n))
    expect(await standing()).toMatchObject({ available_nano: 70n })
    await db.sql`UPDATE tollgate.keys SET models = ARRAY['a "b"', 'c,d'], expires_at = now() + interval '1 hour'
      WHERE id = ${account.key_id}`
    expect(await standing()).toMatchObject({ active: true, models: ['a "b"', "c,d"] })
    await db.sql`UPDATE tollgate.keys SET expires_at = now() WHERE id = ${account.key_id}`
    expect(await standing()).toMatchObject({ active: false })
    await db.sql`UPDATE tollgate.keys SET expires_at = NULL, revoked_at = now() WHERE id = ${account.key_id}`
    expect(await standing()).toMatchObject({ active: false })
    expect(await ledger.standing(crypto.randomUUID())).toBeNull()
  })

  test("when a key was last used is written beside the renewals and at the end", async () => {
    const lastUsed = async (key_id: string) =>
      (await db.sql`SELECT last_used_at FROM tollgate.keys WHERE id = ${key_id}`)[0]?.last_used_at
    const renewing = await db.ledger({ lease: RENEWING })
    const [held, refused, read, last] = await Promise.all([1, 2, 3, 4].map(() => db.account(10n)))
    if (held === undefined || refused === undefined || read === undefined || last === undefined)
      throw new Error()
    await renewing.hold(holdOf(held, 1n))
    await renewing.hold(holdOf(refused, 11n))
    await renewing.standing(read.key_id)
    while ((await lastUsed(held.key_id)) === null || (await lastUsed(read.key_id)) === null) {}
    const stopping = await db.ledger()
    const hold = holdOf(last, 1n)
    await stopping.hold(hold)
    await stopping.end(released(hold.id))
    expect(await lastUsed(last.key_id)).toBeNull()
    await stopping.stop()
    expect(await lastUsed(last.key_id)).toBeInstanceOf(Date)
  })
})

describe("limits and states", () => {
  test("D33, D78 beyond its share of the queue an account is refused at once; what waits is served", async () => {
    const share = (QUEUE_LIMIT * 15) / 16
    const ledger = await db.ledger()
    const account = await db.account(10_000_000n)
    await using lock = await lockAccount(db.sql, account.account_id)
    const ends = Promise.allSettled(Array.from({ length: share + 5 }, () => ledger.hold(holdOf(account, 1n))))
    expect(ledger.depths().hold).toBe(share)
    expect(await failureOf(ledger.hold(holdOf(account, 1n)))).toBe("LedgerBusy")
    await lock.unlock()
    const refused = (await ends).filter((end) => end.status === "rejected")
    expect(refused).toHaveLength(5)
    const [row] = await db.sql`SELECT held_nano FROM tollgate.accounts WHERE id = ${account.account_id}`
    expect(row?.held_nano).toBe(String(share))
  })

  test("D35 a call whose id is older than the process may hold nothing: no sweeper would find it", async () => {
    const hold = holdOf(await db.account(100n), 1n)
    const ledger = await db.ledger()
    expect(await failureOf(ledger.hold(hold))).toBe("LedgerUnavailable")
    expect(await ledger.hold({ ...hold, id: nextId() })).toEqual({ outcome: "held" })
  })

  test("D13 ends that change nothing are counted", async () => {
    const ignored = { count: 0 }
    const ledger = await db.ledger({ events: { endIgnored: () => void ignored.count++ } })
    const hold = holdOf(await db.account(100n), 1n)
    await ledger.hold(hold)
    await Promise.all([1n, 2n, 3n].map((charge) => ledger.end(settled(hold.id, charge))))
    expect(ignored.count).toBe(2)
    await ledger.end(released(hold.id))
    expect(ignored.count).toBe(3)
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "settled", charge_nano: "1" })
  })

  test("a ledger that was stopped holds nothing more, keeps what is ended in its spool, and leaves no connection", async () => {
    const ledger = await ledgerAt(db, proxy.address)
    const hold = holdOf(await db.account(100n), 1n)
    await ledger.hold(hold)
    expect(proxy.connections).toBeGreaterThan(0)
    await ledger.stop()
    expect(await failureOf(ledger.hold(holdOf({ ...hold }, 1n)))).toBe("LedgerUnavailable")
    expect(await failureOf(ledger.standing(hold.key_id))).toBe("LedgerUnavailable")
    await ledger.end(settled(hold.id, 1n))
    expect(ledger.depths().spool).toBe(1)
    await ledger.stop()
  })
})
