import { describe, expect, test } from "bun:test"
import { appendFile, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { nextId } from "../../src/id.ts"
import { lineOf, Spool } from "../../src/ledger/queue/spool.ts"
import {
  type Account,
  call,
  filesIn,
  holdOf,
  listening,
  lockAccount,
  RENEWING,
  settled,
  silent,
  spooledEnd,
  testDatabase,
  unheldIn,
  until,
} from "./test-database.ts"

/** D27: what one process has spooled, another one writes into the ledger, once. */

const db = await testDatabase({ audited: true })

describe("what another process left", () => {
  /** A process that held, could not settle, and died. */
  async function left(data_dir: string, charges: readonly bigint[], account?: Account) {
    const payer = account ?? (await db.account(1_000n))
    const ledger = await db.ledger()
    const holds = charges.map(() => holdOf(payer, 100n))
    for (const hold of holds) await ledger.hold(hold)
    const { gateway_id } = (await call(db.sql, holds[0]?.id ?? "")) ?? {}
    await ledger.stop()
    const spool = new Spool(data_dir, gateway_id, silent)
    for (const [at, { id }] of holds.entries()) {
      spool.add(spooledEnd(settled(id, charges[at] ?? 0n), payer.account_id))
    }
    await spool.settled()
    return { gateway_id, account_id: payer.account_id, ids: holds.map(({ id }) => id) }
  }
  const declareDead = (gateway_id: string) =>
    db.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE id = ${gateway_id}`
  const charges = async (ids: readonly string[]) =>
    Promise.all(ids.map(async (id) => (await call(db.sql, id))?.charge_nano))

  test("D27 is in the ledger at the next start; its file goes once its gateway is dead, although its last line is torn", async () => {
    const data_dir = await db.folder()
    const { gateway_id, ids } = await left(data_dir, [7n, 8n])
    await appendFile(join(data_dir, "spool", `${gateway_id}.jsonl`), '{"account_id":')
    const { errors, log } = listening()
    await db.ledger({ data_dir, log, lease: RENEWING })
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges(ids)).toEqual(["7", "8"])
    expect(await filesIn(data_dir)).toHaveLength(1)
    await declareDead(gateway_id)
    await until(async () => (await filesIn(data_dir)).length === 0)
    expect(errors).toEqual([])
  })

  test("is in the ledger before its file goes, although an earlier file of that name and length was there before", async () => {
    const data_dir = await db.folder()
    const account = await db.account(1_000n)
    const { gateway_id, ids } = await left(data_dir, [7n], account)
    const path = join(data_dir, "spool", `${gateway_id}.jsonl`)
    await db.ledger({ data_dir, lease: RENEWING })
    await until(async () => (await charges(ids))[0] === "7")
    const ledger = await db.ledger()
    const later = holdOf(account, 100n)
    await ledger.hold(later)
    await writeFile(join(data_dir, "later"), lineOf(spooledEnd(settled(later.id, 8n), account.account_id)))
    await rename(join(data_dir, "later"), path)
    await declareDead(gateway_id)
    await until(async () => (await filesIn(data_dir)).length === 0)
    expect(await charges([later.id])).toEqual(["8"])
  })

  test("corrects what expiry charged, once, however often it is replayed", async () => {
    const data_dir = await db.folder()
    const { gateway_id, account_id, ids } = await left(data_dir, [7n])
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    const sweeping = await db.ledger({ lease: RENEWING })
    await until(async () => (await call(db.sql, ids[0] ?? ""))?.state === "expired")
    await sweeping.stop()
    // Until both have read the file, which goes with its last line.
    await using lock = await lockAccount(db.sql, account_id)
    const ignored = { count: 0 }
    const replaying = async () => {
      const tried = Promise.withResolvers<void>()
      const statement = (kind: string) => void (kind === "end" && tried.resolve())
      await db.ledger({ data_dir, events: { statement, endIgnored: () => void ignored.count++ } })
      await tried.promise
    }
    await Promise.all([replaying(), replaying()])
    await lock.unlock()
    await until(async () => ignored.count === 1 && (await charges(ids))[0] === "7")
    expect(await call(db.sql, ids[0] ?? "")).toMatchObject({ state: "settled", notes: ["settled_late"] })
  })

  test("and could not be written before the ledger was stopped is no error, and there for the next one", async () => {
    const data_dir = await db.folder()
    const account = await db.account(1_000n)
    const { ids } = await left(data_dir, [7n, 8n], account)
    const { errors, log } = listening()
    await using lock = await lockAccount(db.sql, account.account_id)
    const ending = Promise.withResolvers<void>()
    const statement = (kind: string) => void (kind === "end" && ending.resolve())
    const ledger = await db.ledger({ data_dir, log, events: { statement } })
    await ending.promise
    await ledger.stop()
    expect(errors).toEqual([])
    await lock.unlock()
    await db.ledger({ data_dir })
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges(ids)).toEqual(["7", "8"])
  })

  test("D27 a file with a line of words that this version does not know is kept, and its other lines are applied", async () => {
    const data_dir = await db.folder()
    const { gateway_id, ids } = await left(data_dir, [7n, 8n])
    const path = join(data_dir, "spool", `${gateway_id}.jsonl`)
    const newer = lineOf(spooledEnd(settled(nextId(), 9n))).replace('"completed"', '"paused"')
    await appendFile(path, newer)
    const text = await readFile(path, "utf8")
    const { errors, log } = listening()
    let renewals = 0
    const statement = (kind: string) => void (kind === "lease" && renewals++)
    await db.ledger({ data_dir, log, lease: RENEWING, events: { statement } })
    await declareDead(gateway_id)
    // It is read again a few times.
    const enough = renewals + 8
    await until(() => renewals > enough)
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges(ids)).toEqual(["7", "8"])
    expect(errors).toEqual(["the spool has lines that this version cannot read: the file is kept"])
    expect(await readFile(path, "utf8")).toBe(text)
  })

  test("D27 lines that version 0.1 wrote are applied, at the terms of their holds", async () => {
    const data_dir = await db.folder()
    const { gateway_id, ids, account_id } = await left(data_dir, [7n])
    const { terms_id: _, freed_key_hash: _hash, charge_nano, ...common } = settled(ids[0] ?? "", 6n)
    const closing = { ...common, charge_nano: String(charge_nano), upstream: "second" }
    const path = join(data_dir, "spool", `${gateway_id}.jsonl`)
    await writeFile(path, `${JSON.stringify({ account_id, closing })}\n`)
    await db.ledger({ data_dir, lease: RENEWING })
    await until(async () => (await charges(ids))[0] === "6")
    expect(await call(db.sql, ids[0] ?? "")).toMatchObject({
      state: "settled",
      basis: "usage",
      prompt_tokens: 3,
      duration_ms: 34,
      upstream: "first",
    })
    await declareDead(gateway_id)
    await until(async () => (await filesIn(data_dir)).length === 0)
  })
})

test("D13 an end whose hold is not in the ledger is kept in the spool and logged, and so it is by the next process", async () => {
  const data_dir = await db.folder()
  const own = listening()
  const first = await db.ledger({ data_dir, log: own.log, lease: RENEWING })
  const missing = settled(nextId(), 5n)
  await first.end(missing)
  expect(first.depths().spool).toBe(1)
  expect(own.errors).toEqual(["a settlement has no hold in the ledger: it is kept in the spool"])
  const unheld = { kind: "unheld" as const, id: missing.id, recorded_nano: 5n, expected_nano: null }
  expect(await unheldIn(first)).toMatchObject([unheld])
  await first.stop()
  const [name = ""] = await filesIn(data_dir)
  const path = join(data_dir, "spool", name)
  expect(await readFile(path, "utf8")).toBe(lineOf(spooledEnd(missing, "")))

  const { errors, log } = listening()
  const second = await db.ledger({ data_dir, log, lease: RENEWING })
  await until(() => errors.length > 0)
  expect(await unheldIn(second)).toMatchObject([unheld])
  await second.stop()
  expect(errors).toEqual(["the spool has settlements without a hold: the file is kept"])
  expect(await readFile(path, "utf8")).toBe(lineOf(spooledEnd(missing, "")))
})
