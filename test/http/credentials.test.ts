import { describe, expect, test } from "bun:test"
import { checksumHolds, makeKey } from "../../src/admission/key.ts"
import { chatWords, type Exchange, sseEvent, usage, usageChunk } from "../support/provider.ts"
import { type Code, expectError, type Said } from "./errors.ts"
import { chatBody, countBody, testHarness } from "./harness.ts"

const harness = await testHarness()
const account = await harness.account()
const key = account.key

const version = "anthropic-version: 2023-06-01"
const kind = "content-type: application/json"

/** The operations with all they need but a credential; `query` follows the path. */
const operations = {
  chat: (headers: readonly string[], query = "") =>
    harness.ask({
      method: "POST",
      target: `/v1/chat/completions${query}`,
      headers: [kind, ...headers],
      body: chatBody(),
    }),
  count: (headers: readonly string[], query = "") =>
    harness.ask({
      method: "POST",
      target: `/v1/messages/count_tokens${query}`,
      headers: [kind, version, ...headers],
      body: countBody(),
    }),
  list: (headers: readonly string[], query = "") => harness.ask({ target: `/v1/models${query}`, headers }),
  "versioned list": (headers: readonly string[], query = "") =>
    harness.ask({ target: `/models/${query}`, headers: [version, ...headers] }),
} as const
type Operation = keyof typeof operations
const ALL: readonly Operation[] = ["chat", "count", "list", "versioned list"]
const NAMED: readonly Operation[] = ["count", "versioned list"]

/** Each of `names` answers a request with these headers with this error. */
async function expectRefused(
  names: readonly Operation[],
  headers: readonly string[],
  code: Code,
  said: Said = {},
) {
  await Promise.all(names.map(async (name) => expectError(await operations[name](headers), code, said)))
}

/** The statuses of `names`, for a request with these headers. */
async function statuses(names: readonly Operation[], headers: readonly string[]): Promise<number[]> {
  return Promise.all(names.map(async (name) => (await operations[name](headers)).status))
}

describe("D20 what is no credential is a 401, and starts nothing", () => {
  const rows: readonly [what: string, names: readonly Operation[], headers: () => string[]][] = [
    ["none at all", ALL, () => []],
    ["Authorization twice", ALL, () => [`authorization: Bearer ${key}`, `authorization: Bearer ${key}`]],
    ["x-api-key twice", NAMED, () => [`x-api-key: ${key}`, `x-api-key: ${key}`]],
  ]
  test.each(rows)("%s", async (_, names, headers) => {
    await harness.untouched(account.id, () => expectRefused(names, headers(), "invalid_api_key"))
  })

  test.each([...ALL])("a key in the query string of %s", async (name) => {
    const query = `?key=${key}&api_key=${key}&access_token=${key}&x-api-key=${key}&authorization=Bearer%20${key}`
    await harness.untouched(account.id, async () => {
      expectError(await operations[name]([], query), "invalid_api_key")
    })
  })

  test("whatever is wrong with a key, the answer says the same", async () => {
    const revoked = await harness.key(account.id, {})
    await harness.gateway.admin("DELETE", `/keys/${revoked.id}`)
    const messages: string[] = []
    for (const bad of ["", "nonsense", makeKey(), revoked.key, `${key.slice(0, -1)}_`]) {
      messages.push(expectError(await operations.chat([`authorization: Bearer ${bad}`]), "invalid_api_key"))
    }
    expect(new Set(messages).size).toBe(1)
  })
})

describe("D20 where a key is taken from", () => {
  const rows: readonly [what: string, names: readonly Operation[], headers: () => string[]][] = [
    ["a bearer token", ALL, () => [`authorization: Bearer ${key}`]],
    ["x-api-key", NAMED, () => [`X-API-Key: ${key}`]],
  ]
  test.each(rows)("%s", async (_, names, headers) => {
    expect(await statuses(names, headers())).toEqual(names.map(() => 200))
  })
})

test("D26 a wrong checksum is refused without the database, which an unknown key needs", async () => {
  const wrong = `${key.slice(0, -1)}${key.endsWith("x") ? "y" : "x"}`
  expect(checksumHolds(wrong)).toBe(false)
  await harness.gateway.sql.begin(async (sql) => {
    await sql`LOCK TABLE tollgate.keys IN ACCESS EXCLUSIVE MODE`
    const unknown = [`authorization: Bearer ${makeKey()}`]
    const waiting = expectRefused(["chat", "list"], unknown, "ledger_unavailable")
    await expectRefused(ALL, [`authorization: Bearer ${wrong}`], "invalid_api_key")
    await waiting
  })
  expect(await statuses(ALL, [`authorization: Bearer ${key}`])).toEqual([200, 200, 200, 200])
})

describe("D26 what changes about a key holds for the next request", () => {
  test("revoked: every operation refuses it at once, and what runs goes on", async () => {
    const revoked = await harness.key(account.id, {})
    const authorization = [`authorization: Bearer ${revoked.key}`]
    expect(await statuses(ALL, authorization)).toEqual([200, 200, 200, 200])
    const started = Promise.withResolvers<Exchange>()
    harness.provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(chatWords("one").map(sseEvent).join(""))
      started.resolve(exchange)
    })
    const running = harness.chat(revoked.key, { stream: true })
    const exchange = await started.promise
    await harness.gateway.admin("DELETE", `/keys/${revoked.id}`)
    await harness.untouched(account.id, () => expectRefused(ALL, authorization, "invalid_api_key"))
    await exchange.chunk(`${sseEvent(usageChunk(usage(10, 5)))}data: [DONE]\n\n`)
    await exchange.end()
    const { body, headers } = await running
    expect(body).toEndWith("data: [DONE]\n\n")
    expect(await harness.gateway.call(headers["x-request-id"] ?? "")).toMatchObject({
      state: "settled",
      basis: "usage",
    })
  })
})
