import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { dailyUsage } from "../../src/console/daily.ts"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import { BROWSER, type Browser, browserless, openBrowser, watchedPage } from "../support/browser.ts"
import { CHAT, chat, type TestGateway, untilIs } from "../support/gateway.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"

const PERSON = "ann@example.com"

const { provider, gateway } = await testGateway()

const sums = {
  prompt_tokens: 3,
  cached_tokens: 1,
  completion_tokens: 2,
  overage: "0",
  buckets: recordOf(countedKinds, () => 0),
}

test("the usage of days has a series for each of the dearest groups, and one for all others", () => {
  const row = (day: string, group: string, charge: string) => ({
    group: day,
    name: null,
    groups: { day, model: group },
    names: {},
    calls: 1,
    charge,
    ...sums,
  })
  const others = ["c", "d", "e", "f", "g"].map((name) => row("2026-11-02", name, "0.1"))
  const daily = dailyUsage(
    {
      from: "2026-11-01T00:00:00Z",
      to: "2026-11-03T12:00:00Z",
      data: [
        row("2026-11-01", "a", "1.000000001"),
        row("2026-11-03", "a", "2"),
        row("2026-11-03", "b", "1"),
        ...others,
      ],
    },
    "model",
  )
  expect(daily.starts_at.map((at) => at.slice(0, 10))).toEqual(["2026-11-01", "2026-11-02", "2026-11-03"])
  expect(daily.data.map(({ group }) => group)).toEqual(["a", "b", "c", "d", "e", null])
  expect(daily.data[0]).toMatchObject({
    charge: ["1.000000001", "0", "2"],
    calls: [1, 0, 1],
    prompt_tokens: [3, 0, 3],
  })
  expect([daily.data[5]?.charge, daily.left_out]).toEqual([["0", "0.2", "0"], 2])
})

describe.skipIf(browserless("/account works"))(`D104: /account in headless Chromium (${BROWSER})`, () => {
  let browser: Browser
  let page: Page
  let account: Awaited<ReturnType<TestGateway["account"]>>
  let requests: string[]
  let complaints: string[]

  beforeAll(async () => {
    account = await gateway.account("10")
    await gateway.admin("PATCH", `/accounts/${account.id}`, { name: "<b>Acme</b>", price_multiplier: "1.5" })
    const other = await gateway.account("10")
    for (const { key } of [account, account, other]) {
      provider.replyOnce(json(200, chatCompletion("Hello", { usage: usage(10, 20) })))
      await (await chat(gateway, key, { user: PERSON })).text()
    }
    browser = await openBrowser({ width: 1280, height: 900 })
    ;({ page, requests, complaints } = await watchedPage(browser))
    await page.goto(`${gateway.url}/account`)
  })

  afterAll(async () => {
    expect(requests.filter((url) => new URL(url).origin !== gateway.url)).toEqual([])
    expect(requests.filter((url) => url.includes(account.key) || url.includes("/admin"))).toEqual([])
    expect(complaints.filter((text) => !text.startsWith("Failed to load resource"))).toEqual([])
    await browser.close()
  })

  const signIn = async (key: string) => {
    await page.getByLabel("API key").fill(key)
    await page.keyboard.press("Enter")
  }

  test("a wrong key is said plainly, the right one shows the account, and a reload has forgotten it", async () => {
    await signIn("tg_live_wrong")
    await page.getByRole("alert").getByText("key").waitFor()
    await signIn(account.key)
    await page.getByRole("heading", { level: 1, name: "<b>Acme</b>" }).waitFor()
    expect(
      await page.evaluate(
        "[document.cookie, localStorage.length, sessionStorage.length, location.href.includes('tg_live')]",
      ),
    ).toEqual(["", 0, 0, false])
    expect(await browser.context.cookies()).toEqual([])
    await page.reload()
    await page.getByLabel("API key").waitFor()
  })

  test("balance, usage by each dimension and receipts are those of the account, without multiplier and upstream", async () => {
    await signIn(account.key)
    // 10 and 20 tokens cost 0.00009 USD, times 1.5; two calls.
    await page.locator(".totals").getByText("$9.99973").first().waitFor()
    const used = page.getByRole("table", { name: "Usage" }).locator("tbody tr")
    for (const [choice, group] of [
      ["Model", CHAT],
      ["Day", new Date().toISOString().slice(0, 10)],
      ["End user", PERSON],
      ["Tag", "none"],
    ] as const) {
      await page
        .getByRole("group", { name: "Group by" })
        .getByRole("button", { name: choice, exact: true })
        .click()
      await used.first().getByText(group).waitFor()
      const cells = await used.locator("td").allInnerTexts()
      expect([cells[1], cells[5]]).toEqual(["2", "$0.00027"])
    }
    await page.getByRole("img", { name: "money by day and tag:team: none $0.00027" }).waitFor()
    const calls = page.getByRole("table", { name: "Calls" }).locator("tbody tr")
    await untilIs(() => calls.count(), 2)
    await calls.first().getByRole("link").click()
    await page.getByRole("region", { name: "Timeline" }).getByText("$0.000135 charged").waitFor()
    const shown = await page.locator("main").textContent()
    expect(shown).toContain("$1.50 per 1M")
    expect(shown).not.toMatch(/1\.5 |multiplier|upstream|first$/m)
    await page.goBack()
    await calls.first().waitFor()
  })

  test("keys are shown, and where the operator allows it made, rotated and revoked; a new one is shown once", async () => {
    const rows = page.getByRole("table", { name: "Keys" }).locator("tbody tr")
    await untilIs(() => rows.count(), 1)
    expect(await rows.getByRole("button").count()).toBe(0)
    await gateway.admin("PATCH", `/accounts/${account.id}`, { may_manage_keys: true })
    await page.reload()
    await signIn(account.key)
    await page.getByRole("button", { name: "New key" }).click()
    await page.getByRole("dialog").getByLabel("Name").fill("<i>jobs</i>")
    await page.getByRole("button", { name: "Create key" }).click()
    const made = page.getByRole("dialog").getByText(/^tg_live_\w{36}$/)
    const secret = (await made.textContent()) ?? ""
    provider.replyOnce(json(200, chatCompletion("Hello", { usage: usage(10, 20) })))
    expect((await chat(gateway, secret)).status).toBe(200)
    await page.getByRole("button", { name: "Done" }).click()
    await page.locator("dialog").waitFor({ state: "detached" })
    await untilIs(() => rows.count(), 2)
    expect(await page.locator("body").textContent()).not.toContain(secret)

    // The key that the page uses; it goes on with the new secret.
    const own = account.key.slice(0, 12)
    await page.getByRole("button", { name: `Rotate ${own}` }).click()
    await page.getByText("gets a new secret. Its limit, its budgets and its usage stay.").waitFor()
    await page.getByLabel("The secret that it has now works for").selectOption("0")
    await page.getByRole("button", { name: "Rotate", exact: true }).click()
    await page.getByText("Copy the key now. It is shown only once").waitFor()
    account.key = (await made.textContent()) ?? ""
    await page.getByRole("button", { name: "Done" }).click()
    await rows.getByText(`${account.key.slice(0, 12)}…`).waitFor()
    await page.getByRole("button", { name: "Revoke <i>jobs</i>" }).click()
    await page.getByRole("button", { name: "Revoke", exact: true }).click()
    await rows.getByText("revoked").waitFor()
    expect((await chat(gateway, secret)).status).toBe(401)

    await page.getByRole("button", { name: `Revoke ${account.key.slice(0, 12)}` }).click()
    await page.getByRole("button", { name: "Revoke", exact: true }).click()
    await page.getByRole("alert").getByText("No other key of the account works. Rotate this one").waitFor()
    await page.keyboard.press("Escape")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    const headers = { authorization: `Bearer ${account.key}` }
    expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(200)
  })

  test("a secret that was replaced with a grace time is shown with its end", async () => {
    const rows = page.getByRole("table", { name: "Keys" }).locator("tbody tr")
    await page.getByRole("button", { name: `Rotate ${account.key.slice(0, 12)}` }).click()
    await page.getByRole("button", { name: "Rotate", exact: true }).click()
    const made = page.getByRole("dialog").getByText(/^tg_live_\w{36}$/)
    account.key = (await made.textContent()) ?? ""
    await page.getByRole("button", { name: "Done" }).click()
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
    const own = rows.filter({ hasText: account.key.slice(0, 12) })
    await page.getByRole("columnheader", { name: "Secret before until" }).waitFor()
    await own.getByText(tomorrow.slice(11, 13)).first().waitFor()
  })

  test("the statement of a month is listed, shown and can be printed", async () => {
    const month = new Date().toISOString().slice(0, 7)
    await page.getByRole("table", { name: "Statements" }).getByRole("link", { name: month }).click()
    await page.getByRole("heading", { level: 1, name: `Statement ${month}` }).waitFor()
    const charges = page.getByRole("table", { name: "Charges" }).locator("tbody tr")
    await untilIs(() => charges.count(), 1)
    expect((await charges.locator("td").allInnerTexts()).slice(0, 2)).toEqual([CHAT, "3"])
    await page.getByRole("region", { name: "Summary" }).getByText("$9.999595").waitFor()
    await page.emulateMedia({ media: "print" })
    expect(await page.getByRole("button", { name: "Print" }).isVisible()).toBe(false)
    await page.emulateMedia({ media: "screen" })
    await page.goBack()
    await page.getByRole("table", { name: "Calls" }).waitFor()
  })

  test("a key that is revoked asks for another one", async () => {
    await gateway.admin("DELETE", `/keys/${account.key_id}`)
    await page.getByRole("group", { name: "Days" }).getByRole("button", { name: "7 d" }).click()
    await page.getByText("The key is no longer accepted.").waitFor()
    expect(await page.locator("main").textContent()).not.toContain("Acme")
  })
})
