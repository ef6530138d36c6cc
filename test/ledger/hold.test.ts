import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import type { HoldAttempt } from "../../src/ledger/money/hold-exact.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { call, falsify, holdOf, keyOf, testGateway, violations } from "./test-database.ts"

/** The holding statements, on a real Postgres: what they admit, what they refuse, and why. */

const { db, connection, gateway_id, ask, outcomes } = await testGateway()

describe("what is refused, by the holding statement itself (D26), the first fault in the order of D30", () => {
  const PAST = "now() - interval '1 second'"
  const FUTURE = "now() + interval '1 hour'"
  const rows: [name: string, key: string, balance_nano: bigint, outcome: HoldAttempt["outcome"]][] = [
    ["D26 a key that may do everything", "name = 'k'", 100n, "held"],
    ["D26 a key limited to this model", "models = ARRAY['other', 'model']", 100n, "held"],
    ["D26 a key that expires later", `expires_at = ${FUTURE}`, 100n, "held"],
    ["D26 a revoked key", `revoked_at = ${PAST}`, 100n, "invalid_api_key"],
    ["D26 an expired key", `expires_at = ${PAST}`, 100n, "invalid_api_key"],
    ["D26 a key that expires at this moment", "expires_at = now()", 100n, "invalid_api_key"],
    ["D26 a key limited to another model", "models = ARRAY['other']", 100n, "model_not_allowed"],
    ["D19 a model's name in another case", "models = ARRAY['Model']", 100n, "model_not_allowed"],
    ["D26 a key limited to no model at all", "models = '{}'", 100n, "model_not_allowed"],
    ["D42 a suspended key", `suspended_at = ${PAST}`, 100n, "key_suspended"],
    ["D42 suspended and of another model", `suspended_at = ${PAST}, models = '{}'`, 0n, "key_suspended"],
    ["D42 suspended and revoked", `suspended_at = ${PAST}, revoked_at = ${PAST}`, 0n, "invalid_api_key"],
    ["D12 one nano too much", "name = 'k'", 99n, "insufficient_balance"],
    ["D11 a balance below zero", "name = 'k'", -1n, "insufficient_balance"],
    [
      "D30 revoked and of another model",
      `revoked_at = ${PAST}, models = ARRAY['other']`,
      0n,
      "invalid_api_key",
    ],
    ["D30 of another model and without money", "models = ARRAY['other']", 0n, "model_not_allowed"],
    ["D30 revoked and without money", `revoked_at = ${PAST}`, 0n, "invalid_api_key"],
    ["D26 a key of another account", "account_id = gen_random_uuid()", 100n, "invalid_api_key"],
  ]
  test.each(rows)("%s", async (_, change, balance_nano, outcome) => {
    const account = await db.account(balance_nano)
    await db.sql.unsafe(`UPDATE tollgate.keys SET ${change} WHERE id = '${account.key_id}'`)
    const asked = holdOf(account, 100n)
    expect(await outcomes(asked)).toEqual([outcome])
    expect((await call(db.sql, asked.id)) !== null).toBe(outcome === "held")
    expect(await violations(db.sql, { overdrawn: true })).toEqual([])
  })

  test("D42 a suspended account, alone and in a batch with another one", async () => {
    const [suspended, other] = [await db.account(100n), await db.account(100n)]
    await db.sql`UPDATE tollgate.accounts SET suspended_at = now() WHERE id = ${suspended.account_id}`
    expect(await outcomes(holdOf(suspended, 1n))).toEqual(["account_suspended"])
    expect(await outcomes(holdOf(suspended, 101n), holdOf(other, 1n))).toEqual(["account_suspended", "held"])
    await db.sql`UPDATE tollgate.accounts SET suspended_at = NULL WHERE id = ${suspended.account_id}`
    expect(await outcomes(holdOf(suspended, 1n))).toEqual(["held"])
  })

  test("a key that is not in the ledger", async () => {
    const { account_id } = await db.account(100n)
    expect(await outcomes(holdOf({ account_id, key_id: crypto.randomUUID() }, 1n))).toEqual([
      "invalid_api_key",
    ])
  })

  test("an account that is not in the ledger, though its key is", async () => {
    const account = await db.account(100n)
    await db.sql`DELETE FROM tollgate.accounts WHERE id = ${account.account_id}`
    expect(await outcomes(holdOf(account, 1n))).toEqual(["invalid_api_key"])
    await falsify(db.sql, (tx) => tx`DELETE FROM tollgate.credits WHERE account_id = ${account.account_id}`)
  })

  test("the refused take no part in what the others may have", async () => {
    const account = await db.account(10n)
    const revoked = await keyOf(db.sql, account, "revoked_at = now()")
    const limited = await keyOf(db.sql, account, "models = ARRAY['other']")
    expect(await outcomes(holdOf(revoked, 1n), holdOf(limited, 2n), holdOf(account, 10n))).toEqual([
      "invalid_api_key",
      "model_not_allowed",
      "held",
    ])
  })
})

describe("what is held", () => {
  test("the row says everything the call was admitted at", async () => {
    const account = await db.account(2n ** 62n)
    const model = 'quote " backslash \\ snow ☃ {a,b}'
    const price = { input_pico: 1n, cached_input_pico: 0n, output_pico: 999_999_999_999n, per_call_nano: 7n }
    const wanted = [{ family: "chat", model, upstream: "first", price }]
    const [terms_id = 0] = await registerTerms(db.database.operators, wanted)
    const one = holdOf(account, 2n ** 53n + 1n, { terms_id })
    const several = [holdOf(account, 1n, { terms_id, stream: false }), holdOf(account, 2n)]
    expect(await outcomes(one)).toEqual(["held"])
    expect(await outcomes(...several)).toEqual(["held", "held"])
    const rows = await Promise.all(several.map(({ id }) => call(db.sql, id)))
    expect(rows).toMatchObject([
      { amount_nano: "1", stream: false, model },
      { amount_nano: "2", stream: true, model: "model" },
    ])
    expect(await call(db.sql, one.id)).toMatchObject({
      account_id: account.account_id,
      key_id: account.key_id,
      gateway_id,
      amount_nano: "9007199254740993",
      charge_nano: null,
      input_pico: "1",
      cached_input_pico: "0",
      output_pico: "999999999999",
      per_call_nano: "7",
      stream: true,
      state: "open",
      model,
      family: "chat",
      upstream: "first",
      ended_at: null,
      held_at: expect.any(Date),
    })
  })

  test("the largest amount there is does not overflow: it is refused", async () => {
    const account = await db.account(5n)
    const most = 2n ** 63n - 1n
    expect(await outcomes(holdOf(account, most), holdOf(account, most), holdOf(account, 5n))).toEqual([
      "insufficient_balance",
      "insufficient_balance",
      "held",
    ])
  })

  test("D27 the same id is closed to another amount, another account or another gateway", async () => {
    const account = await db.account(100n)
    const hold = holdOf(account, 60n)
    await ask(hold)
    const elsewhere = { ...hold, ...(await db.account(100n)) }
    expect(await outcomes({ ...hold, amount_nano: 1n })).toEqual(["closed"])
    expect(await outcomes(elsewhere)).toEqual(["closed"])
    const [result] = await holdBatch(connection, await db.gateway(), [hold], 300)
    expect(result).toEqual({ outcome: "closed" })
  })

  test("D35 nothing is held under the row of a gateway that was declared dead, or that does not exist", async () => {
    const dead_id = await db.gateway()
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`
    for (const gone_id of [dead_id, nextId()]) {
      const hold = holdOf(await db.account(100n), 1n)
      const [result] = await holdBatch(connection, gone_id, [hold], 300)
      expect(result).toEqual({ outcome: "gateway_dead", gateway_id: gone_id })
      expect(await call(db.sql, hold.id)).toBeNull()
    }
  })
})
