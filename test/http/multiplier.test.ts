import { describe, expect, test } from "bun:test"
import type { AccountBody } from "../../src/wire/admin.ts"
import type { QuoteBody } from "../../src/wire/quote.ts"
import type { OperatorUsageReport, UsageReport } from "../../src/wire/usage-report.ts"
import { chat } from "../support/gateway.ts"
import { chatCompletion, chatWords, HELLO, json, sse, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { testGateway } from "../support/test-gateway.ts"
import { thrown } from "../support/thrown.ts"

/** D69: what an account with a price multiplier holds, is charged and is shown. */

const { provider, gateway } = await testGateway()

async function accountAt(price_multiplier: string, balance = "1") {
  const made = await gateway.account(balance)
  const changed = await gateway.admin<AccountBody>("PATCH", `/accounts/${made.id}`, { price_multiplier })
  expect(changed).toMatchObject({ price_multiplier })
  return made
}

describe("D69 an account with a price multiplier of 1.2345", () => {
  /** 6 x 1 + 4 x 0.1 + 5 x 4 USD per 1M tokens are 26,400 nano-USD, and 32,590.8 with the price multiplier. */
  const charge = "0.000032591"

  test("holds, is charged and is shown its cost times that, in one sum", async () => {
    const { id: account_id, key } = await accountAt("1.2345")
    provider.replyOnce(json(200, chatCompletion("hello", { usage: usage(10, 5, 4) })))
    const answer = await chat(gateway, key, { usage: { include: true } })
    expect(await answer.json()).toMatchObject({ usage: { cost: Number(charge) } })
    const receipt = await gateway.receipt(answer, key)
    // 4,035,000 nano-USD at a price multiplier of 1.
    expect(receipt).toMatchObject({
      held: "0.004981208",
      charge,
      released: "0.004948617",
      prices: { input: "1.2345", cached_input: "0.12345", output: "4.938", per_call: "0" },
    })
    // Their sum is 0.0000325908, rounded up once.
    expect(receipt.lines.map(({ cost }) => cost)).toEqual(["0.000007407", "0.0000004938", "0.00002469"])
    expect(receipt).not.toHaveProperty("price_multiplier")
    await gateway.reload({ receipts: { show_price_multiplier: true } })
    const open = await gateway.receipt(answer, key)
    await gateway.reload({})
    expect(open).toMatchObject({ charge, price_multiplier: "1.2345", prices: { input: "1", output: "4" } })
    expect(open.lines.map(({ cost }) => cost)).toEqual(["0.000006", "0.0000004", "0.00002"])
    expect(await gateway.callOf(answer)).toMatchObject({
      charge,
      cost: "0.0000264",
      price_multiplier: "1.2345",
    })
    expect(await gateway.balance(account_id)).toMatchObject({ balance: "0.999967409", held: "0" })
  })

  test("as a stream, whose estimate stays within what was held", async () => {
    const { key } = await accountAt("1.2345")
    provider.replyOnce(sse(chatWords("x".repeat(40_000)), { usage: null }))
    const answer = await chat(gateway, key, { stream: true, max_tokens: 10 })
    await answer.text()
    const receipt = await gateway.receipt(answer, key)
    expect(receipt).toMatchObject({ basis: "estimate", overage: "0" })
    // The next token would not fit: 4,000 nano-USD times the price multiplier.
    expect(Number(receipt.held) - Number(receipt.charge)).toBeLessThan(0.000004938)
  })

  test("is quoted and refused with it, and what would fit is held", async () => {
    const { key } = await accountAt("1.2345", "0.001")
    const ask = chatBody()
    const answer = await postJson(`${gateway.url}/v1/quote`, key, ask)
    const quote: QuoteBody = JSON.parse(await answer.text())
    expect(quote).toMatchObject({ amount: "0.004981208", refusal: "insufficient_balance" })
    expect(quote.prices).toMatchObject({ input: "1.2345", output: "4.938" })
    expect(quote).not.toHaveProperty("price_multiplier")
    const max_tokens = quote.largest_max_tokens ?? 0
    const refused = await chat(gateway, key, { max_tokens: max_tokens + 1 })
    expect(await refused.json()).toMatchObject({ error: { code: "insufficient_balance", max_tokens } })
    provider.replyOnce(HELLO)
    expect((await chat(gateway, key, { max_tokens })).status).toBe(200)
  })

  test("a change applies to calls that are held after it", async () => {
    const { id: account_id, key } = await accountAt("1.2345")
    provider.replyOnce(async (exchange) => {
      await gateway.admin("PATCH", `/accounts/${account_id}`, { price_multiplier: "2" })
      await json(200, chatCompletion("hello", { usage: usage(10, 5, 4) }))(exchange)
    })
    const before = await chat(gateway, key)
    provider.replyOnce(json(200, chatCompletion("hello", { usage: usage(10, 5, 4) })))
    const after = await chat(gateway, key)
    expect(await gateway.callOf(before)).toMatchObject({ charge, price_multiplier: "1.2345" })
    expect(await gateway.callOf(after)).toMatchObject({ charge: "0.0000528", price_multiplier: "2" })
  })

  test("its sums show the charge to the client, and also cost and profit to the operator", async () => {
    const { id: account_id, key } = await accountAt("1.2345")
    provider.replyOnce(json(200, chatCompletion("hello", { usage: usage(10, 5, 4) })))
    await chat(gateway, key)
    const own = await gateway.own<UsageReport>("/v1/usage", key)
    expect(own.total).toMatchObject({ calls: 1, charge })
    expect(Object.keys(own.total)).not.toContain("cost")
    const all = await gateway.admin<OperatorUsageReport>("GET", `/usage?account=${account_id}`)
    expect(all.total).toMatchObject({ calls: 1, charge, cost: "0.0000264", profit: "0.000006191" })
    expect(all.data[0]).toMatchObject({ charge, cost: "0.0000264", profit: "0.000006191" })
  })
})

describe("D69 a price multiplier", () => {
  test.each(["0", "0.00001", "-1", "1000.0001", "1e2", "", "1,5", 1.25, null])(
    "%p is a 400",
    async (price_multiplier) => {
      const { id } = await gateway.account("1")
      const changing = gateway.admin("PATCH", `/accounts/${id}`, { price_multiplier })
      expect(String(await thrown(changing))).toMatch(/400 .*"param":"price_multiplier"/)
    },
  )
  test.each([
    ["1.2500", "1.25"],
    ["0.0001", "0.0001"],
    ["1000", "1000"],
  ])("%s is %s", async (price_multiplier, shown) => {
    expect(
      await gateway.admin<AccountBody>("POST", "/accounts", { name: "a", price_multiplier }),
    ).toMatchObject({
      price_multiplier: shown,
    })
  })
  test("is a 400 with both names, and the error names the one that was sent", async () => {
    const both = gateway.admin("POST", "/accounts", { name: "a", margin: "1", price_multiplier: "2" })
    expect(String(await thrown(both))).toMatch(/400 .*"param":"margin"/)
    const invalid = gateway.admin("POST", "/accounts", { name: "a", margin: "0" })
    expect(String(await thrown(invalid))).toMatch(/400 .*"param":"margin"/)
  })
  test("also has its old name in requests and in the configuration", async () => {
    const { id: account_id, key } = await gateway.account("1")
    const patched = await gateway.admin("PATCH", `/accounts/${account_id}`, { margin: "2" })
    expect(patched).toMatchObject({ price_multiplier: "2" })
    expect(await gateway.admin("POST", "/accounts", { name: "a", margin: "1.5" })).toMatchObject({
      price_multiplier: "1.5",
    })
    provider.replyOnce(HELLO)
    const answer = await chat(gateway, key, { max_tokens: 5 })
    await gateway.reload({ receipts: { show_margin: true } })
    const receipt = await gateway.receipt(answer, key)
    await gateway.reload({})
    expect(receipt.price_multiplier).toBe("2")
  })
})
