import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type BrowserContext, chromium, type Page } from "playwright-core"
import { isMissing } from "./external.ts"

export const BROWSER = "/usr/bin/chromium"

export const browserless = (what_is_not_shown: string) => isMissing(BROWSER, what_is_not_shown)

export interface Browser {
  readonly context: BrowserContext
  close(): Promise<void>
}

/** Headless Chromium with a profile of its own, which asks nobody but the pages it is sent to. */
export async function openBrowser(viewport: { width: number; height: number }): Promise<Browser> {
  const profile = await mkdtemp(join(tmpdir(), "tollgate-chromium-"))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: BROWSER,
    headless: true,
    viewport,
    timeout: 0,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  })
  // As of `until`, the test's own timeout is the limit.
  context.setDefaultTimeout(0)
  return {
    context,
    async close() {
      await context.close()
      await rm(profile, { recursive: true, force: true })
    },
  }
}

/** A new page with the addresses that it asks for, and what it complains of: errors and warnings. */
export async function watchedPage({ context }: Browser): Promise<{
  readonly page: Page
  readonly requests: string[]
  readonly complaints: string[]
}> {
  const page = await context.newPage()
  const requests: string[] = []
  const complaints: string[] = []
  page.on("request", (request) => requests.push(request.url()))
  page.on("pageerror", (error) => complaints.push(error.message))
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text())
  })
  return { page, requests, complaints }
}
