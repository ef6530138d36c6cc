import { describe, expect, test } from "bun:test"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { forgetIdempotency, keptAnswers } from "../../src/ledger/money/idempotency-claims.ts"
import {
  type Account,
  call,
  checkpointOf,
  holdOf,
  insertHold,
  lockWaiters,
  nth,
  openTransaction,
  released,
  settled,
  testGateway,
  violations,
  writeCheckpoints,
} from "./test-database.ts"

/** D43: an `Idempotency-Key` is one hold, on a real Postgres, whoever asks and however many at once. */

const { db, connection, connections, gateway_id, ask, end, expire } = await testGateway()

function under(key: string, account: Account, body = "body", amount_nano = 10n): Hold {
  return holdOf(account, amount_nano, { idempotency: { key_hash: key, body_hash: body } })
}

const keyed = (key_hash: string) => ({ key_hash, body_hash: "body" })

describe("D43 the same Idempotency-Key of an account", () => {
  test("is another one for another account, and beside calls without one", async () => {
    const [one, two] = [await db.account(100n), await db.account(100n)]
    const holds = [under("k", one), under("k", two), under("l", one), holdOf(one, 10n), holdOf(one, 10n)]
    expect((await ask(...holds)).map(({ outcome }) => outcome)).toEqual(Array(5).fill("held"))
  })

  test("asked again with the same id is the same hold: an answer that was lost on the way", async () => {
    const hold = under("k", await db.account(100n))
    await ask(hold)
    expect(await ask(hold)).toEqual([{ outcome: "held" }])
  })

  test("takes no room from other calls when it is repeated", async () => {
    const account = await db.account(100n)
    await ask(under("k", account, "body", 10n))
    const [repeat, other] = await ask(under("k", account, "body", 50n), holdOf(account, 60n))
    expect([repeat?.outcome, other?.outcome]).toEqual(["idempotency_key_used", "held"])
  })

  test("is told before the balance and the spending limit, and after the key and its models", async () => {
    const account = await db.account(10n)
    const hold = under("k", account)
    await ask(hold)
    const used = { outcome: "idempotency_key_used" as const, call_id: hold.id }
    expect(await ask(under("k", account))).toEqual([used])
    await changeKey(db.database.operators, account.key_id, { spending: { limit_nano: 0n, period: "day" } })
    expect(await ask(under("k", account))).toEqual([used])
    await db.sql`UPDATE tollgate.keys SET models = '{other}' WHERE id = ${account.key_id}`
    expect(await ask(under("k", account))).toEqual([{ outcome: "model_not_allowed" }])
    await db.sql`UPDATE tollgate.keys SET suspended_at = now() WHERE id = ${account.key_id}`
    expect(await ask(under("k", account))).toEqual([{ outcome: "key_suspended" }])
  })

  test("of several in one batch one is asked for, and the others conflict with it", async () => {
    const account = await db.account(100n)
    const holds = [under("k", account), under("k", account), under("k", account, "another")]
    expect(await ask(...holds)).toEqual([
      { outcome: "held" },
      { outcome: "conflict" },
      { outcome: "conflict" },
    ])
  })

  test("stands for 24 hours; then it can be taken anew, once", async () => {
    const account = await db.account(100n)
    const old = under("k", account)
    await ask(old)
    const age = (by: string) =>
      db.sql`UPDATE tollgate.idempotency SET claimed_at = now() - ${by}::interval WHERE call_id = ${old.id}`
    await age("23 hours 59 minutes")
    expect(await ask(under("k", account))).toMatchObject([{ outcome: "idempotency_key_used" }])
    await age("24 hours 1 minute")
    const anew = [under("k", account), under("k", account)]
    const results = await Promise.all(
      anew.map((hold, at) => holdBatch(nth(connections, at), gateway_id, [hold], 5_000)),
    )
    expect(results.flat().filter(({ outcome }) => outcome === "held")).toHaveLength(1)
  })
})

describe("D43 a hold beside one that loses its Idempotency-Key to another gateway", () => {
  /** A hold with this key is written by another gateway and not committed yet; what waits for it, and how to commit. */
  async function claiming(key: string, account: Account) {
    const hold = under(key, account)
    const { commit } = await openTransaction(db.sql, async (tx) => {
      await tx`UPDATE tollgate.accounts SET held_nano = held_nano + 10 WHERE id = ${account.account_id}`
      await insertHold(tx, hold, gateway_id)
      await tx`INSERT INTO tollgate.idempotency (account_id, key_hash, body_hash, call_id)
        VALUES (${account.account_id}, ${key}, 'body', ${hold.id})`
    })
    return { hold, commit }
  }

  test("is weighed again against the spending limit too", async () => {
    const account = await db.account(1_000n)
    const spending = { limit_nano: 100n, period: "day" } as const
    await changeKey(db.database.operators, account.key_id, { spending })
    const { hold, commit } = await claiming("k", account)
    const asked = [under("k", account, "body", 50n), holdOf(account, 60n, { idempotency: keyed("l") })]
    const holding = holdBatch(connection, gateway_id, asked, 5_000)
    await lockWaiters(db.sql, 1)
    await commit()
    expect((await holding).map(({ outcome }) => outcome)).toEqual(["conflict", "conflict"])
    expect(await ask(...asked)).toEqual([
      { outcome: "idempotency_key_used", call_id: hold.id },
      { outcome: "held", is_limited: true },
    ])
  })

  test("through a ledger is not refused for want of balance", async () => {
    const account = await db.account(100n)
    const ledger = await db.ledger()
    const { hold, commit } = await claiming("k", account)
    const repeat = ledger.hold(under("k", account, "body", 50n))
    const neighbour = ledger.hold(holdOf(account, 60n, { idempotency: keyed("other") }))
    await lockWaiters(db.sql, 1)
    await commit()
    expect(await Promise.all([repeat, neighbour])).toEqual([
      { outcome: "idempotency_key_used", call_id: hold.id },
      { outcome: "held" },
    ])
    expect(await violations(db.sql)).toEqual([])
  })
})

describe("D43 an Idempotency-Key is free again", () => {
  const KEY = "a".repeat(64)
  const claims = ({ account_id }: Account) =>
    db.sql`SELECT call_id FROM tollgate.idempotency WHERE account_id = ${account_id}`

  test.each([
    ["a release that says so", true, (id: string) => released(id, { freed_key_hash: KEY })],
    ["a release that does not", false, (id: string) => released(id)],
    ["a settlement", false, (id: string) => settled(id, 5n)],
    [
      "a release that names another key",
      false,
      (id: string) => released(id, { freed_key_hash: "b".repeat(64) }),
    ],
  ] as const)("after %s: %p", async (_, is_free, endOf) => {
    const account = await db.account(100n)
    const hold = under(KEY, account)
    await ask(hold)
    expect(await end(endOf(hold.id))).toEqual(["applied"])
    expect(await claims(account)).toHaveLength(is_free ? 0 : 1)
    const again = under(KEY, account)
    expect(await ask(again)).toEqual([
      is_free ? { outcome: "held" } : { outcome: "idempotency_key_used", call_id: hold.id },
    ])
  })

  test.each([
    ["nothing to charge", 0n, 0],
    ["a charge", 5n, 1],
  ] as const)("after an expiry with %s: %p", async (_, charge_nano, left) => {
    const account = await db.account(100n)
    const hold = under(KEY, account)
    await ask(hold)
    if (charge_nano > 0n) await writeCheckpoints(connection, gateway_id, checkpointOf(hold.id, charge_nano))
    expect(await expire(hold)).toEqual([true])
    expect(await claims(account)).toHaveLength(left)
    expect(await ask(under(KEY, account))).toMatchObject([
      { outcome: left === 0 ? "held" : "idempotency_key_used" },
    ])
    expect(await violations(db.sql)).toEqual([])
  })

  test("by the statement that releases, so that nobody sees the one without the other", async () => {
    const account = await db.account(100n)
    const hold = under(KEY, account)
    await ask(hold)
    const seen: unknown[] = []
    await db.sql.unsafe(`CREATE FUNCTION tollgate.hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER hold_up AFTER INSERT ON tollgate.ends DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.id = '${hold.id}') EXECUTE FUNCTION tollgate.hold_up()`)
    const releasing = await db.sql.begin(async (tx) => {
      await tx`SELECT pg_advisory_xact_lock(4711)`
      const end = released(hold.id, { freed_key_hash: KEY })
      const work = endBatch(nth(connections, 1), [{ end, hold }], 300)
      await lockWaiters(db.sql, 1)
      seen.push(await call(db.sql, hold.id), (await claims(account)).length)
      return [work]
    })
    expect(seen).toMatchObject([{ state: "open" }, 1])
    await Promise.all(releasing)
    expect(await call(db.sql, hold.id)).toMatchObject({ state: "released" })
    expect(await claims(account)).toHaveLength(0)
    await db.sql`DROP TRIGGER hold_up ON tollgate.ends`
  })

  test("not after a release that came too late: the call has ended before", async () => {
    const account = await db.account(100n)
    const hold = under(KEY, account)
    await ask(hold)
    await end(settled(hold.id, 5n))
    expect(await end(released(hold.id, { freed_key_hash: KEY }))).toEqual(["closed"])
    expect(await claims(account)).toHaveLength(1)
  })

  test.each([
    ["takes its key back, so that no repeat is held", "none", true, ["applied"]],
    ["is not charged if a repeat has the key", "settled", true, ["closed", "applied"]],
    ["is charged if the repeat has expired too, which then is not", "expired", true, ["applied", "closed"]],
    ["is charged in any case if its hold is not known", "settled", false, ["applied", "applied"]],
  ] as const)("a settlement after the expiry %s", async (_, repeated, is_known, results) => {
    const account = await db.account(100n)
    const [late, repeat] = [under(KEY, account), under(KEY, account)]
    await ask(late)
    await expire(late)
    if (repeated !== "none") expect(await ask(repeat)).toEqual([{ outcome: "held" }])
    if (repeated === "expired") await expire(repeat)
    const ends = [late, repeat].map((hold) => ({ end: settled(hold.id, 5n), hold: is_known ? hold : null }))
    expect(await endBatch(connection, ends.slice(0, results.length), 300)).toEqual([...results])
    const owner = repeated === "settled" ? repeat : late
    expect(await claims(account)).toMatchObject([{ call_id: owner.id }])
    expect(await ask(under(KEY, account))).toEqual([{ outcome: "idempotency_key_used", call_id: owner.id }])
    expect(await violations(db.sql)).toEqual([])
  })

  test("not when another call has taken it meanwhile", async () => {
    const account = await db.account(100n)
    const old = under(KEY, account)
    await ask(old)
    await db.sql`UPDATE tollgate.idempotency SET claimed_at = now() - interval '25 hours' WHERE call_id = ${old.id}`
    const young = under(KEY, account)
    expect(await ask(young)).toEqual([{ outcome: "held" }])
    await end(released(old.id, { freed_key_hash: KEY }))
    expect((await claims(account)).map(({ call_id }) => call_id)).toEqual([young.id])
  })
})

describe("D43 what is kept", () => {
  test("an answer is found until its time is over, and only under its call", async () => {
    const answers = keptAnswers(db.connection())
    const [one, two] = [crypto.randomUUID(), crypto.randomUUID()]
    const body = '{"text":"\\u0000 snow ☃ \\ud83d"}'
    await Promise.all([
      answers.keep({ call_id: one, body, keep_ms: 60_000 }),
      answers.keep({ call_id: two, body: "{}", keep_ms: 0 }),
    ])
    await answers.keep({ call_id: one, body: "another", keep_ms: 60_000 })
    expect(
      await Promise.all([answers.find(one), answers.find(two), answers.find(crypto.randomUUID())]),
    ).toEqual([body, null, null])
    answers.stop()
  })

  test("what has had its time is removed, and nothing else", async () => {
    const account = await db.account(100n)
    const [old, young] = [under("old", account), under("young", account)]
    await ask(old, young)
    await db.sql`UPDATE tollgate.idempotency SET claimed_at = now() - interval '25 hours' WHERE call_id = ${old.id}`
    await db.sql`INSERT INTO tollgate.answers VALUES (${old.id}, 'old', now()), (${young.id}, 'young', now() + interval '1 hour')`
    await forgetIdempotency(db.connection())
    const claims =
      await db.sql`SELECT call_id FROM tollgate.idempotency WHERE account_id = ${account.account_id}`
    expect(claims.map(({ call_id }) => call_id)).toEqual([young.id])
    const kept = await db.sql`SELECT body FROM tollgate.answers WHERE call_id IN (${old.id}, ${young.id})`
    expect(kept.map(({ body }) => body)).toEqual(["young"])
    expect(await call(db.sql, old.id)).not.toBeNull()
  })
})
