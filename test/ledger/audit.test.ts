import { afterAll, describe, expect, test } from "bun:test"
import type { TransactionSql } from "postgres"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { Violation } from "../../src/ledger/archive/violations.ts"
import type { End } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import {
  type Account,
  checkpointOf,
  falsify,
  holdOf,
  nth,
  OTHER_MODEL,
  openTestDatabase,
  released,
  settled,
  statementsOf,
  writeCheckpoints,
} from "./test-database.ts"

/** D55: the audit recomputes everything from the entries, so that it finds whatever is not as they say. */

/** What the tokens of `settled` cost at the first terms: 2 x 250 + 1 x 25 + 2 x 2,000 nano-USD. */
const COST = 4_525n
const SEEN = { prompt_tokens: 4, cached_tokens: 0, completion_tokens: 0 }
const SEEN_COST = 1_000n

const closing = new AsyncDisposableStack()

const db = await openTestDatabase()
const connection = db.connection()
const gateway_id = await db.gateway()
const { ask, end, expire } = statementsOf(connection, gateway_id)
afterAll(async () => {
  await closing.disposeAsync()
  await db.close()
})

async function held(account: Account, amount_nano = 5_000n) {
  const hold = holdOf(account, amount_nano)
  const [payer] = await db.sql`SELECT is_limited FROM tollgate.accounts WHERE id = ${account.account_id}`
  const result = { outcome: "held", ...(payer?.is_limited && { is_limited: true }) } as const
  expect(await ask(hold)).toEqual([result])
  return hold
}

async function ended(account: Account, endOf: (id: string) => End = (id) => settled(id, COST)) {
  const hold = await held(account)
  await end(endOf(hold.id))
  return hold
}

async function expired(account: Account) {
  const hold = await held(account)
  const seen = checkpointOf(hold.id, SEEN_COST, { basis: "partial", usage: SEEN })
  await writeCheckpoints(connection, gateway_id, seen)
  await expire(hold)
  return hold
}

async function corrected(account: Account) {
  const hold = await expired(account)
  await end(settled(hold.id, COST))
  return hold
}

/** The same is found of entries that are summed up at once, and of those that are summed up slice by slice. */
async function found() {
  const { violations } = await audit(db.database.operators)
  expect((await audit(db.database.operators, { settle_ms: 0 })).violations).toEqual([...violations])
  return violations
}

test("D55 everything that can happen to calls is in order", async () => {
  const account = await db.account(1_000_000n)
  await changeKey(db.database.operators, account.key_id, {
    spending: { limit_nano: 999_999n, period: "day" },
  })
  const plain = await db.account(1_000_000n)
  for (const payer of [account, plain]) {
    await ended(payer)
    await ended(payer, (id) => released(id))
    await ended(payer, (id) =>
      settled(id, 0n, { usage: { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 } }),
    )
    await expired(payer)
    await corrected(payer)
    await held(payer)
    await restoreBatch(connection, gateway_id, [holdOf(payer, 9n)], 300)
  }
  const { violations, accounts, open_holds, checked_at } = await audit(db.database.operators)
  expect(violations).toEqual([])
  expect({ accounts, open_holds }).toEqual({ accounts: 2, open_holds: 4 })
  expect(checked_at).toBeInstanceOf(Date)
})

test("D44 a call is audited at its price of a call, and at sums beyond 2^53", async () => {
  const account = await db.account(2n ** 62n)
  const price = { input_pico: 10n ** 12n, cached_input_pico: 0n, output_pico: 1n, per_call_nano: 7n }
  const [terms_id = 0] = await registerTerms(db.database.operators, [
    { family: "chat", model: "model", upstream: "first", price },
  ])
  const usage = { prompt_tokens: 100_000_000, cached_tokens: 1, completion_tokens: 1 }
  // 99,999,999 tokens at 10^12 pico and one at 1 pico, rounded up once, and the call.
  const charge = 99_999_999n * 10n ** 9n + 1n + 7n
  await ended(account, (id) => settled(id, charge, { terms_id, usage }))
  expect(await found()).toEqual([])
})

test("D42 a wrong key is found behind a thousand whose limits were set while the calls were read", async () => {
  const own = await openTestDatabase()
  closing.defer(() => own.close())
  const account = await own.account(100_000n)
  const made = await own.sql`INSERT INTO tollgate.keys (id, account_id, hash, prefix)
    SELECT n.id, ${account.account_id}, n.id, 'tg' FROM (
      SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid AS id FROM generate_series(1, 1024) n) n RETURNING id`
  const holder = await own.gateway()
  for (let at = 0; at < made.length; at += 128) {
    const payers = made.slice(at, at + 128).map(({ id }) => ({ ...account, key_id: String(id) }))
    await holdBatch(
      own.connection(),
      holder,
      payers.map((payer) => holdOf(payer, 1n)),
      300,
    )
  }
  // The last of all.
  const wrong_id = "ffffffff-ffff-4fff-8fff-ffffffffffff"
  await own.sql`UPDATE tollgate.keys SET id = ${wrong_id} WHERE id = ${account.key_id}`
  // The account says nothing of limits yet, so the audit begins without them.
  await own.sql`UPDATE tollgate.keys SET spend_limit_nano = 10, spend_period = 'month', spent_nano = 1,
    spent_since = date_trunc('month', now(), 'UTC')`
  const { violations } = await audit(own.database.operators, { settle_ms: 0 })
  const wrong = { kind: "spent" as const, ...{ account_id: account.account_id, id: wrong_id } }
  expect(violations).toEqual([{ ...wrong, recorded_nano: 1n, expected_nano: 0n }])
})

test("D55 each account is compared in one snapshot: calls at full speed disturb nothing", async () => {
  const account = await db.account(100_000_000n)
  await changeKey(db.database.operators, account.key_id, {
    spending: { limit_nano: 99_999_999n, period: "day" },
  })
  let over = false
  const calling = [0, 1].map(async () => {
    const own = db.connection()
    while (!over) {
      const holds = [holdOf(account, 5_000n), holdOf(account, 5_000n)]
      await holdBatch(own, gateway_id, holds, 5_000)
      const items = holds.map((hold) => ({ end: settled(hold.id, COST), hold }))
      await endBatch(own, [nth(items, 0)], 5_000)
      await endBatch(own, [nth(items, 1)], 5_000)
    }
  })
  for (let times = 0; times < 30; times++) {
    const settle_ms = times % 2 === 0 ? 60_000 : 200
    expect((await audit(db.database.operators, { settle_ms })).violations).toEqual([])
  }
  over = true
  await Promise.all(calling)
})

/** The last of the file: what they falsify stays. */
describe("D55 the audit finds", () => {
  type Falsification = [
    what: string,
    make: (account: Account) => Promise<{ readonly id: string }>,
    change: (tx: TransactionSql, id: string, account: Account) => Promise<unknown>,
    expected: (id: string, account: Account) => Omit<Violation, "account_id">[],
  ]
  const spentOnly =
    (recorded_nano: bigint, expected_nano: bigint) =>
    (_: string, { key_id }: Account) => [{ kind: "spent" as const, id: key_id, recorded_nano, expected_nano }]
  const START = 100_000n
  const sum = (kind: "balance" | "held", recorded_nano: bigint, expected_nano: bigint) => ({
    ...{ kind, id: null, recorded_nano, expected_nano },
  })

  const falsifications: Falsification[] = [
    [
      "a balance that moved by itself",
      ended,
      (tx, _, { account_id }) =>
        tx`UPDATE tollgate.accounts SET balance_nano = balance_nano + 1 WHERE id = ${account_id}`,
      () => [sum("balance", START - COST + 1n, START - COST)],
    ],
    [
      "a held amount that moved by itself",
      held,
      (tx, _, { account_id }) => tx`UPDATE tollgate.accounts SET held_nano = 0 WHERE id = ${account_id}`,
      () => [sum("held", 0n, 5_000n)],
    ],
    [
      "a credit of another amount",
      ended,
      (tx, _, { account_id }) =>
        tx`UPDATE tollgate.credits SET amount_nano = amount_nano + 5 WHERE account_id = ${account_id}`,
      () => [sum("balance", START - COST, START + 5n - COST)],
    ],
    [
      "a hold that is gone",
      held,
      (tx, id) => tx`DELETE FROM tollgate.holds WHERE id = ${id}`,
      () => [sum("held", 5_000n, 0n)],
    ],
    [
      "a hold of another amount",
      ended,
      (tx, id) => tx`UPDATE tollgate.holds SET amount_nano = 5_001 WHERE id = ${id}`,
      (id) => [sum("held", 0n, 1n), { kind: "entry", id, recorded_nano: 5_000n, expected_nano: 5_001n }],
    ],
    [
      "an end without a hold",
      ended,
      (tx, id) => tx`DELETE FROM tollgate.holds WHERE id = ${id}`,
      (id) => [sum("held", 0n, -5_000n), { kind: "entry", id, recorded_nano: 5_000n, expected_nano: null }],
    ],
    [
      "an end that freed another amount",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET freed_nano = 4_000 WHERE id = ${id}`,
      (id) => [sum("held", 0n, 1_000n), { kind: "entry", id, recorded_nano: 4_000n, expected_nano: 5_000n }],
    ],
    [
      "an end of another key",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET key_id = gen_random_uuid() WHERE id = ${id}`,
      (id) => [{ kind: "entry", id, recorded_nano: 5_000n, expected_nano: 5_000n }],
    ],
    [
      "an end at the terms of another model, which cost the same",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET terms_id = ${OTHER_MODEL} WHERE id = ${id}`,
      (id) => [{ kind: "entry", id, recorded_nano: 5_000n, expected_nano: 5_000n }],
    ],
    [
      "a charge that its tokens do not cost",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET charge_nano = 4_526 WHERE id = ${id}`,
      (id) => [
        sum("balance", START - COST, START - COST - 1n),
        { kind: "charge", id, recorded_nano: COST + 1n, expected_nano: COST },
      ],
    ],
    [
      "tokens that cost another charge",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET completion_tokens = 3 WHERE id = ${id}`,
      (id) => [{ kind: "charge", id, recorded_nano: COST, expected_nano: COST + 2_000n }],
    ],
    [
      "a charge without tokens",
      ended,
      (tx, id) =>
        tx`UPDATE tollgate.ends SET prompt_tokens = NULL, cached_tokens = NULL, completion_tokens = NULL WHERE id = ${id}`,
      (id) => [{ kind: "charge", id, recorded_nano: COST, expected_nano: 0n }],
    ],
    [
      "terms that do not exist",
      ended,
      (tx, id) => tx`UPDATE tollgate.ends SET terms_id = 1_000_000 WHERE id = ${id}`,
      (id) => [{ kind: "charge", id, recorded_nano: COST, expected_nano: null }],
    ],
    [
      "a correction of another difference",
      corrected,
      (tx, id) => tx`UPDATE tollgate.corrections SET difference_nano = 1 WHERE id = ${id}`,
      (id) => [
        sum("balance", START - COST, START - SEEN_COST - 1n),
        { kind: "entry", id, recorded_nano: 1n, expected_nano: COST - SEEN_COST },
      ],
    ],
    [
      "a correction to another charge",
      corrected,
      (tx, id) => tx`UPDATE tollgate.corrections SET charge_nano = charge_nano - 25 WHERE id = ${id}`,
      (id) => [
        { kind: "entry", id, recorded_nano: COST - SEEN_COST, expected_nano: COST - SEEN_COST - 25n },
        { kind: "charge", id, recorded_nano: COST - 25n, expected_nano: COST },
      ],
    ],
    [
      "a correction at the terms of another model, which cost the same",
      corrected,
      (tx, id) => tx`UPDATE tollgate.corrections SET terms_id = ${OTHER_MODEL} WHERE id = ${id}`,
      (id) => [{ kind: "entry", id, recorded_nano: COST - SEEN_COST, expected_nano: COST - SEEN_COST }],
    ],
    [
      "a correction of a call that did not expire",
      corrected,
      (tx, id) => tx`UPDATE tollgate.ends SET outcome = 'settled' WHERE id = ${id}`,
      (id) => [{ kind: "entry", id, recorded_nano: COST - SEEN_COST, expected_nano: null }],
    ],
    [
      "a spending limit that has counted too much",
      limited(ended),
      (tx, _, { key_id }) => tx`UPDATE tollgate.keys SET spent_nano = spent_nano + 3 WHERE id = ${key_id}`,
      spentOnly(COST + 3n, COST),
    ],
    [
      "a spending limit that has missed an open call",
      limited(held),
      (tx, _, { key_id }) => tx`UPDATE tollgate.keys SET spent_nano = 0 WHERE id = ${key_id}`,
      spentOnly(0n, 5_000n),
    ],
    [
      "a spending limit that has missed a correction",
      limited(corrected),
      (tx, _, { key_id }) =>
        tx`UPDATE tollgate.keys SET spent_nano = ${String(SEEN_COST)} WHERE id = ${key_id}`,
      spentOnly(SEEN_COST, COST),
    ],
  ]

  function limited(make: Falsification[1]): Falsification[1] {
    return async (account) => {
      const spending = { limit_nano: 90_000n, period: "month" } as const
      await changeKey(db.database.operators, account.key_id, { spending })
      return make(account)
    }
  }

  test("each of these, and nothing else", async () => {
    const made: { what: string; id: string; account: Account }[] = []
    for (const [what, make] of falsifications) {
      const account = await db.account(START)
      const { id } = await make(account)
      made.push({ what, id, account })
    }
    expect(await found()).toEqual([])
    await falsify(db.sql, async (tx) => {
      for (const [at, [, , change]] of falsifications.entries()) {
        const { id, account } = nth(made, at)
        await change(tx, id, account)
      }
    })
    const told = Map.groupBy(await found(), ({ account_id }) => account_id)
    expect(made.map(({ what, account }) => [what, told.get(account.account_id)])).toEqual(
      falsifications.map(([what, , , expected], at) => {
        const { id, account } = nth(made, at)
        return [what, expected(id, account).map((one) => ({ ...one, account_id: account.account_id }))]
      }),
    )
    expect(told.size).toBe(made.length)
  })

  test("entries of an account that does not exist, also where they sum up to nothing", async () => {
    const { account_id, key_id } = await db.account(START)
    await ended({ account_id, key_id }, (id) => released(id))
    await db.sql`DELETE FROM tollgate.accounts WHERE id = ${account_id}`
    await falsify(db.sql, (tx) => tx`DELETE FROM tollgate.credits WHERE account_id = ${account_id}`)
    const missing = { account_id, id: null, recorded_nano: null, expected_nano: 0n }
    expect((await found()).filter((one) => one.account_id === account_id)).toEqual([
      { kind: "balance", ...missing },
      { kind: "held", ...missing },
    ])
  })

  test("at most 1,000 violations of each kind", async () => {
    const { account_id, key_id } = await db.account(START)
    await falsify(db.sql, async (tx) => {
      await tx`INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, terms_id, outcome, basis)
        SELECT overlay(gen_random_uuid()::text placing '00' from 1)::uuid, ${account_id}, ${key_id}, 0, 0, 1, 'released', 'none' FROM generate_series(1, 1_100)`
    })
    expect((await found()).filter(({ kind }) => kind === "entry")).toHaveLength(1_000)
  })
})
