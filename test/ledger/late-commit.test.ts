import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { changeKey, getKey } from "../../src/ledger/accounts/keys.ts"
import type { DatabaseLedger, DatabaseLedgerOptions } from "../../src/ledger/database-ledger.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import {
  call,
  failureOf,
  HASH,
  holdOf,
  openTestDatabase,
  openTransaction,
  patience,
  settled,
  type TestDatabase,
  violations,
} from "./test-database.ts"

/** D27: a hold whose first attempt commits after it was given up for lost, and is asked again meanwhile. */

let db: TestDatabase

beforeAll(async () => {
  db = await openTestDatabase()
  // A hold of a model `late …` waits at its commit for whoever has the lock of its terms.
  await db.sql.unsafe(`
    CREATE FUNCTION tollgate.commit_late() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
      IF (SELECT model FROM tollgate.terms WHERE id = NEW.terms_id) LIKE 'late %' AND NEW.amount_nano > 0
      THEN PERFORM pg_advisory_xact_lock_shared(NEW.terms_id); END IF;
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tollgate.holds DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION tollgate.commit_late()`)
})
afterAll(() => db.close())
afterEach(async () => {
  expect(await violations(db.sql)).toEqual([])
})

let made = 0

/** Terms under which no hold is committed before `commit` is called. */
async function lateTerms() {
  const price = { input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n }
  const wanted = { family: "chat", model: `late ${++made}`, upstream: "first", price }
  const [terms_id = 0] = await registerTerms(db.database.operators, [wanted])
  const { commit } = await openTransaction(
    db.sql,
    (tx) => tx`SELECT pg_advisory_xact_lock(${terms_id}::bigint)`,
  )
  return { terms_id, commit }
}

/** Waits until statements wait for this: `advisory` at a commit, `transactionid` for a row that another one has. */
async function waiting(event: "advisory" | "transactionid", count = 1): Promise<void> {
  for (;;) {
    const [row] = await db.sql`SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = ${event}`
    if (row?.count === count) return
  }
}

/** A ledger whose connection for calls is made, so that a statement on it is given up after its own deadline. */
async function warmLedger(options: Partial<DatabaseLedgerOptions> = {}): Promise<DatabaseLedger> {
  const ledger = await db.ledger(options)
  const hold = holdOf(await db.account(1n), 1n)
  await ledger.hold(hold)
  await ledger.end(settled(hold.id, 0n))
  return ledger
}

/** A hold of a new account that is asked for, and does not commit before `commit` is called. */
async function lateHold(event: "advisory" | "transactionid" = "advisory") {
  const ledger = await warmLedger()
  const { terms_id, commit } = await lateTerms()
  const hold = holdOf(await db.account(100n), 60n, { terms_id })
  const holding = ledger.hold(hold)
  await waiting(event)
  return { ledger, hold, holding, commit }
}

const outcome = async (holding: Promise<{ outcome: string }>) => {
  const failure = await failureOf(holding)
  return failure === "nothing failed" ? (await holding).outcome : failure
}

async function gatewayOf({ id }: Hold) {
  const [row] = await db.sql`SELECT g.id, g.swept_at IS NOT NULL AS swept FROM tollgate.gateways g
    JOIN tollgate.holds x ON x.gateway_id = g.id WHERE x.id = ${id}`
  return row ?? null
}

describe("D27 a hold that is asked again while its first attempt commits", () => {
  // Alone by the lean statement for one call, and together by that for a batch.
  test.each([1, 2])("is held, although for its own hold nothing is left: %d at once", async (calls) => {
    using _ = patience()
    const ledger = await warmLedger()
    const { terms_id, commit } = await lateTerms()
    const accounts = await Promise.all(Array.from({ length: calls }, () => db.account(100n)))
    const holds = accounts.map((account) => holdOf(account, 60n, { terms_id }))
    const holding = Promise.all(holds.map((hold) => ledger.hold(hold)))
    await waiting("transactionid")
    await commit()
    expect(await holding).toEqual(holds.map(() => ({ outcome: "held" })))
    for (const { id } of holds) {
      await ledger.end(settled(id, 50n))
      expect(await call(db.sql, id)).toMatchObject({ state: "settled", charge_nano: "50" })
    }
  })

  test("D42, D46 is held, although for its own hold nothing is left of what its key may spend", async () => {
    using _ = patience()
    const ledger = await warmLedger()
    const { terms_id, commit } = await lateTerms()
    const account = await db.account(1_000n)
    const spending = { limit_nano: 100n, period: "month" } as const
    await changeKey(db.database.operators, account.key_id, { spending })
    const hold = holdOf(account, 60n, { terms_id })
    const holding = ledger.hold(hold)
    await waiting("transactionid")
    await commit()
    expect(await holding).toEqual({ outcome: "held" })
    await ledger.end(settled(hold.id, 50n))
    expect((await getKey(db.database.operators, account.key_id))?.spending?.spent_nano).toBe(50n)
  })

  test("does not count twice against a neighbour of its account", async () => {
    using _ = patience()
    const { ledger, hold, holding, commit } = await lateHold()
    const neighbour = holdOf({ account_id: hold.account_id, key_id: hold.key_id }, 40n)
    const beside = ledger.hold(neighbour)
    await waiting("transactionid")
    await commit()
    expect(await Promise.all([holding, beside])).toEqual([{ outcome: "held" }, { outcome: "held" }])
    for (const { id } of [hold, neighbour]) await ledger.end(settled(id, 1n))
  })

  test("and is refused, for its key was revoked meanwhile: what comes late is released", async () => {
    using _ = patience()
    const { ledger, hold, holding, commit } = await lateHold()
    await db.sql`UPDATE tollgate.keys SET revoked_at = now() WHERE id = ${hold.key_id}`
    expect(await holding).toEqual({ outcome: "invalid_api_key" })
    await commit()
    await ledger.stop()
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
    expect(await gatewayOf(hold)).toMatchObject({ swept: true })
  })

  test("and is refused, for the money is gone: what has not come yet cannot come any more", async () => {
    using _ = patience()
    const { ledger, hold, holding, commit } = await lateHold()
    const taking = db.sql.begin(async (tx) => {
      await tx`UPDATE tollgate.accounts SET balance_nano = 50 WHERE id = ${hold.account_id}`
      await tx`INSERT INTO tollgate.credits (id, account_id, amount_nano)
        VALUES (${crypto.randomUUID()}, ${hold.account_id}, -50)`
    })
    await waiting("transactionid")
    await db.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event = 'advisory'`
    await taking
    expect(await holding).toEqual({ outcome: "insufficient_balance", available_nano: 50n })
    await ledger.stop()
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
    await commit()
  })

  test("D43 and then no more, for its queue is busy: it is released, and so is its Idempotency-Key", async () => {
    let attempts = 0
    const busy = Promise.withResolvers<string>()
    const ledger = await warmLedger({
      events: {
        // The first attempt is overdue. The second one, by the exact statement for the sake of the Idempotency-Keys, meets
        // it as it commits; the third one waits behind the neighbour.
        statement: (kind) => {
          if (kind === "hold" && ++attempts === 2) busy.resolve(outcome(ledger.hold(neighbour)))
        },
      },
    })
    const [first, second] = [await lateTerms(), await lateTerms()]
    const account = await db.account(1_000n)
    const claiming = (key_hash: string) =>
      holdOf(account, 10n, { terms_id: first.terms_id, idempotency: { key_hash, body_hash: HASH } })
    const [hold, companion] = [claiming("a".repeat(64)), claiming("b".repeat(64))]
    const neighbour = holdOf(await db.account(1_000n), 10n, { terms_id: second.terms_id })
    attempts = 0
    const answers = [hold, companion].map((call) => outcome(ledger.hold(call)))
    await waiting("transactionid")
    await first.commit()
    expect(await Promise.all(answers)).toEqual(["LedgerUnavailable", "LedgerUnavailable"])
    await second.commit()
    expect(await busy.promise).toBe("held")
    await ledger.end(settled(neighbour.id, 1n))
    await ledger.stop()
    for (const { id } of [hold, companion])
      expect(await call(db.sql, id)).toMatchObject({ state: "released", failure: "internal_error" })
    expect(
      await db.sql`SELECT FROM tollgate.idempotency WHERE account_id = ${account.account_id}`,
    ).toHaveLength(0)
  })

  test("D35 under a new row, for its gateway was declared dead meanwhile: it is released", async () => {
    const { ledger, hold, holding, commit } = await lateHold()
    const answer = outcome(holding)
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE dead_at IS NULL`
    await waiting("transactionid")
    await commit()
    expect(await answer).toBe("LedgerUnavailable")
    await ledger.stop()
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "released", failure: "internal_error" })
  })

  test("D35 is no longer asked, for the ledger stops: its gateway's row is not given back", async () => {
    const { ledger, hold, holding, commit } = await lateHold("transactionid")
    const answer = outcome(holding)
    // A ledger that does not answer is not asked to take the row back.
    await ledger.standing(hold.key_id)
    await ledger.stop()
    await commit()
    expect(await answer).toBe("LedgerUnavailable")
    while ((await call(db.sql, hold.id)) === null) {}
    expect(await gatewayOf(hold)).toMatchObject({ swept: false })
  })
})
