import { existsSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type BrowserContext, chromium } from "playwright-core"

export const BROWSER = "/usr/bin/chromium"

/** Whether there is no browser; then it says in the test's output what is not shown. */
export function browserless(what_is_not_shown: string): boolean {
  const is_absent = !existsSync(BROWSER)
  if (is_absent) console.warn(`SKIPPED: no ${BROWSER}, so nothing shows that ${what_is_not_shown}`)
  return is_absent
}

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
  return {
    context,
    async close() {
      await context.close()
      await rm(profile, { recursive: true, force: true })
    },
  }
}
