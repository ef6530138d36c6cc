import { describe, expect, test } from "bun:test"
import type { CustomerPriceBody } from "../../src/wire/customer-prices.ts"
import type { AssignedPriceList, PriceListBody } from "../../src/wire/price-lists.ts"
import type { QuoteBody } from "../../src/wire/quote.ts"
import type { OperatorUsageReport, UsageReport } from "../../src/wire/usage-report.ts"
import { falsify } from "../ledger/test-database.ts"
import { ADMIN_TOKEN, CHAT, chat, type TestGateway } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { testPair } from "../support/test-gateway.ts"

/** D100: the prices of one customer, over two gateways on one database. */

/** 10 prompt tokens, 4 of them cached, and 5 of output. */
const ANSWER = json(200, chatCompletion("hello", { usage: usage(10, 5, 4) }))
/** At the configured prices: 6 x 1 + 4 x 0.1 + 5 x 4 USD per 1M tokens. */
const LIST = "0.0000264"

const { provider, gateway, other } = await testPair({ answer: ANSWER })

const setPrice = (account: string, price: object) =>
  gateway.admin<CustomerPriceBody>("POST", `/accounts/${account}/prices`, price)

async function charged(at: TestGateway, key: string): Promise<string | null> {
  const answer = await chat(at, key)
  expect(answer.status).toBe(200)
  await answer.text()
  return (await gateway.receipt(answer, key)).charge
}

test("D110 calls at both gateways cost the price of the account's list, before and after a change of it", async () => {
  const { id: account_id, key } = await gateway.account("1")
  const prices = [{ model: CHAT, prices: { input: "0.8", output: "3.0001" } }, { price_multiplier: "0.9" }]
  const list = await gateway.admin<PriceListBody>("POST", "/price-lists", { name: "Partners", prices })
  const path = `/price-lists/${list.id}`
  const assignment = { account_id, reason: "Contract" }
  const { id } = await gateway.admin<{ id: string }>("POST", `${path}/assignments`, assignment)
  for (const at of [gateway, other]) expect(await charged(at, key)).toBe("0.000020201")
  const change = { prices: [{ model: CHAT, price_multiplier: "2" }], reason: "Terms" }
  expect(await gateway.admin<AssignedPriceList>("PATCH", path, change)).toMatchObject({
    version: 2,
    assigned: 1,
    pending: 0,
  })
  for (const at of [other, gateway]) expect(await charged(at, key)).toBe("0.0000528")
  await gateway.admin("POST", `/assignments/${id}/end`, {})
  for (const at of [other, gateway]) expect(await charged(at, key)).toBe(LIST)
})

describe("D100 prices by kind", () => {
  const prices = { input: "0.8", output: "3.0001" }

  test("are held, charged and shown to the client without a trace of others", async () => {
    const { id: account, key } = await gateway.account("1")
    expect(await charged(gateway, key)).toBe(LIST)
    expect(await setPrice(account, { model: CHAT, prices, reason: "Contract" })).toMatchObject({
      state: "current",
      set_by: "configured",
      reason: "Contract",
    })
    const answer = await chat(gateway, key, { usage: { include: true } })
    // 6 x 0.8 + 4 x 0.1 + 5 x 3.0001 USD per 1M tokens are 20,200.5 nano-USD.
    expect(await answer.json()).toMatchObject({ usage: { cost: 0.000020201 } })
    const receipt = await gateway.receipt(answer, key)
    expect(receipt).toMatchObject({
      charge: "0.000020201",
      prices: { input: "0.8", cached_input: "0.1", output: "3.0001", per_call: "0" },
    })
    expect(receipt.lines.map(({ cost }) => cost)).toEqual(["0.0000048", "0.0000004", "0.0000150005"])
    const own = JSON.stringify([receipt, await gateway.own<UsageReport>("/v1/usage", key)])
    for (const word of [
      LIST,
      "list_prices",
      "price_multiplier",
      "customer_price",
      "profit",
      '"cost":"0.0000264"',
    ])
      expect(own).not.toContain(word)
    expect(await gateway.callOf(answer)).toMatchObject({
      charge: "0.000020201",
      cost: LIST,
      price_multiplier: "1",
      prices: { input: "0.8" },
      list_prices: { input: "1", cached_input: "0.1", output: "4" },
    })
    const { total } = await gateway.admin<OperatorUsageReport>("GET", `/usage?account=${account}&by=model`)
    expect(total).toMatchObject({ charge: "0.000046601", cost: "0.0000528", profit: "-0.000006199" })
  })

  test("are quoted, and refuse what they cannot hold", async () => {
    const { id: account, key } = await gateway.account("0.003")
    await setPrice(account, { model: CHAT, prices })
    const answer = await postJson(`${gateway.url}/v1/quote`, key, chatBody())
    const quote: QuoteBody = JSON.parse(await answer.text())
    // The prompt's bound of 35 tokens and 1,000 of output; 0.004035 at the configured prices.
    expect(quote).toMatchObject({ amount: "0.0030281", refusal: "insufficient_balance" })
    expect(quote.prices).toMatchObject({ input: "0.8", output: "3.0001" })
    const max_tokens = quote.largest_max_tokens ?? 0
    const refused = await chat(gateway, key, { max_tokens: max_tokens + 1 })
    expect(await refused.json()).toMatchObject({ error: { code: "insufficient_balance", max_tokens } })
    expect((await chat(gateway, key, { max_tokens })).status).toBe(200)
  })

  test("of an unknown model or kind, or of nothing, are refused, and so is the past", async () => {
    const { id: account } = await gateway.account("1")
    const refusals = [
      [{ prices }, "model"],
      [{ model: "chat-modle", prices }, "model"],
      [{ model: CHAT, prices: {} }, "prices"],
      [{ model: CHAT, prices: { audio_input: "1" } }, "prices.audio_input"],
      [{ model: CHAT, prices: { input: "0", cached_input: "0", output: "0" } }, "prices"],
      [{ model: CHAT, prices, price_multiplier: "2" }, "prices"],
      [{ price_multiplier: "0.9", from: "2026-01-01T00:00:00Z" }, "from"],
      [{ price_multiplier: "0.9", from: "2099-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z" }, "from"],
    ] as const
    for (const [body, param] of refusals) {
      const answer = await postJson(`${gateway.url}/admin/accounts/${account}/prices`, ADMIN_TOKEN, body)
      expect([answer.status, await answer.json()]).toMatchObject([400, { error: { param } }])
    }
    expect(await gateway.admin("GET", `/accounts/${account}/prices`)).toEqual({ data: [], next: null })
  })
})

test("D100 a gateway sells at no price that a failover has lost", async () => {
  const { id: account, key } = await gateway.account("1")
  const { id } = await setPrice(account, { model: CHAT, prices: { input: "2", output: "8" } })
  for (const at of [gateway, other]) await at.own("/v1/usage", key)
  await falsify(gateway.sql, async (tx) => {
    await tx`DELETE FROM tollgate.customer_prices WHERE id = ${id}`
    await tx`UPDATE tollgate.accounts SET is_limited = false WHERE id = ${account}`
  })
  for (const at of [gateway, other]) expect(await charged(at, key)).toBe(LIST)
})

describe("D100 a price holds by the database's clock, at every gateway", () => {
  test("a call in progress keeps its price, and the next one at either gateway has the new one", async () => {
    const { id: account, key } = await gateway.account("1")
    const price = { model: CHAT, prices: { input: "2", output: "8" } }
    for (const at of [gateway, other]) expect(await charged(at, key)).toBe(LIST)
    let set: CustomerPriceBody | undefined
    provider.replyOnce(async (exchange) => {
      set = await setPrice(account, price)
      await ANSWER(exchange)
    })
    expect(await charged(other, key)).toBe(LIST)
    for (const at of [other, gateway]) expect(await charged(at, key)).toBe("0.0000524")
    provider.replyOnce(async (exchange) => {
      await gateway.admin("POST", `/prices/${set?.id}/end`, { reason: "Cancelled" })
      await ANSWER(exchange)
    })
    expect(await charged(other, key)).toBe("0.0000524")
    for (const at of [gateway, other]) expect(await charged(at, key)).toBe(LIST)
    const { data } = await gateway.admin<{ data: CustomerPriceBody[] }>("GET", `/accounts/${account}/prices`)
    expect(data).toMatchObject([
      { id: set?.id, state: "over", ended: { by: "configured", reason: "Cancelled" } },
    ])
  })

  test("at the instants of from and until, and between prices that follow each other", async () => {
    const { id: account, key } = await gateway.account("1")
    const at = (ms: number) => new Date(start + ms).toISOString()
    const start = Date.now() + 2_000
    await setPrice(account, { model: CHAT, prices: { input: "2", output: "8" }, from: at(0), until: at(300) })
    await setPrice(account, { model: CHAT, price_multiplier: "3", from: at(300), until: at(600) })
    const expected = (held_at: string) => {
      const ms = Date.parse(held_at) - start
      if (ms < 0 || ms >= 600) return LIST
      return ms < 300 ? "0.0000524" : "0.0000792"
    }
    for (let is_over = false; !is_over; ) {
      const answers = await Promise.all([gateway, other, gateway, other].map((one) => chat(one, key)))
      for (const answer of answers) {
        await answer.text()
        const { charge, held_at } = await gateway.receipt(answer, key)
        expect([held_at, charge]).toEqual([held_at, expected(held_at)])
        is_over ||= Date.parse(held_at) >= start + 600
      }
    }
  })

  test("of several, that of the model comes first, then the one that was set last; both before the account's", async () => {
    const { id: account, key } = await gateway.account("1")
    await gateway.admin("PATCH", `/accounts/${account}`, { price_multiplier: "5" })
    expect(await charged(gateway, key)).toBe("0.000132")
    await setPrice(account, { price_multiplier: "2" })
    expect(await charged(other, key)).toBe("0.0000528")
    const first = await setPrice(account, { model: CHAT, price_multiplier: "1" })
    expect(await charged(other, key)).toBe(LIST)
    const last = await setPrice(account, { model: CHAT, price_multiplier: "0.5" })
    await setPrice(account, { price_multiplier: "7" })
    expect(await charged(gateway, key)).toBe("0.0000132")
    await gateway.admin("POST", `/prices/${last.id}/end`, {})
    expect(await charged(other, key)).toBe(LIST)
    await gateway.admin("POST", `/prices/${first.id}/end`, {})
    expect(await charged(other, key)).toBe("0.0001848")
    const { total } = await gateway.admin<OperatorUsageReport>("GET", `/usage?account=${account}&by=model`)
    expect(total).toMatchObject({ cost: "0.0001584", charge: "0.0004356", profit: "0.0002772" })
  })
})
