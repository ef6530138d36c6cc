import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { expectError } from "../http/errors.ts"
import { chatDraft, countDraft, type Harness, openHarness } from "../http/harness.ts"
import { until } from "../support/gateway.ts"
import { type RawClient, rawClient } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"

const FLOOD = 60
/** Places for large bodies of keys that nobody has, of one address in a second. The flood may last a second more. */
const LOOKED_UP = 2 * 15

let harness: Harness
const clients: RawClient[] = []
beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())

/** The head of a request whose body has 20 MiB. */
function headOf({ headers = [], target = "/" }: Draft): Uint8Array {
  return requestBytes({ method: "POST", target, headers: [...headers, "content-length: 20971520"] })
}

/** The status that such a request gets. */
async function refused(draft: Draft): Promise<number> {
  const client = await rawClient(harness.gateway)
  clients.push(client)
  client.send(headOf(draft))
  return (await client.answered(() => true)).status
}

describe("D77 a flood of large bodies with made-up keys", () => {
  test.each([
    ["calls", chatDraft],
    ["token counts", countDraft],
  ])("of %s: few are looked up, the others are refused immediately", async (_, draft) => {
    await until(
      () => refused(draft(makeKey())),
      (status) => status === 401,
    )
    const flood = Array.from({ length: FLOOD }, () => refused(draft(makeKey())))
    const { key } = await harness.account()
    // The gateway has not seen this key. A short body needs no place.
    expect((await harness.chat(key)).status).toBe(200)
    const content = "x".repeat(200_000)
    expect((await harness.chat(key, { messages: [{ role: "user", content }] })).status).toBe(200)
    const statuses = await Promise.all(flood)
    expect(new Set(statuses)).toEqual(new Set([401, 503]))
    expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(LOOKED_UP)
    for (const client of clients.splice(0)) client.leave()
  })

  test("a new key with a large body is told to retry", async () => {
    const { key } = await harness.account()
    await Promise.all(Array.from({ length: FLOOD }, () => refused(chatDraft(makeKey()))))
    const content = "x".repeat(200_000)
    expectError(await harness.chat(key, { messages: [{ role: "user", content }] }), "overloaded", {
      headers: { "retry-after": "1" },
    })
    for (const client of clients.splice(0)) client.leave()
  })
})
