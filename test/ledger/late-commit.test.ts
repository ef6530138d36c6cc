import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { changeKey, getKey } from "../../src/ledger/accounts/keys.ts"
import type { Ledger, LedgerOptions } from "../../src/ledger/ledger.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { codeOf } from "../../src/ledger/database/errors.ts"
import { call, holdOf, openBooks, settled, type TestBooks, violations } from "./books.ts"

/** D27: a reserve whose first attempt commits after it was given up for lost, and is asked again meanwhile. */

let books: TestBooks

beforeAll(async () => {
  books = await openBooks()
  // A hold of a model `late …` waits at its commit for whoever has the lock of that name.
  await books.sql.unsafe(`
    CREATE FUNCTION tollgate.commit_late() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
      PERFORM pg_advisory_xact_lock_shared(hashtext(NEW.model));
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tollgate.reservations DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.state = 'open' AND NEW.model LIKE 'late %') EXECUTE FUNCTION tollgate.commit_late()`)
})
afterAll(() => books.close())
afterEach(async () => {
  expect(await violations(books.sql)).toEqual([])
})

let made = 0

/** A model none of whose holds is committed before `commit` is called. */
async function lateModel() {
  const model = `late ${++made}`
  const locked = Promise.withResolvers<void>()
  const unlocked = Promise.withResolvers<void>()
  const holding = books.sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(hashtext(${model}))`
    locked.resolve()
    await unlocked.promise
  })
  await locked.promise
  const commit = () => {
    unlocked.resolve()
    return holding
  }
  return { model, commit }
}

/** Waits until statements wait for this: `advisory` at a commit, `transactionid` for a row that another one has. */
async function waiting(event: "advisory" | "transactionid", count = 1): Promise<void> {
  for (;;) {
    const [row] = await books.sql`SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = ${event}`
    if (row?.count === count) return
  }
}

/** A ledger whose connections are made, so that a statement of theirs is given up after its own deadline. */
async function warmLedger(options: Partial<LedgerOptions> = {}): Promise<Ledger> {
  const ledger = await books.ledger(options)
  for (const lane of [0, 1, 2, 3]) {
    const hold = holdOf(await books.account(1n, lane), 1n)
    await ledger.reserve(hold)
    await ledger.close(settled(hold.id, 0n))
  }
  return ledger
}

const outcome = (reserving: Promise<{ outcome: string }>) =>
  reserving.then(
    (result) => result.outcome,
    (error: unknown) => codeOf(error),
  )

async function gatewayOf({ id }: Hold) {
  const [row] = await books.sql`SELECT g.id, g.swept_at IS NOT NULL AS swept FROM tollgate.gateways g
    JOIN tollgate.reservations x ON x.gateway_id = g.id WHERE x.id = ${id}`
  return row ?? null
}

describe("D27 a reserve that is asked again while its first attempt commits", () => {
  // Alone by the short statement, and together by that of a batch.
  test.each([1, 2])("is held, although for its own hold nothing is left: %d at once", async (calls) => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const accounts = await Promise.all(Array.from({ length: calls }, () => books.account(100n, 1)))
    const holds = accounts.map((account) => holdOf(account, 60n, { model }))
    const reserving = Promise.all(holds.map((hold) => ledger.reserve(hold)))
    await waiting("transactionid")
    await commit()
    expect(await reserving).toEqual(holds.map(() => ({ outcome: "held" })))
    for (const { id } of holds) {
      await ledger.close(settled(id, 50n))
      expect(await call(books.sql, id)).toMatchObject({ state: "settled", charge_nano: "50" })
    }
  })

  test("D42, D46 is held, although for its own hold nothing is left of what its key may spend", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const account = await books.account(1_000n, 1)
    const spending = { limit_nano: 100n, period: "month" } as const
    await changeKey(books.database.operators, account.key_id, { spending })
    const hold = holdOf(account, 60n, { model })
    const reserving = ledger.reserve(hold)
    await waiting("transactionid")
    await commit()
    expect(await reserving).toEqual({ outcome: "held" })
    await ledger.close(settled(hold.id, 50n))
    expect((await getKey(books.database.operators, account.key_id))?.spending?.spent_nano).toBe(50n)
  })

  test("does not count twice against a neighbour of its account", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const account = await books.account(100n)
    const hold = holdOf(account, 30n, { model })
    const neighbour = holdOf(account, 60n)
    const reserving = ledger.reserve(hold)
    await waiting("advisory")
    const beside = ledger.reserve(neighbour)
    await waiting("transactionid")
    await commit()
    expect(await Promise.all([reserving, beside])).toEqual([{ outcome: "held" }, { outcome: "held" }])
    for (const { id } of [hold, neighbour]) await ledger.close(settled(id, 1n))
  })

  test("and is refused, for its key was revoked meanwhile: what comes late is released", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const hold = holdOf(await books.account(100n), 60n, { model })
    const reserving = ledger.reserve(hold)
    await waiting("advisory")
    await books.sql`UPDATE tollgate.keys SET revoked_at = now() WHERE id = ${hold.key_id}`
    expect(await reserving).toEqual({ outcome: "invalid_api_key" })
    await commit()
    await ledger.stop()
    expect(await call(books.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
    expect(await gatewayOf(hold)).toMatchObject({ swept: true })
  })

  test("and is refused, for the money is gone: what has not come yet cannot come any more", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const account = await books.account(100n)
    const hold = holdOf(account, 60n, { model })
    const reserving = ledger.reserve(hold)
    await waiting("advisory")
    const taking = books.sql.begin(async (tx) => {
      await tx`UPDATE tollgate.accounts SET balance_nano = 50 WHERE id = ${account.account_id}`
      await tx`INSERT INTO tollgate.credits (id, account_id, amount_nano)
        VALUES (${crypto.randomUUID()}, ${account.account_id}, -50)`
    })
    await waiting("transactionid")
    await books.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event = 'advisory'`
    await taking
    expect(await reserving).toEqual({ outcome: "insufficient_balance", available_nano: 50n })
    await ledger.stop()
    expect(await call(books.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
    await commit()
  })

  test("and then no more, for its lane is busy: it is released", async () => {
    let reserves = 0
    const busy = Promise.withResolvers<string>()
    const ledger = await warmLedger({
      events: {
        // The first attempt is overdue, the second one meets it as it commits; the third one waits behind the neighbour.
        // They are two calls, for one alone would be asked about again at once.
        statement: (kind) => {
          if (kind === "reserve" && ++reserves === 2) busy.resolve(outcome(ledger.reserve(neighbour)))
        },
      },
    })
    const [first, second] = [await lateModel(), await lateModel()]
    const account = await books.account(1_000n, 1)
    const hold = holdOf(account, 10n, { model: first.model })
    const companion = holdOf(account, 10n, { model: first.model })
    const neighbour = holdOf(await books.account(1_000n, 1), 10n, { model: second.model })
    reserves = 0
    const answers = [hold, companion].map((call) => outcome(ledger.reserve(call)))
    await waiting("transactionid")
    await first.commit()
    expect(await Promise.all(answers)).toEqual(["ledger_unavailable", "ledger_unavailable"])
    await second.commit()
    expect(await busy.promise).toBe("held")
    await ledger.close(settled(neighbour.id, 1n))
    await ledger.stop()
    for (const { id } of [hold, companion])
      expect(await call(books.sql, id)).toMatchObject({ state: "released", failure: "internal_error" })
  })

  test("D35 under a new row, for its gateway was declared dead meanwhile: it is released", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const hold = holdOf(await books.account(100n), 60n, { model })
    const answer = outcome(ledger.reserve(hold))
    await waiting("advisory")
    await books.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE dead_at IS NULL`
    await waiting("transactionid")
    await commit()
    expect(await answer).toBe("ledger_unavailable")
    await ledger.stop()
    expect(await call(books.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
  })

  test("D35 is no longer asked, for the books stop: its gateway's row is not given back", async () => {
    const ledger = await warmLedger()
    const { model, commit } = await lateModel()
    const hold = holdOf(await books.account(100n), 60n, { model })
    const answer = outcome(ledger.reserve(hold))
    await waiting("transactionid")
    // Books that do not answer are not asked to take the row back.
    await ledger.standing(hold.key_id)
    await ledger.stop()
    await commit()
    expect(await answer).toBe("ledger_unavailable")
    while ((await call(books.sql, hold.id)) === null) {}
    expect(await gatewayOf(hold)).toMatchObject({ swept: false })
  })
})
