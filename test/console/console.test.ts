import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { drizzle } from "drizzle-orm/postgres-js"
import type { Locator, Page } from "playwright-core"
import { nextId } from "../../src/id.ts"
import type { AccountBody } from "../../src/wire/admin.ts"
import { plantCall } from "../admin/admin-harness.ts"
import { BROWSER, type Browser, browserless, openBrowser, watchedPage } from "../support/browser.ts"
import { within } from "../support/fair-clock.ts"
import { ADMIN_TOKEN, CHAT, chat, EARLY_COMMENTS, untilIs } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, sseEvent, usage } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"
import { axeFaults } from "./layout.ts"

const HOSTILE = `<img src=x onerror="document.title='owned'">\u202Eevil`
/** A call that moved no money. */
const RELEASED = {
  state: "released",
  basis: "none",
  failure: "no_output",
  charge_nano: 0n,
  closed_at: new Date(),
  duration_ms: 40,
} as const

const { provider, gateway } = await testGateway(EARLY_COMMENTS)
const latestAccount = async () =>
  (await gateway.admin<{ data: { id: string }[] }>("GET", "/accounts")).data[0]?.id ?? ""

describe.skipIf(browserless("/console works"))(`D50: /console in headless Chromium (${BROWSER})`, () => {
  let browser: Browser
  let page: Page
  let requests: string[]
  let complaints: string[]

  beforeAll(async () => {
    browser = await openBrowser({ width: 1280, height: 900 })
    await browser.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: gateway.url })
    ;({ page, requests, complaints } = await watchedPage(browser))
    await page.goto(`${gateway.url}/console`)
  })

  afterAll(async () => {
    expect(requests.filter((url) => new URL(url).origin !== gateway.url)).toEqual([])
    expect(requests.filter((url) => url.includes(ADMIN_TOKEN))).toEqual([])
    // What the page was refused on purpose, the browser complains of; anything else is a defect.
    expect(complaints.filter((text) => !text.startsWith("Failed to load resource"))).toEqual([])
    await browser.close()
  })

  const visit = async (hash: string) => {
    await page.goto(`${gateway.url}/console${hash}`)
    await page.evaluate("null")
    await page.locator("main [aria-busy]").first().waitFor({ state: "detached" })
  }
  const openAccount = async () => {
    await visit("#/accounts")
    await page.getByRole("link", { name: "onerror" }).click()
  }
  const main = () => page.locator("main")
  const inDialog = () => page.locator("dialog")
  /** Fields of a dialog by their labels; an option of a choice is a list. */
  const fillIn = async (values: Readonly<Record<string, string | string[]>>) => {
    for (const [label, value] of Object.entries(values)) {
      const field = inDialog().getByLabel(label)
      await (typeof value === "string" ? field.fill(value) : field.selectOption(value))
    }
  }

  /** Presses the button of an action, fills in its dialog, and confirms it by the button `confirm`, by default the action's first word. */
  const act = async (
    place: Page | Locator,
    action: string,
    values: Readonly<Record<string, string | string[]>> = {},
    confirm = action.split(" ")[0] ?? "",
  ) => {
    await place.getByRole("button", { name: action }).click()
    await fillIn(values)
    await inDialog().getByRole("button", { name: confirm }).click()
  }
  const rowsOf = (name: string) => page.getByRole("table", { name }).locator("tbody tr")

  test("a wrong token is said plainly, the right one lets in, and the page keeps neither it nor the session", async () => {
    await page.getByLabel("Admin token").fill("not-the-token-of-this-gateway")
    await page.keyboard.press("Enter")
    await page.getByRole("alert").getByText("is not the admin token").waitFor()
    expect(await axeFaults(page)).toEqual([])
    await page.getByLabel("Admin token").fill(ADMIN_TOKEN)
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor()
    await page.getByText("No calls ended in this time range.").first().waitFor()
    expect(await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")).toEqual([
      "",
      0,
      0,
    ])
    const [session, ...others] = await browser.context.cookies()
    expect(others).toEqual([])
    expect(session).toMatchObject({ path: "/admin", httpOnly: true, sameSite: "Strict" })
    expect(session?.value).not.toContain(ADMIN_TOKEN)
    expect(page.url()).not.toContain(ADMIN_TOKEN)
    await page.reload()
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor()
  })

  test("an account is opened under any name, which stays text, and is topped up", async () => {
    await visit("#/accounts")
    await page.getByText("No accounts yet.").waitFor()
    await page.getByRole("button", { name: "Create account" }).click()
    await inDialog().getByLabel("Name").fill(HOSTILE)
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1 }).getByText(HOSTILE).waitFor()
    expect(await page.title()).not.toBe("owned")
    expect(await page.locator("img[src=x]").count()).toBe(0)

    await page.getByRole("button", { name: "Add credit" }).click()
    await inDialog().getByLabel("Amount in USD").fill("much")
    await page.keyboard.press("Enter")
    await inDialog().getByRole("alert").getByText("amount: expected USD").waitFor()
    await fillIn({ "Amount in USD": "12.5", Reason: "Invoice 7" })
    await page.keyboard.press("Enter")
    await inDialog().waitFor({ state: "detached" })
    await main().getByText("$12.50").first().waitFor()
    await main().getByText("Invoice 7").waitFor()
  })

  test("a key is made and shown once, a call with it is seen while it runs, and its receipt is found by its id", async () => {
    await page.getByRole("button", { name: "New key" }).click()
    await fillIn({ Name: "production", Models: CHAT })
    await inDialog().getByRole("button", { name: "Create key" }).click()
    await inDialog().getByRole("button", { name: "Copy" }).click()
    await inDialog().getByRole("button", { name: "Copied" }).waitFor()
    const key = String(await page.evaluate("navigator.clipboard.readText()"))
    expect(key).toMatch(/^tg_live_[0-9A-Za-z]{36}$/)
    await page.keyboard.press("Escape")
    await inDialog().waitFor({ state: "detached" })
    expect(await page.content()).not.toContain(key)

    const go_on = Promise.withResolvers<void>()
    provider.replyOnce(async (exchange) => {
      const [role, first, ...rest] = chatWords("Hello", " there")
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(sseEvent(role))
      await exchange.chunk(sseEvent(first))
      await go_on.promise
      await sse(rest, { usage: usage(10, 20) })({ ...exchange, head: async () => true })
    })
    const answer = await chat(gateway, key, { stream: true })
    const id = answer.headers.get("x-request-id") ?? ""
    await visit("#/live")
    await main().getByText("1 open call, holding").waitFor()
    await untilIs(() => main().locator("tbody tr").count(), 1)
    go_on.resolve()
    await answer.text()
    await main().getByText("No calls in progress.").waitFor()

    await page.keyboard.press("/")
    await page.keyboard.insertText("no id")
    await page.keyboard.press("Enter")
    const fault = page.getByText("This is not a request id")
    await fault.waitFor()
    await visit("#/accounts")
    await fault.waitFor({ state: "detached" })
    await page.getByLabel("Find the receipt").fill(`x-request-id: ${id}`)
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1, name: "Receipt" }).waitFor()
    const timeline = page.getByRole("region", { name: "Timeline" })
    await timeline.getByText("$0.00009 charged").waitFor()
    const steps = await timeline.getByRole("heading", { level: 3 }).allInnerTexts()
    expect(steps).toEqual(["Held", "First output", "Last byte", "Settled"])
    const text = await main().textContent()
    for (const said of [
      "the usage that the provider reported",
      "The provider completed its response.",
      "$1.00 per 1M",
      HOSTILE,
    ]) {
      expect(text).toContain(said)
    }
  })

  test("D97 a budget is created, changed, raised, reset and deleted", async () => {
    await openAccount()
    const values = { Name: "Team", Calls: ["group"], Selected: "acme/search", Amount: "50" }
    await act(page, "New budget", values, "Create budget")
    const row = rowsOf("Budgets")
    await row.getByText("$50.00 per month").waitFor()
    await act(row, "Change Team", { Amount: "60" })
    await row.getByText("$60.00 per month").waitFor()
    await act(row, "Raise Team", { "Raised amount": "70", Until: "2099-01-01T00:00" })
    await row.getByText("$70.00 per month").waitFor()
    await act(row, "Reset Team")
    await inDialog().waitFor({ state: "detached" })
    await row.getByRole("link", { name: "Log Team" }).click()
    await page.getByRole("heading", { level: 1, name: "Budget log" }).waitFor()
    const logged = rowsOf("Budget log")
    await logged.first().getByText("reset").waitFor()
    expect(await logged.allInnerTexts()).toEqual([
      expect.stringContaining("reset"),
      expect.stringContaining("raised to 70 until 2099"),
      expect.stringContaining("Team: 60 usd per month; hard"),
      expect.stringContaining("Team: 50 usd per month; hard"),
    ])
    await page.goBack()
    await act(row, "Delete Team")
    await page.getByText("Only the balance limits").waitFor()
  })

  test("D99 a budget per minute refills", async () => {
    await openAccount()
    await act(page, "New budget", { Name: "Rate", Amount: "1000", Period: ["minute"] }, "Create budget")
    await inDialog().getByText("tokens or requests for a budget per minute").waitFor()
    await inDialog().getByLabel("Unit").selectOption("tokens")
    await inDialog().getByRole("button", { name: "Create budget" }).click()
    const row = rowsOf("Budgets")
    await row.getByText("1,000 tokens per minute").waitFor()
    await row.getByText("refills evenly").waitFor()
    await act(row, "Delete Rate")
    await page.getByText("Only the balance limits").waitFor()
  })

  test("D95 an account gets an id of its own and a promotion with dates, which is voided", async () => {
    await openAccount()
    await act(page, "Change", { "External id": "customer-118", "Credit limit in USD": "5" })
    await main().getByText("external id customer-118").waitFor()
    await main().locator(".totals").getByText("$5.00").waitFor()
    await page.getByRole("button", { name: "Add credit" }).click()
    await fillIn({ "Amount in USD": "3.25", Kind: ["promotion"], Priority: "101" })
    await page.keyboard.press("Enter")
    await inDialog().getByRole("alert").getByText("an integer from 0 to 100").waitFor()
    expect(await inDialog().getByLabel("Priority").getAttribute("aria-invalid")).toBe("true")
    await fillIn({
      Priority: "10",
      Effective: "2098-01-01T00:00",
      Expires: "2099-01-01T00:00",
      Reference: "pi_118",
    })
    await page.keyboard.press("Enter")
    await inDialog().waitFor({ state: "detached" })
    const row = page.getByRole("table", { name: "Credits" }).locator("tr", { hasText: "pi_118" })
    await row.waitFor()
    const cells = await row.locator("td").allInnerTexts()
    expect(cells.slice(1, 5)).toEqual(["$3.25", "$3.25", "promotion", "10"])
    expect(`${cells[5]} ${cells[6]}`).toMatch(/2098|2099/)
    await act(row, "Void the credit of 3.25 USD")
    await row.getByText("$0.00").waitFor()
    await untilIs(() => row.getByRole("button").count(), 0)
  })

  test("an account gets a low balance, and none again, and nothing else of it changes", async () => {
    await openAccount()
    await page.locator("h1").getByText("onerror").waitFor()
    const [id] = /[\da-f-]{36}/.exec(page.url()) ?? []
    const before = await gateway.admin<AccountBody>("GET", `/accounts/${id}`)
    for (const [text, low_balance, shown] of [
      ["2.5", "2.5", "$2.50"],
      ["", null, "–"],
    ] as const) {
      await page.getByRole("button", { name: "Change" }).click()
      const field = inDialog().getByLabel("Low balance in USD")
      expect(await field.inputValue()).toBe(low_balance === null ? "2.5" : "")
      await field.fill(text)
      await page.keyboard.press("Enter")
      await main().locator(".totals").getByText(shown, { exact: true }).waitFor()
      expect(await gateway.admin<AccountBody>("GET", `/accounts/${id}`)).toEqual({ ...before, low_balance })
    }
  })

  test("a key is suspended, resumed, limited, rotated and revoked, each only when it is meant", async () => {
    await openAccount()
    const row = rowsOf("Keys")
    await page.getByRole("columnheader", { name: "Abandoned calls, 30 days" }).waitFor()
    await row.getByRole("button", { name: "Suspend production" }).click()
    await page.keyboard.press("Escape")
    await inDialog().waitFor({ state: "detached" })
    await row.getByText("active").waitFor()
    await act(row, "Suspend production")
    await row.getByText("suspended").waitFor()
    await act(row, "Resume production")
    await row.getByText("active").waitFor()
    await act(row, "Limit production", { "Spending limit in USD": "3" }, "Set")
    await row.getByText("of $3.00 per month").waitFor()
    await act(row, "Rotate production", { "The secret that it has now works for": ["1"] })
    await inDialog()
      .getByText(/^tg_live_\w{36}$/)
      .waitFor()
    await inDialog().getByRole("button", { name: "Done" }).click()
    await inDialog().waitFor({ state: "detached" })
    await row.getByRole("button", { name: "Revoke production" }).click()
    await inDialog().getByText("can never be used again").waitFor()
    await inDialog().getByRole("button", { name: "Revoke" }).click()
    await row.getByText("revoked").waitFor()
    await untilIs(() => row.getByRole("button").count(), 0)
  })

  test("the account has a spark line, and plots and figures show what it cost", async () => {
    await visit("#/accounts")
    await page.getByRole("img", { name: "Spent in the last 24 hours: $0.00009" }).waitFor()
    await visit("#/?range=1h")
    const plot = page.getByRole("img", { name: `Money charged over time by model: ${CHAT} $0.00009` })
    await plot.locator("canvas").waitFor()
    await plot.focus()
    await page.keyboard.press("ArrowLeft")
    await main()
      .locator(".u-legend")
      .getByText(/, 1 min$/)
      .waitFor()
    await page.getByRole("button", { name: "by account" }).click()
    await main().locator(".u-legend").getByText(HOSTILE).waitFor()
    await page.getByRole("button", { name: "tokens" }).click()
    await page.getByRole("img", { name: "Tokens charged over time by account" }).waitFor()
    expect(page.url()).toEndWith("#/?range=1h&metric=tokens&by=account")
    await main().getByText("No failures in the last hour.").waitFor()
    await page.getByRole("button", { name: "Run audit" }).click()
    await page.getByText("The ledger matches its journal.").waitFor()
  })

  test("D92: estimates are shown beside usage, with what to set", async () => {
    await gateway.sql`INSERT INTO tollgate.estimates
        SELECT (now() AT TIME ZONE 'UTC')::date, ${HOSTILE}, 'chat', 20, 80, 20, 60, 38, 18, 20, 4, 0`
    await visit("#/")
    // The gateway can have written estimates of the calls of this file beside it.
    const row = page.getByRole("table", { name: "Estimates" }).locator("tbody tr", { hasText: "−60.5%" })
    const cells = await row.locator("td").allInnerTexts()
    expect(cells).toEqual([HOSTILE, "chat", "20", "3", "4", "4", "1", "0", "−60.5%", "0%"])
    await main().getByText("chat: Set bytes_per_token: 3 and estimate: { hidden_output: 1 }.").waitFor()
    await gateway.sql`DELETE FROM tollgate.estimates`
  })

  test("D80: refused calls are shown beside accounts", async () => {
    const [made] = await gateway.sql<{ account_id: string }[]>`INSERT INTO tollgate.refusals
        SELECT date_trunc('hour', now()), id, id, 'insufficient_balance', 222, now() FROM tollgate.accounts LIMIT 1
        RETURNING account_id`
    for (const path of ["#/accounts", `#/accounts/${made?.account_id}`]) {
      await visit(path)
      const row = page.getByRole("table", { name: "Refused calls" }).locator("tr", { hasText: "222" })
      const cells = await row.locator("td").allInnerTexts()
      expect([cells[0], cells[2], cells[3]]).toEqual([HOSTILE, "insufficient_balance", "222"])
    }
    await gateway.sql`DELETE FROM tollgate.refusals`
  })

  test("D93: attempts that failed or gave no answer are shown beside the upstreams", async () => {
    await gateway.sql`INSERT INTO tollgate.attempts (id, ordinal, account_id, upstream, upstream_key, failure, duration_ms, ended_at)
        SELECT id, 7, account_id, ${HOSTILE}, 'a', 'timeout', 1, now() FROM tollgate.holds LIMIT 1`
    await visit("#/upstreams")
    const row = rowsOf("Attempts that failed or gave no answer")
    const cells = await row.first().locator("td").allInnerTexts()
    expect([cells[0], cells[1], cells[3], cells[4]]).toEqual([HOSTILE, "a", "timeout", "1"])
  })

  test("D102 the log shows who changed what, and is narrowed to an actor", async () => {
    const { token } = await gateway.admin<{ token: string }>("POST", "/operators", {
      name: "Ann <b>",
      role: "billing",
    })
    const account = await latestAccount()
    const changed = await fetch(`${gateway.url}/admin/accounts/${account}`, {
      method: "PATCH",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "x-tollgate-reason": "Contract 118",
      },
      body: JSON.stringify({ price_multiplier: "1.25" }),
    })
    expect(changed.status).toBe(200)
    await visit("#/log")
    await page.getByLabel("Actor").fill("Ann <b>")
    await page.getByRole("button", { name: "Show" }).click()
    await page.waitForURL(/actor=Ann/)
    const row = rowsOf("Log")
    await row.getByText("Contract 118").waitFor()
    await untilIs(() => row.count(), 1)
    expect(await row.textContent()).toContain('price_multiplier: "1" → "1.25"')
  })

  test("filters narrow the calls, and the back link returns to them", async () => {
    await visit("#/calls")
    await page.getByLabel("State").selectOption("released")
    await page.getByRole("button", { name: "Show" }).click()
    await page.getByText("No calls match these filters.").waitFor()
    expect(page.url()).toEndWith("#/calls?state=released")
    await page.goBack()
    await main().locator("tbody tr").first().waitFor()
    await visit(`#/calls/${nextId()}`)
    await page.getByText("No call has the id").waitFor()
    await visit("#/upstreams")
    await page.getByRole("table", { name: "Upstreams" }).getByText("ready").first().waitFor()
  })

  test("a list goes on where its page ends", async () => {
    const account = await latestAccount()
    for (let planted = 0; planted < 60; planted++) {
      await plantCall(drizzle(gateway.sql), { ...RELEASED, account_id: account })
    }
    await visit("#/calls?failure=no_output")
    await untilIs(() => main().locator("tbody tr").count(), 50)
    await page.getByRole("link", { name: "Older" }).click()
    await page.getByRole("link", { name: "Newest" }).waitFor()
    await untilIs(() => main().locator("tbody tr").count(), 10)
    await visit("#/?range=1h")
    await page.getByRole("link", { name: "The response had no output" }).click()
    await main().getByText("no_output").first().waitFor()
  })

  test("live calls are read every two seconds, and not while the page is hidden", async () => {
    const look = () => page.waitForRequest((request) => request.url().includes("state=open"), { timeout: 0 })
    const hide = async (hidden: boolean) => {
      await page.evaluate(
        `Object.defineProperty(document, "hidden", { configurable: true, value: ${hidden} })`,
      )
      await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    }
    const [first] = await Promise.all([look(), visit("#/live")])
    const again = look()
    await first.response()
    await again
    await hide(true)
    // A look that had begun before may still be told of.
    await within(250, Promise.withResolvers<never>().promise)
    const next = look()
    expect(await within(2_500, next)).toBeFalse()
    await hide(false)
    await next
  })

  test("D107 the last audit is shown, also if it was not asked for here, with who asked for it", async () => {
    await gateway.audit()
    await visit("#/audit")
    await page.getByText(/ by configured$/).waitFor()
    await page.getByText("The ledger matches its journal.").waitFor()
  })

  test("what an audit finds is shown in red, and what the gateway cannot do in words", async () => {
    const account_id = nextId()
    const call_id = nextId()
    const found = {
      checked_at: new Date().toISOString(),
      accounts: 3,
      open_holds: 0,
      violations: [
        { account_id, kind: "balance", id: null, recorded: "9.9871", expected: "9.987" },
        { account_id, kind: "entry", id: call_id, recorded: "0.5", expected: null },
      ],
    }
    await page.route("**/admin/audit", (route) => route.fulfill({ json: found }))
    await visit("#/audit")
    await page.getByRole("button", { name: "Run audit" }).click()
    await page.getByText("The ledger does not match its journal: 2 violations.").waitFor()
    const colour = await page.evaluate("getComputedStyle(document.querySelector('.audit .verdict')).color")
    expect(colour).toBe("rgb(169, 34, 22)")
    const table = await page.getByRole("table", { name: "Violations" }).textContent()
    for (const shown of ["$0.0001", call_id, "no entry"]) expect(table).toContain(shown)
    await page.unroute("**/admin/audit")
    await page.route("**/admin/upstreams", (route) => route.abort())
    await visit("#/upstreams")
    await page.getByText("The gateway cannot be reached. Check that it is running.").waitFor()
    await page.unroute("**/admin/upstreams")
    await page.getByRole("button", { name: "Try again" }).click()
    await page.getByRole("table", { name: "Upstreams" }).getByText("ready").first().waitFor()
    await untilIs(() => page.getByRole("alert").count(), 0)
  })

  test("D94 a key gets a group and tags, and an end user of its calls is forgotten", async () => {
    const PERSON = "<b>ann@example.com</b>"
    const account = await latestAccount()
    const made = await gateway.admin<{ id: string; key: string }>("POST", `/accounts/${account}/keys`, {
      name: "tagged",
    })
    provider.replyOnce(json(200, chatCompletion("Hello")))
    await (await chat(gateway, made.key, { user: PERSON })).text()
    await visit(`#/accounts/${account}`)
    const row = page.getByRole("table", { name: "Keys" }).locator("tr", { hasText: "tagged" })
    const tags = { Labels: "team=search\nenv", "Required tags": "team", "Tags and end users": ["ignored"] }
    await act(row, "Tags tagged", { Group: "acme/search", ...tags }, "Set")
    await inDialog().getByRole("alert").waitFor()
    expect(await inDialog().getByLabel("Labels").getAttribute("aria-invalid")).toBe("true")
    await inDialog().getByLabel("Labels").fill("team=search\n env = prod")
    await inDialog().getByRole("button", { name: "Set" }).click()
    await row.getByText("env=prod").waitFor()
    const keys = await gateway.admin<{ data: object[] }>("GET", `/accounts/${account}/keys`)
    expect(keys.data.find((key) => "id" in key && key.id === made.id)).toMatchObject({
      group: "acme/search",
      labels: { team: "search", env: "prod" },
      required_tags: ["team"],
      client_tags: "ignored",
    })
    const user = rowsOf("End users")
    await user.getByRole("button", { name: `Forget ${PERSON}` }).click()
    await inDialog().getByText("Calls, charges and sums keep the id.").waitFor()
    await inDialog().getByRole("button", { name: "Forget" }).click()
    await inDialog().waitFor({ state: "detached" })
    await user.getByText(PERSON).waitFor({ state: "detached" })
    expect(await user.locator("td").nth(1).textContent()).toBe("1")
  })

  test("all of it works with the keyboard alone", async () => {
    await visit("#/")
    const focused = () =>
      page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel")
    await page.reload()
    await page.getByRole("heading", { level: 1 }).waitFor()
    await page.keyboard.press("Tab")
    expect(await focused()).toBe("Skip to the content")
    for (let tabs = 0; (await focused()) !== "Accounts" && tabs < 10; tabs++) await page.keyboard.press("Tab")
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    expect(outline).toBe("solid")
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1, name: "Accounts" }).waitFor()
    await main().locator("tbody tr").first().waitFor()
    expect(await focused()).toBe("Accounts")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await inDialog().getByLabel("Name").waitFor()
    await page.keyboard.insertText("Second")
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { level: 1, name: "Second" }).waitFor()
    await visit("#/accounts")
    await main().getByRole("searchbox").fill("SECO")
    await page.keyboard.press("Enter")
    await page.getByRole("link", { name: "Clear" }).waitFor()
    await main().getByRole("link", { name: "Second" }).waitFor()
    await untilIs(() => main().getByRole("link", { name: "onerror" }).count(), 0)
    await page.getByRole("link", { name: "Clear" }).press("Enter")
    await main().getByRole("link", { name: "onerror" }).waitFor()
    await main().getByRole("link", { name: "Second" }).focus()
    await page.keyboard.press("ArrowDown")
    expect(String(await focused())).toContain("onerror")
    await page.keyboard.press("ArrowUp")
    expect(await focused()).toBe("Second")

    const balance = main().getByRole("columnheader", { name: "Balance" })
    for (const [order, first] of [
      ["descending", "onerror"],
      ["ascending", "Second"],
    ] as const) {
      await balance.getByRole("button").press("Enter")
      expect(await balance.getAttribute("aria-sort")).toBe(order)
      await main().locator("tbody tr:first-child").getByText(first).waitFor()
      expect(page.url()).toEndWith(order === "descending" ? "sort=-balance" : "sort=balance")
    }
  })

  test("a session that the gateway ended asks for the token again, and signing out ends it at the gateway", async () => {
    await visit("#/audit")
    await gateway.sql`DELETE FROM tollgate.console_sessions`
    await page.getByRole("button", { name: "Run audit" }).click()
    await page.getByText("The session has ended.").waitFor()
    await page.getByLabel("Admin token").fill(ADMIN_TOKEN)
    await page.keyboard.press("Enter")
    await page.route("**/admin/session", (route) => route.abort())
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.getByRole("button", { name: "Still signed in" }).waitFor()
    await page.unroute("**/admin/session")
    await page.getByRole("button", { name: "Still signed in" }).click()
    await page.getByText("You have signed out.").waitFor()
    expect(await gateway.sql`SELECT FROM tollgate.console_sessions`).toHaveLength(0)
    expect(await browser.context.cookies()).toEqual([])
    await page.reload()
    await page.getByLabel("Admin token").waitFor()
  })
})
