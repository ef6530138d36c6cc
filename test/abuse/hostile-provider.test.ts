import { test } from "bun:test"
import { expectError } from "../http/errors.ts"
import { testHarness } from "../http/harness.ts"

/** Providers that break the rules of HTTP to take memory. */

const LIMIT_KIB = 64

const harness = await testHarness({ limits: { response: `${LIMIT_KIB}KiB`, response_read: "1MiB" } })

test("D5 D31 a length beside chunks does not lift the limit of a body", async () => {
  const { key } = await harness.account()
  const body = JSON.stringify({ padding: "x".repeat(2 * LIMIT_KIB * 1024) })
  harness.provider.replyOnce(async (exchange) => {
    await exchange.head(200, { "content-length": "5" })
    await exchange.chunk(body)
    await exchange.end()
  })
  expectError(await harness.chat(key), "response_too_large")
})
