import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { priceIn, priceLine } from "../../src/console/price-lines.ts"
import type { PriceListBody } from "../../src/wire/price-lists.ts"
import { BROWSER, type Browser, browserless, openBrowser } from "../support/browser.ts"
import { ADMIN_TOKEN, CHAT, chat, type TestGateway, untilIs } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const HELLO = json(200, chatCompletion("Hello", { usage: usage(10, 20) }))
const { gateway } = await testGateway({}, HELLO)

test.each([
  ["all 0.9", { price_multiplier: "0.9" }],
  ["gpt-5 input=0.2 output=1.6", { model: "gpt-5", prices: { input: "0.2", output: "1.6" } }],
  ["m per_call=1 tool_run.web=0.01", { model: "m", prices: { per_call: "1", tool_run: { web: "0.01" } } }],
])("D110 a price of a list is a line that people read and write: %s", (line, price) => {
  expect(priceIn(line)).toEqual(price)
  expect(priceLine({ model: null, price_multiplier: null, prices: null, ...price })).toBe(line)
})

describe.skipIf(browserless("the console's finance works"))(`in headless Chromium (${BROWSER})`, () => {
  let browser: Browser
  let page: Page
  let account: Awaited<ReturnType<TestGateway["account"]>>

  beforeAll(async () => {
    account = await gateway.account("10")
    await (await chat(gateway, account.key)).text()
    browser = await openBrowser({ width: 1280, height: 900 })
    page = await browser.context.newPage()
    await page.goto(`${gateway.url}/console#/accounts/${account.id}`)
    await page.getByLabel("Admin token").fill(ADMIN_TOKEN)
    await page.keyboard.press("Enter")
  })
  afterAll(() => browser.close())

  test("D106 the statements of an account open as a page and as CSV", async () => {
    const month = new Date().toISOString().slice(0, 7)
    const row = page.getByRole("table", { name: "Statements" }).getByRole("row").filter({ hasText: month })
    const opened = page.context().waitForEvent("page")
    await row.getByRole("link", { name: "Page" }).click()
    const statement = await opened
    await statement.getByRole("heading", { name: `Statement of account, ${month}` }).waitFor()
    await statement.getByText("9.99991", { exact: true }).waitFor()
    await statement.close()
    const csv = await row.getByRole("link", { name: "CSV" }).getAttribute("href")
    const file = await page.evaluate<string>(`fetch(${JSON.stringify(csv)}).then((one) => one.text())`)
    expect(file).toContain(`${month},charge,${CHAT},-0.00009,USD,1`)
  })

  test("D105 usage is summed by several dimensions", async () => {
    await page.getByRole("link", { name: "Usage by several dimensions" }).click()
    await page.getByLabel("Group by").fill("model,key,upstream_key,tag:team")
    await page.getByRole("button", { name: "Show" }).click()
    const cells = page.getByRole("table", { name: "Usage" }).locator("tbody td")
    const headers = page.getByRole("table", { name: "Usage" }).getByRole("columnheader")
    await untilIs(
      async () => (await headers.allInnerTexts()).slice(0, 5),
      [...["Model", "Key", "Upstream key", "Tag team", "Calls"]],
    )
    expect((await cells.allInnerTexts()).slice(0, 5)).toEqual([CHAT, account.key_id, "none", "none", "1"])
    const csv = await page.getByRole("link", { name: "CSV" }).getAttribute("href")
    expect(csv).toContain("by=model%2Ckey%2Cupstream_key%2Ctag%3Ateam")
    expect(csv).toContain(account.id)
  })

  test("D110 a price list is made, assigned and changed, and calls cost its prices", async () => {
    await page.getByRole("link", { name: "Prices", exact: true }).click()
    const dialog = page.getByRole("dialog")
    await page.getByRole("button", { name: "New price list" }).click()
    await dialog.getByLabel("Name").fill("Partners")
    await dialog.getByLabel("Prices").fill("all 2\nno-such-model input=1")
    await dialog.getByRole("button", { name: "Create" }).click()
    await dialog.getByRole("alert").waitFor()
    await dialog.getByLabel("Prices").fill("all 2")
    await dialog.getByRole("button", { name: "Create" }).click()
    await page.getByRole("link", { name: "Partners" }).click()

    await page.getByRole("button", { name: "Assign" }).click()
    await dialog.getByLabel("Account id").fill(account.id)
    await dialog.getByRole("button", { name: "Assign" }).click()
    await untilIs(() => page.getByRole("table", { name: "Accounts" }).locator("tbody tr").count(), 1)
    expect((await gateway.callOf(await chat(gateway, account.key))).charge).toBe("0.00018")

    await page.getByRole("button", { name: "Change" }).click()
    await dialog.getByLabel("Prices").fill(`all 2\n${CHAT} input=1 output=0`)
    await dialog.getByRole("button", { name: "Change" }).click()
    await page.getByRole("listitem").getByText(`${CHAT} input=1 output=0`).waitFor()
    expect((await gateway.callOf(await chat(gateway, account.key))).charge).toBe("0.00001")
    const { data } = await gateway.admin<{ data: PriceListBody[] }>("GET", "/price-lists")
    expect(data[0]).toMatchObject({ name: "Partners", version: 2, set_by: "configured" })
  })

  test("D98 a provider's usage export is compared with the journal", async () => {
    await page.getByRole("link", { name: "Upstreams", exact: true }).click()
    const card = page.getByRole("region", { name: "The provider's usage" })
    const file = (results: readonly object[]) => ({
      name: "usage.json",
      mimeType: "application/json",
      buffer: Buffer.from(
        JSON.stringify({ data: [{ start_time: 1_763_596_800, end_time: 1_763_600_400, results }] }),
      ),
    })
    const result = {
      object: "organization.usage.completions.result",
      model: "gpt-9",
      input_tokens: 7,
      output_tokens: 5,
      num_model_requests: 1,
    }
    await card.getByLabel("Export").setInputFiles(file([{ model: "gpt-9" }]))
    await card.getByRole("button", { name: "Compare" }).click()
    await card.getByText("export: expected usage of openai by model", { exact: false }).waitFor()
    await card.getByLabel("Export").setInputFiles(file([result]))
    await card.getByRole("button", { name: "Compare" }).click()
    await card.getByText("Compared 0 of 1 sums", { exact: false }).waitFor()
    const row = card.getByRole("table", { name: "Differences" }).locator("tbody tr")
    expect(await row.textContent()).toContain("no calls to this model")
  })
})
