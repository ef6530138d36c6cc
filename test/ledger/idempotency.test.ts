import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Answers, forgetIdempotency } from "../../src/ledger/accounts/idempotency.ts"
import type { Connection } from "../../src/ledger/database/connection.ts"
import { Connections } from "../../src/ledger/connections.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { reserveBatch } from "../../src/ledger/journal/hold.ts"
import { type Account, call, holdOf, openBooks, type TestBooks, violations } from "./books.ts"

/** D43: an `Idempotency-Key` is one reservation, on a real Postgres, whoever asks and however many at once. */

let books: TestBooks
let connections: Connection[]
let gateway_id: string

beforeAll(async () => {
  books = await openBooks()
  connections = [1, 2, 3, 4].map(() => books.connection())
  gateway_id = await books.gateway()
})
afterAll(() => books.close())

const reserve = (...holds: Hold[]) =>
  reserveBatch(connections[0] ?? books.connection(), gateway_id, holds, 300)

function under(key: string, account: Account, body = "body", amount_nano = 10n): Hold {
  return holdOf(account, amount_nano, { idempotency: { key_hash: key, body_hash: body } })
}

describe("D43 the same Idempotency-Key of an account", () => {
  test("holds once; the repeat is told which call it is, and whether the body was the same", async () => {
    const account = await books.account(100n)
    const hold = under("k", account)
    expect(await reserve(hold)).toEqual([{ outcome: "held" }])
    expect(await reserve(under("k", account))).toEqual([
      { outcome: "idempotency_key_used", call_id: hold.id },
    ])
    expect(await reserve(under("k", account, "another"))).toEqual([
      { outcome: "idempotency_key_reused", call_id: hold.id },
    ])
    expect(await violations(books.sql)).toEqual([])
  })

  test("is another one for another account, and beside calls without one", async () => {
    const [one, two] = [await books.account(100n), await books.account(100n)]
    const holds = [under("k", one), under("k", two), under("l", one), holdOf(one, 10n), holdOf(one, 10n)]
    expect((await reserve(...holds)).map(({ outcome }) => outcome)).toEqual(Array(5).fill("held"))
  })

  test("asked again with the same id is the same hold: an answer that was lost on the way", async () => {
    const hold = under("k", await books.account(100n))
    await reserve(hold)
    expect(await reserve(hold)).toEqual([{ outcome: "held" }])
  })

  test("takes no room from other calls when it is repeated", async () => {
    const account = await books.account(100n)
    await reserve(under("k", account, "body", 10n))
    const [repeat, other] = await reserve(under("k", account, "body", 50n), holdOf(account, 60n))
    expect([repeat?.outcome, other?.outcome]).toEqual(["idempotency_key_used", "held"])
  })

  test("is not taken by a call that is refused", async () => {
    const account = await books.account(100n)
    expect(await reserve(under("k", account, "body", 101n))).toMatchObject([
      { outcome: "insufficient_balance" },
    ])
    expect(await reserve(under("k", account, "smaller"))).toEqual([{ outcome: "held" }])
  })

  test("is told before the balance and the spending limit, and after the key and its models", async () => {
    const account = await books.account(10n)
    const hold = under("k", account)
    await reserve(hold)
    const used = { outcome: "idempotency_key_used" as const, call_id: hold.id }
    expect(await reserve(under("k", account))).toEqual([used])
    await books.sql`UPDATE tollgate.keys SET spend_limit_nano = 0, spend_period = 'day' WHERE id = ${account.key_id}`
    expect(await reserve(under("k", account))).toEqual([used])
    await books.sql`UPDATE tollgate.keys SET models = '{other}' WHERE id = ${account.key_id}`
    expect(await reserve(under("k", account))).toEqual([{ outcome: "model_not_allowed" }])
    await books.sql`UPDATE tollgate.keys SET suspended_at = now() WHERE id = ${account.key_id}`
    expect(await reserve(under("k", account))).toEqual([{ outcome: "key_suspended" }])
  })

  test("of several in one batch one is asked for, and the others conflict with it", async () => {
    const account = await books.account(100n)
    const holds = [under("k", account), under("k", account), under("k", account, "another")]
    expect(await reserve(...holds)).toEqual([
      { outcome: "held" },
      { outcome: "conflict" },
      { outcome: "conflict" },
    ])
  })

  test("asked for by many gateways at once is held once", async () => {
    const account = await books.account(1_000n)
    const holds = Array.from({ length: 80 }, () => under("k", account))
    const results = await Promise.all(
      holds.map((hold, at) => {
        const connection = connections[at % connections.length] ?? books.connection()
        return reserveBatch(connection, gateway_id, [hold], 5_000)
      }),
    )
    const outcomes = results.flat().map(({ outcome }) => outcome)
    expect(outcomes.filter((outcome) => outcome === "held")).toHaveLength(1)
    expect(new Set(outcomes.filter((outcome) => outcome !== "held"))).toEqual(
      new Set(
        outcomes.includes("conflict") ? ["idempotency_key_used", "conflict"] : ["idempotency_key_used"],
      ),
    )
    const rows = await books.sql`SELECT FROM tollgate.reservations WHERE account_id = ${account.account_id}`
    expect(rows).toHaveLength(1)
    expect(await violations(books.sql)).toEqual([])
  })

  test("through two ledgers of two gateways: one call is held, the other is told of it", async () => {
    const account = await books.account(1_000n)
    const ledgers = [await books.ledger(), await books.ledger()]
    const results = await Promise.all(
      Array.from({ length: 40 }, (_, at) => {
        const ledger = ledgers[at % 2]
        if (ledger === undefined) throw new Error("there is no ledger")
        return ledger.reserve(under("k", account))
      }),
    )
    expect(results.filter(({ outcome }) => outcome === "held")).toHaveLength(1)
    expect(results.filter(({ outcome }) => outcome === "idempotency_key_used")).toHaveLength(39)
  })

  test("stands for 24 hours; then it can be taken anew, once", async () => {
    const account = await books.account(100n)
    const old = under("k", account)
    await reserve(old)
    const age = (by: string) =>
      books.sql`UPDATE tollgate.idempotency SET claimed_at = now() - ${by}::interval WHERE call_id = ${old.id}`
    await age("23 hours 59 minutes")
    expect(await reserve(under("k", account))).toMatchObject([{ outcome: "idempotency_key_used" }])
    await age("24 hours 1 minute")
    const anew = [under("k", account), under("k", account)]
    const results = await Promise.all(
      anew.map((hold, at) => reserveBatch(connections[at] ?? books.connection(), gateway_id, [hold], 5_000)),
    )
    expect(results.flat().filter(({ outcome }) => outcome === "held")).toHaveLength(1)
  })
})

describe("D43 what is kept", () => {
  test("an answer is found until its time is over, and only under its call", async () => {
    const made = new Connections(books.database, () => {})
    const answers = new Answers(made)
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
    await made.end()
  })

  test("what has had its time is removed, and nothing else", async () => {
    const account = await books.account(100n)
    const [old, young] = [under("old", account), under("young", account)]
    await reserve(old, young)
    await books.sql`UPDATE tollgate.idempotency SET claimed_at = now() - interval '25 hours' WHERE call_id = ${old.id}`
    await books.sql`INSERT INTO tollgate.answers VALUES (${old.id}, 'old', now()), (${young.id}, 'young', now() + interval '1 hour')`
    await forgetIdempotency(books.connection())
    const claims =
      await books.sql`SELECT call_id FROM tollgate.idempotency WHERE account_id = ${account.account_id}`
    expect(claims.map(({ call_id }) => call_id)).toEqual([young.id])
    const kept = await books.sql`SELECT body FROM tollgate.answers WHERE call_id IN (${old.id}, ${young.id})`
    expect(kept.map(({ body }) => body)).toEqual(["young"])
    expect(await call(books.sql, old.id)).not.toBeNull()
  })
})
