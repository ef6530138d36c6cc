import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { attempts } from "../../src/ledger/schema/attempts.ts"
import { credits, ends, holds, terms } from "../../src/ledger/schema/tables.ts"
import { type FeedPlace, printCursor, readCursor } from "../../src/wire/cursor.ts"
import { feedReaches } from "../support/horizon.ts"
import { type AdminHarness, openAdminHarness, plantCall } from "./admin-harness.ts"
import { askEvents, readAll, readEvents, readRest, restoredFrom } from "./feed.ts"

/** D96: the journal as a feed of events that leaves none out. */

const open: AdminHarness[] = []
let admin: AdminHarness
beforeEach(async () => {
  admin = await openAdminHarness()
  open.push(admin)
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

const settled = {
  state: "settled",
  charge_nano: 300n,
  prompt_tokens: 1,
  cached_tokens: 0,
  completion_tokens: 1,
}

async function addCredit(account_id: string): Promise<string> {
  const id = nextId()
  await admin.ask("POST", `/admin/accounts/${account_id}/credits`, { id, amount: "1" })
  return id
}

describe("events", () => {
  test("D96: ends, corrections and credits, each once, as CloudEvents with what the API shows", async () => {
    const account_id = await admin.openAccount()
    const credit_id = await addCredit(account_id)
    const call_id = await plantCall(admin.database, { account_id, ...settled })
    const { lines } = await readEvents(admin)
    expect(lines.map(({ id, type, subject, source }) => ({ id, type, subject, source }))).toEqual([
      {
        id: credit_id,
        type: "tollgate.credit.added",
        subject: account_id,
        source: `/accounts/${account_id}`,
      },
      { id: call_id, type: "tollgate.call.ended", subject: account_id, source: `/accounts/${account_id}` },
    ])
    const call = await admin.ask("GET", `/admin/calls/${call_id}`)
    const credit = await admin.ask("GET", `/admin/accounts/${account_id}/credits`)
    // Without what has become of them since, which would not stay the same.
    const { refunded: _refunded, ...ended } = JSON.parse(call.text)
    expect(lines[1]?.data).toEqual(ended)
    const { left: _left, expired: _expired, voided: _voided, ...added } = JSON.parse(credit.text).data[0]
    expect(lines[0]?.data).toEqual({ ...added, account_id })
  })

  test("D96: the event of an end stays as it was when the call is corrected, which is an event of its own", async () => {
    const account_id = await admin.openAccount()
    const call_id = await plantCall(admin.database, {
      account_id,
      ...settled,
      state: "expired",
      model: "planned",
      corrected: { charge_nano: 1_000n, prompt_tokens: 9, notes: ["settled_late"] },
    })
    const { lines } = await readEvents(admin)
    const told = lines.map(({ id, data }) => [id, data.state, data.charge, data.difference])
    expect(told).toEqual([
      [call_id, "expired", "0.0000003", undefined],
      [`${call_id}/c`, "settled", "0.000001", "0.0000007"],
    ])
  })

  test("D96 `from` and `to` divide the feed by time, also where transactions are in another order", async () => {
    const account_id = await admin.openAccount()
    const now = Date.now()
    const plant = (age_ms: number) => {
      const at = new Date(now - age_ms)
      return plantCall(admin.database, { account_id, ...settled, held_at: at, ended_at: at })
    }
    const ages = [90_000, 46_000, 44_000, 45_500, 44_500, 30_000, 20_000]
    const ids: string[] = []
    for (const age_ms of ages) ids.push(await plant(age_ms))
    const credit_id = await addCredit(account_id)
    const at = new Date(now - 45_000).toISOString()
    const before = await readEvents(admin, { to: at, limit: 2 })
    expect(before.lines.map(({ id }) => id)).toEqual([0, 1].map((place) => ids[place] ?? ""))
    const rest = await askEvents(admin, { to: at, after: before.next ?? "" })
    expect(rest.lines.map(({ id }) => id)).toEqual([ids[3] ?? ""])
    expect((await askEvents(admin, { to: at, after: rest.next ?? "" })).lines).toEqual([])
    const after = await askEvents(admin, { from: at })
    expect(after.lines.map(({ id }) => id)).toEqual([
      ...[2, 4, 5, 6].map((place) => ids[place] ?? ""),
      credit_id,
    ])
  })

  test("D96 a late entry of another kind is before `to`, and no end after it is read", async () => {
    const account_id = await admin.openAccount()
    const hours = (count: number) => new Date(Date.now() - count * 3_600_000)
    const plant = (age: number) =>
      plantCall(admin.database, { account_id, ...settled, held_at: hours(age), ended_at: hours(age) })
    const id = await plant(5)
    await plant(3)
    // Written when the database was back, with the time at which it failed.
    const attempt = { id, ordinal: 0, account_id, upstream: "openai", duration_ms: 1, status: 503 }
    await admin.database.insert(attempts).values({ ...attempt, ended_at: hours(5) })
    const { lines } = await readEvents(admin, { to: hours(4).toISOString() })
    expect(lines.map((line) => line.id)).toEqual([id, `${id}/a0`])
  })

  test("a request that waits is answered by the next event, or after its time with none", async () => {
    const account_id = await admin.openAccount()
    const { next } = await readEvents(admin)
    const nothing = await readEvents(admin, { after: next ?? "", wait: 1 })
    expect([nothing.status, nothing.lines]).toEqual([200, []])
    const waiting = readEvents(admin, { after: nothing.next ?? "", wait: 20 })
    const id = await addCredit(account_id)
    expect((await waiting).lines.map((line) => line.id)).toEqual([id])
  })
})

describe("nothing is left out", () => {
  test("D96: eight writers that commit late and roll back, and a reader", async () => {
    const account_id = await admin.openAccount()
    const [term] = await admin.database.select({ id: terms.id }).from(terms)
    const terms_id = term?.id ?? (await plantTerms(account_id))
    const written: string[] = []
    let writing = true
    const write = async (seed: number) => {
      for (let round = 0; round < 40; round++) {
        const ids = Array.from({ length: 1 + ((seed * 7 + round) % 9) }, () => nextId())
        const credit_id = nextId()
        const stays = (seed + round) % 6 !== 0
        await admin.database
          .transaction(async (transaction) => {
            const own = ids.map((id) => ({ id, account_id, key_id: id, terms_id }))
            await transaction
              .insert(holds)
              .values(
                own.map((hold) => ({ ...hold, gateway_id: account_id, amount_nano: 1n, stream: false })),
              )
            await transaction.insert(ends).values(
              own.map((end) => ({
                ...end,
                charge_nano: 1n,
                freed_nano: 1n,
                outcome: "settled" as const,
                basis: "usage" as const,
              })),
            )
            await transaction.execute(sql`SELECT pg_sleep(${((seed + round) % 5) * 0.004})`)
            await transaction.insert(credits).values({ id: credit_id, account_id, amount_nano: 1n })
            if (!stays) transaction.rollback()
            written.push(...ids, credit_id)
          })
          .catch((error: unknown) => {
            if (stays) throw error
          })
      }
    }
    const writers = Promise.all(Array.from({ length: 8 }, (_, seed) => write(seed))).finally(() => {
      writing = false
    })
    const found: string[] = []
    let next: string | null = null
    while (writing) {
      const { ids, next: reached } = await readAll(admin, next, 50)
      found.push(...ids)
      next = reached
    }
    await writers
    found.push(...(await readAll(admin, next, 50)).ids)
    const planted = new Set(written)
    const own = found.filter((id) => planted.has(id))
    expect(own.toSorted()).toEqual(written.toSorted())
    expect(new Set(found).size).toBe(found.length)
  })

  async function plantTerms(account_id: string): Promise<number> {
    await plantCall(admin.database, { account_id, ...settled })
    const [term] = await admin.database.select({ id: terms.id }).from(terms)
    return term?.id ?? 0
  }

  /** The row of the current epoch as another server would have left it, when all transactions before `xid` had ended. */
  const promote = (xid: string) =>
    admin.database.execute(sql`UPDATE tollgate.feed_epochs SET place = '00000000 1', seen_xid = ${xid}::xid8,
      xid = pg_current_xact_id() WHERE number = (SELECT max(number) FROM tollgate.feed_epochs)`)

  test("D96: after a standby was promoted, a reader that was ahead of it goes back to what both servers had", async () => {
    const account_id = await admin.openAccount()
    const ids = [await addCredit(account_id), await addCredit(account_id)]
    await feedReaches(admin.database)
    const [now] = await admin.database.execute<{ horizon: string }>(
      sql`SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon`,
    )
    ids.push(await addCredit(account_id), await addCredit(account_id))
    const read = await readAll(admin)
    expect(read.ids).toEqual(ids)
    await promote(now?.horizon ?? "")
    const again = await readAll(admin, read.next)
    expect(again.ids).toEqual(ids.slice(2))
    // A reader that was behind reads nothing twice, and nobody does so later.
    expect((await readRest(admin, read.lines[0]?.cursor ?? "")).ids).toEqual(ids.slice(1))
    const later = await addCredit(account_id)
    expect((await readAll(admin, again.next)).ids).toEqual([later])
    await promote("1")
    expect((await readAll(admin, read.next)).ids).toEqual([...ids, later])
  })

  test("D96: a start of the server, perhaps from a copy of its files, begins an epoch; a cursor from after the copy is refused", async () => {
    const account_id = await admin.openAccount()
    const ids = [await addCredit(account_id), await addCredit(account_id)]
    const read = await readAll(admin)
    await admin.database.execute(sql`UPDATE tollgate.feed_epochs SET seen_xid = '1', xid = pg_current_xact_id(),
      place = replace(tollgate.feed_place(), extract(epoch FROM pg_postmaster_start_time())::text, '1')`)
    expect((await readAll(admin, read.next)).ids).toEqual(ids)
    const { next } = await readAll(admin)
    const cursor = readCursor(next ?? "") ?? new Map<string, FeedPlace>()
    const ahead = [...cursor].map(([shard, place]): [string, FeedPlace] => [
      shard,
      { ...place, xid: String(BigInt(place.xid) + 1_000_000n) },
    ])
    const refused = await readEvents(admin, { after: printCursor(new Map(ahead)) })
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("does not know the cursor")])
  })

  test("D96: after a restore, a reader reads what it had not read of the backup, and everything after it", async () => {
    const account_id = await admin.openAccount()
    const ids = [await addCredit(account_id), await addCredit(account_id), await addCredit(account_id)]
    const read = await readAll(admin)
    const restored = await restoredFrom(admin, ["credits"])
    open.push(restored)
    const behind = read.lines[0]?.cursor ?? ""
    expect((await readAll(restored, behind, 1)).ids).toEqual(ids.slice(1))
    const reached = await readRest(restored, read.next)
    expect(reached.ids).toEqual([])
    const later = nextId()
    await restored.ask("POST", `/admin/accounts/${account_id}/credits`, { id: later, amount: "1" })
    expect((await readAll(restored, read.next)).ids).toEqual([later])
    expect((await readRest(restored, reached.next)).ids).toEqual([later])
    expect((await readRest(restored, behind, 1)).ids).toEqual([...ids.slice(1), later])
    expect((await readRest(restored, null, 1)).ids).toEqual([...ids, later])
    // Restored once more: the first restored entries and those since have no common order, so all are sent again.
    const twice = await restoredFrom(restored, ["credits"])
    open.push(twice)
    expect((await readAll(twice, reached.next)).ids).toEqual([later])
    expect((await readRest(twice, read.next)).ids.toSorted()).toEqual([...ids, later].toSorted())
    // What only the lost server knew is said, not skipped.
    const own = await readRest(restored, null)
    const unknown = await askEvents(admin, { after: own.next })
    expect([unknown.status, unknown.text]).toEqual([400, expect.stringContaining("does not know the cursor")])
  })

  test("D96: a cursor from before entries that were archived is refused, a later one is not", async () => {
    const account_id = await admin.openAccount()
    const first = await addCredit(account_id)
    const { lines } = await readEvents(admin)
    await plantCall(admin.database, { account_id, ...settled })
    const read = await readAll(admin)
    await admin.database.execute(sql`UPDATE tollgate.months SET detached_at = now(), last_series = 1,
      last_xid = (SELECT max(xid::text::bigint)::text::xid8 FROM tollgate.ends) WHERE month = (SELECT min(month) FROM tollgate.months)`)
    const refused = await readEvents(admin, { after: lines[0]?.cursor ?? "" })
    expect([refused.status, refused.text]).toEqual([410, expect.stringContaining("archived")])
    expect(first).toBe(lines[0]?.id ?? "")
    const later = await addCredit(account_id)
    expect((await readAll(admin, read.next)).ids).toEqual([later])
    const asked = await readEvents(admin, { from: "2020-01-01" })
    expect(asked.status).toBe(410)
  })
})
