import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import { BROWSER, type Browser, browserless, openBrowser, watchedPage } from "../support/browser.ts"
import { until } from "../support/gateway.ts"
import { referenceApp } from "./reference-app.ts"

const app = referenceApp()
const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => app.handle(request) })
const origin = `http://127.0.0.1:${server.port}`
afterAll(() => server.stop(true))

describe("the files of /docs", () => {
  const files = [
    ["/docs", "text/html; charset=utf-8"],
    ["/docs/json", "application/json"],
    ["/docs/assets/page.css", "text/css; charset=utf-8"],
    ["/docs/assets/page.js", "text/javascript; charset=utf-8"],
    ["/docs/assets/icon.svg", "image/svg+xml"],
    ["/docs/assets/swagger-ui.css", "text/css; charset=utf-8"],
    ["/docs/assets/swagger-ui-bundle.js", "text/javascript; charset=utf-8"],
  ] as const

  test.each(files)("%s is %s, asked again only whether it changed", async (path, type) => {
    const first = await fetch(origin + path)
    expect(first.status).toBe(200)
    expect(first.headers.get("content-type")).toBe(type)
    expect(first.headers.get("cache-control")).toBe("no-cache")
    expect((await first.bytes()).length).toBeGreaterThan(100)
    const etag = first.headers.get("etag") ?? "none"
    const second = await fetch(origin + path, { headers: { "if-none-match": etag } })
    expect([second.status, await second.text(), second.headers.get("etag")]).toEqual([304, "", etag])
    expect((await fetch(origin + path, { headers: { "if-none-match": '"other"' } })).status).toBe(200)
  })

  test.each([
    "/docs/assets/package.json",
    "/docs/assets/swagger-ui.js",
    "/docs/assets/constructor",
    "/docs/assets/..%2Fpage.html",
    "/docs/assets/%2e%2e%2f%2e%2e%2ferrors.ts",
    "/page",
    "/document",
  ])("%s is not served", async (path) => {
    expect((await fetch(origin + path)).status).toBe(404)
  })

  test("the page of the plugin, which loads a script from another host, is served nowhere", async () => {
    const pages = app.routes.filter(({ method, path }) => method === "GET" && !path.includes(":"))
    expect(pages.length).toBeGreaterThan(10)
    for (const { path } of pages) {
      const text = await (await fetch(origin + path)).text()
      expect({ path, loads: /<(?:script|link)[^>]*https?:/.exec(text)?.[0] }).toEqual({
        path,
        loads: undefined,
      })
    }
  })

  test("nothing of the page may come from elsewhere or stand inline", async () => {
    const policy = (await fetch(`${origin}/docs`)).headers.get("content-security-policy") ?? ""
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toContain("unsafe")
    expect(policy).not.toContain("http")
  })
})

describe.skipIf(browserless("/docs renders"))(`/docs in headless Chromium (${BROWSER})`, () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await openBrowser({ width: 1280, height: 1000 })
  })

  afterAll(() => browser.close())

  /** Opens the reference and keeps book of all it asks for and complains of. */
  async function open(path: string) {
    const { page, requests, complaints } = await watchedPage(browser)
    page.on("response", (response) => {
      if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`)
    })
    await page.emulateMedia({ colorScheme: "light" })
    await page.goto(origin + path)
    await page.waitForSelector(".opblock", { timeout: 0 })
    return { page, requests, complaints }
  }

  const shown = (page: Page, selector: string) => page.locator(selector).allInnerTexts()

  async function expectAllErrors(page: Page): Promise<void> {
    const document = await (await fetch(`${origin}/docs/json`)).text()
    const told = document.match(/\| \d{3} \| `\w+` \|/g) ?? []
    const rows = page.locator(".info details tbody tr")
    expect(await rows.count()).toBe(told.length)
    expect(await rows.first().isVisible()).toBeFalse()
    await page.locator(".info details summary").click()
    expect(await rows.last().textContent()).toContain("raise the timeouts")
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 })
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0)
    }
  }

  test("shows every operation and error, at the width of a desktop and of a phone, light and dark, without a complaint", async () => {
    const { page, requests, complaints } = await open("/docs")
    expect(await page.title()).toBe("Tollgate API reference")
    const paths = await shown(page, ".opblock-summary-path")
    expect(paths.map((path) => path.replaceAll("\u200b", "").trim())).toContain("/v1/chat/completions")
    expect(paths).toHaveLength(
      app.routes
        .filter(({ method, path }) => method !== "ALL" && method !== "OPTIONS" && !path.includes("*"))
        .filter(({ path }) => !["/console/", "/account/"].includes(path)).length,
    )
    expect(await shown(page, ".info h2")).toContain("How a call is billed")
    await expectAllErrors(page)
    const ground = () => page.evaluate("getComputedStyle(document.body).backgroundColor")
    expect(await ground()).toBe("rgb(255, 255, 255)")
    await page.emulateMedia({ colorScheme: "dark" })
    await until(ground, (color) => color !== "rgb(255, 255, 255)")
    expect(requests.length).toBeGreaterThan(5)
    expect(requests.filter((url) => !url.startsWith(`${origin}/docs`) && !url.startsWith("data:"))).toEqual(
      [],
    )
    expect(complaints).toEqual([])
    await page.close()
  })

  test("opens at an operation, with its examples, again without a request to another host", async () => {
    const { page, requests, complaints } = await open("/docs#/Calls/createChatCompletion")
    await page.waitForSelector(".opblock.is-open .responses-wrapper", { timeout: 0 })
    expect((await shown(page, ".opblock.is-open")).join()).toContain("insufficient_balance")
    expect(requests.filter((url) => !url.startsWith(`${origin}/docs`) && !url.startsWith("data:"))).toEqual(
      [],
    )
    expect(complaints).toEqual([])
    await page.close()
  })
})
