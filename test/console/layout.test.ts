import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { BROWSER, type Browser, browserless, openBrowser } from "../support/browser.ts"
import { ADMIN_TOKEN, startGateway, type TestGateway, untilIs } from "../support/gateway.ts"
import { type Provider, startProvider } from "../support/provider.ts"
import { type Crowd, plantCrowd } from "./crowd.ts"
import { axeFaults, MISPLACED } from "./layout.ts"

/** The folder for pictures of each page, which people look at; none are made without it. */
const PICTURES = process.env.SCREENSHOTS
/** Places are the same in both; a person looks at both. */
const SCHEMES = PICTURES === undefined ? (["light"] as const) : (["light", "dark"] as const)
/** A laptop, two narrow windows, and a phone. */
const WIDTHS = [1440, 1024, 900, 390]

describe.skipIf(browserless("pages fit their window"))(`in headless Chromium (${BROWSER})`, () => {
  let provider: Provider
  let gateway: TestGateway
  let crowd: Crowd
  let browser: Browser
  let page: Page

  beforeAll(async () => {
    provider = await startProvider()
    gateway = await startGateway(provider)
    crowd = await plantCrowd(gateway)
    browser = await openBrowser({ width: 1440, height: 900 })
    page = await browser.context.newPage()
    await page.goto(`${gateway.url}/console`)
    await page.getByLabel("Admin token").fill(ADMIN_TOKEN)
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor()
  })
  afterAll(async () => {
    await browser.close()
    await gateway.stop()
    await provider.stop()
  })

  /** Fails if something leaves its place at a width, or axe-core finds something in a colour scheme. */
  async function expectReadable(name: string): Promise<void> {
    const faults: string[] = []
    // The page's Content-Security-Policy forbids a wait in it, which would evaluate a text.
    await untilIs(() => page.locator("[aria-busy]").count(), 0)
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme })
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 })
        // Tables and plots take their new width in the frames after it.
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        const path = `${PICTURES}/${name}-${width}-${colorScheme}.png`
        if (PICTURES !== undefined) await page.screenshot({ path, fullPage: true })
        const found = await page.evaluate<string[]>(MISPLACED)
        faults.push(...found.map((fault) => `${width} ${colorScheme}: ${fault}`))
      }
    }
    await page.emulateMedia({ colorScheme: "dark" })
    faults.push(...(await axeFaults(page)))
    await page.emulateMedia({ colorScheme: "light" })
    faults.push(...(await axeFaults(page, "color-contrast")))
    expect(faults).toEqual([])
  }

  const visit = async (hash: string) => {
    await page.goto(`${gateway.url}/console${hash}`)
    await page.evaluate("null")
    await page.locator("main [aria-busy]").first().waitFor({ state: "detached" })
  }

  test.each([
    ["overview", () => "#/"],
    ["accounts", () => "#/accounts"],
    ["account", () => `#/accounts/${crowd.account_id}`],
    ["budget", () => `#/budgets/${crowd.budget_id}`],
    ["usage", () => "#/usage?by=model,key,upstream,day"],
    ["price-lists", () => "#/prices"],
    ["price-list", () => `#/prices/${crowd.price_list_id}`],
    ["live", () => "#/live"],
    ["calls", () => "#/calls"],
    ["receipt", () => `#/calls/${crowd.call_id}`],
    ["upstreams", () => "#/upstreams"],
    ["events", () => "#/events"],
    ["log", () => "#/log"],
    ["audit", () => "#/audit"],
  ])("D50 nothing of the view %s leaves its card or the window, or is unreadable", async (name, hash) => {
    await visit(hash())
    await expectReadable(name)
  })

  test("D104 nothing of a customer's page, receipt and statement leaves its card or the window, or is unreadable", async () => {
    await page.goto(`${gateway.url}/account`)
    await page.getByLabel("API key").fill(crowd.key)
    await page.keyboard.press("Enter")
    const first = page.getByRole("table", { name: "Calls" }).getByRole("link").first()
    await first.waitFor()
    await page.getByRole("table", { name: "Usage" }).waitFor()
    await expectReadable("own-account")
    await first.click()
    await page.getByRole("region", { name: "Timeline" }).waitFor()
    await expectReadable("own-receipt")
    await page.goto(`${gateway.url}/account#/statements/${new Date().toISOString().slice(0, 7)}`)
    await page.getByRole("table", { name: "Charges" }).waitFor()
    await expectReadable("own-statement")
  })

  test("D50 a table fits its card in the first frame after the window narrows or a cell grows", async () => {
    await page.setViewportSize({ width: 1440, height: 900 })
    await visit("#/accounts")
    await page.getByRole("table", { name: "Accounts" }).waitFor()
    const table = 'document.querySelector(".table:has([aria-label=Accounts])")'
    const fits = `${table}.scrollWidth <= ${table}.clientWidth`
    // Runs after the page's own observer, in the same frame.
    const frame = page.evaluate<boolean>(`new Promise((done) =>
      new ResizeObserver(() => innerWidth === 390 && done(${fits})).observe(${table}))`)
    await page.setViewportSize({ width: 390, height: 900 })
    expect(await frame).toBe(true)
    await page.setViewportSize({ width: 1440, height: 900 })
    const grown = page.evaluate<boolean>(`(async () => {
      ${table}.querySelector("td").prepend("w".repeat(150))
      await null
      return ${fits}
    })()`)
    expect(await grown).toBe(true)
  })

  test("D50 nothing of a dialog leaves its card or the window, or is unreadable", async () => {
    await visit(`#/accounts/${crowd.account_id}`)
    await page.getByRole("button", { name: "New budget" }).click()
    await page.locator("dialog").getByLabel("Name").waitFor()
    await expectReadable("dialog")
  })
})
