import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import type { Checkpoint, Hold } from "../../src/ledger/entries.ts"
import { checkpointsOn } from "../../src/ledger/money/checkpoints.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { takes } from "../support/fair-clock.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  call,
  checkpointOf,
  failureOf,
  holdOf,
  LONG_LEASE,
  lockAccount,
  nth,
  settled,
  sweepOnce,
  testDatabase,
  until,
  writeCheckpoints,
} from "./test-database.ts"

/** D57: what expiry would charge a running call is in the database while it runs, and gone when it has ended. */

const db = await testDatabase({ audited: true })

async function written(gateway_id: string): Promise<Record<string, bigint>> {
  const rows = await db.sql`SELECT id, charge_nano FROM tollgate.checkpoints WHERE gateway_id = ${gateway_id}`
  return Object.fromEntries(rows.map((row) => [String(row.id), BigInt(row.charge_nano)]))
}

const NONE_OPEN = () => false

/** A writer of checkpoints, and how many rows each of its statements wrote. */
function writer(isOpen: (id: string) => boolean = NONE_OPEN) {
  const gateway_id = nextId()
  const sizes: number[] = []
  const connection = db.database.connection(({ size }) => void sizes.push(size))
  const checkpoints = checkpointsOn(connection, () => gateway_id, isOpen)
  const write = async (...running: readonly Checkpoint[]) => {
    sizes.length = 0
    await checkpoints.write(running)
    return [...sizes]
  }
  return { gateway_id, write, forget: () => checkpoints.forgetWritten(), end: () => connection.end() }
}

describe("D57 checkpoints", () => {
  test("are written when they have changed, and not when they have not; an idle gateway sends nothing", async () => {
    const { gateway_id, write, end } = writer()
    const [a, b] = [nextId(), nextId()]
    expect(await write()).toEqual([])
    expect(await write(checkpointOf(a, 1n), checkpointOf(b, 2n))).toEqual([2])
    expect(await write(checkpointOf(a, 1n), checkpointOf(b, 2n))).toEqual([])
    expect(await write(checkpointOf(a, 1n), checkpointOf(b, 3n))).toEqual([1])
    expect(await written(gateway_id)).toEqual({ [a]: 1n, [b]: 3n })
    await end()
  })

  test("are removed when their calls have ended, beside what is written", async () => {
    const { gateway_id, write, end } = writer()
    const [a, b, c] = [nextId(), nextId(), nextId()]
    await write(checkpointOf(a, 1n), checkpointOf(b, 2n))
    expect(await write(checkpointOf(b, 2n), checkpointOf(c, 4n))).toEqual([1])
    expect(await written(gateway_id)).toEqual({ [b]: 2n, [c]: 4n })
    expect(await write()).toEqual([0])
    expect(await written(gateway_id)).toEqual({})
    expect(await write()).toEqual([])
    await end()
  })

  test("stay until the end is in the ledger; after a failover those of running calls are written again", async () => {
    const open = new Set<string>()
    const { gateway_id, write, forget, end } = writer((id) => open.has(id))
    const [a, b] = [nextId(), nextId()]
    open.add(a).add(b)
    await write(checkpointOf(a, 1n), checkpointOf(b, 2n))
    expect(await write(checkpointOf(b, 2n))).toEqual([])
    forget()
    expect(await write(checkpointOf(b, 2n))).toEqual([1])
    expect(await written(gateway_id)).toEqual({ [a]: 1n, [b]: 2n })
    open.clear()
    expect(await write(checkpointOf(b, 2n))).toEqual([0])
    expect(await written(gateway_id)).toEqual({ [b]: 2n })
    await end()
  })

  test("of more calls than one statement takes are all written, and all removed", async () => {
    const { gateway_id, write, end } = writer()
    const many = Array.from({ length: 1_203 }, (_, at) => checkpointOf(nextId(), BigInt(at)))
    expect(await write(...many)).toEqual([500, 500, 203])
    expect(Object.keys(await written(gateway_id))).toHaveLength(1_203)
    await write(nth(many, 7))
    expect(await written(gateway_id)).toEqual({ [nth(many, 7).id]: 7n })
    await end()
  })

  test("that could not be written are written the next time, and those of ended calls are removed then", async () => {
    const proxy = await DatabaseProxy.start(db.address)
    const gateway_id = nextId()
    const checkpoints = checkpointsOn(db.connection(proxy.address), () => gateway_id, NONE_OPEN)
    const [a, b] = [nextId(), nextId()]
    await checkpoints.write([checkpointOf(a, 1n)])
    proxy.refuse()
    expect(await failureOf(checkpoints.write([checkpointOf(b, 2n)]))).not.toBe("nothing failed")
    proxy.admit()
    await checkpoints.write([checkpointOf(b, 2n)])
    expect(await written(gateway_id)).toEqual({ [b]: 2n })
    await proxy.stop()
  })
})

describe("D57 the ledger of a process", () => {
  /** A ledger, and the checkpoints of its running calls, which it asks for. */
  async function running(lease = LONG_LEASE) {
    const current = new Map<string, Checkpoint>()
    const ledger = await db.ledger({ lease, checkpoints: () => [...current.values()] })
    const account = await db.account(1_000n)
    const start = async () => {
      const hold = holdOf(account, 100n)
      await ledger.hold(hold)
      return hold
    }
    const set = ({ id }: Hold, charge_nano: bigint) => current.set(id, checkpointOf(id, charge_nano))
    return { ledger, current, start, set }
  }
  const charged = async ({ id }: Hold) => {
    const [row] = await db.sql`SELECT charge_nano FROM tollgate.checkpoints WHERE id = ${id}`
    return row === undefined ? null : Number(row.charge_nano)
  }

  test("writes them within a second of the first output, whenever the lease is renewed, and each second anew", async () => {
    const { ledger, current, start, set } = await running()
    const hold = await start()
    for (const charge of [6, 7]) {
      set(hold, BigInt(charge))
      await takes(
        0,
        1_050,
        until(async () => (await charged(hold)) === charge),
      )
    }
    current.delete(hold.id)
    await ledger.end(settled(hold.id, 8n))
    await takes(
      0,
      1_050,
      until(async () => (await charged(hold)) === null),
    )
  })

  test("D27 keeps one of a call that has ended while its settlement waits for the account", async () => {
    const { ledger, current, start, set } = await running()
    const [hold, other] = [await start(), await start()]
    set(hold, 5n)
    await until(async () => (await charged(hold)) === 5)
    await using lock = await lockAccount(db.sql, hold.account_id)
    current.clear()
    const ending = ledger.end(settled(hold.id, 8n))
    for (const charge of [1, 2]) {
      set(other, BigInt(charge))
      await until(async () => (await charged(other)) === charge)
    }
    expect(await charged(hold)).toBe(5)
    await lock.unlock()
    await ending
    await until(async () => (await charged(hold)) === null)
    await ledger.end(settled(other.id, 8n))
  })

  test("leaves none behind when it stops with nothing open", async () => {
    const { ledger, current, start, set } = await running()
    const hold = await start()
    set(hold, 5n)
    await until(async () => (await charged(hold)) === 5)
    current.clear()
    await ledger.end(settled(hold.id, 8n))
    const { gateway_id } = (await call(db.sql, hold.id)) ?? {}
    await ledger.stop()
    expect(await written(gateway_id)).toEqual({})
    const [row] =
      await db.sql`SELECT swept_at IS NOT NULL AS swept FROM tollgate.gateways WHERE id = ${gateway_id}`
    expect(row?.swept).toBe(true)
  })

  test("leaves them to the sweeper when it stops with a call open: expiry charges the last one, and none is left", async () => {
    const { ledger, start, set } = await running()
    const [hold, quiet] = [await start(), await start()]
    set(hold, 5n)
    await until(async () => (await charged(hold)) === 5)
    set(hold, 6n)
    await until(async () => (await charged(hold)) === 6)
    const { gateway_id } = (await call(db.sql, hold.id)) ?? {}
    await ledger.stop()
    expect(await written(gateway_id)).toEqual({ [hold.id]: 6n })
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() - interval '1 minute' WHERE id = ${gateway_id}`
    await sweepOnce(db.connection())
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "expired", charge_nano: "6" })
    expect(await call(db.sql, quiet.id)).toMatchObject({ state: "expired", charge_nano: "0" })
    expect(await written(gateway_id)).toEqual({})
  })

  test("sweeps away nothing of a gateway that lives", async () => {
    const living_id = await db.gateway()
    const dead_id = await db.gateway()
    const account = await db.account(1_000n)
    const connection = db.connection()
    const holds = [holdOf(account, 10n), holdOf(account, 10n)]
    for (const [at, gateway_id] of [living_id, dead_id].entries()) {
      await holdBatch(connection, gateway_id, [nth(holds, at)], 300)
      await writeCheckpoints(connection, gateway_id, checkpointOf(nth(holds, at).id, 3n))
    }
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`
    await sweepOnce(connection)
    expect(await written(dead_id)).toEqual({})
    expect(await written(living_id)).toEqual({ [nth(holds, 0).id]: 3n })
  })
})
