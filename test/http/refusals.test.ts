import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import type { Runner } from "../../src/ledger/database/connection.ts"
import { RefusalQueue } from "../../src/ledger/queue/refusals.ts"
import type { RefusalsBody } from "../../src/wire/refusals.ts"
import { type } from "../cli/command.ts"
import { ADMIN_TOKEN, CHAT, chat } from "../support/gateway.ts"
import { json } from "../support/provider.ts"
import { testPair } from "../support/test-gateway.ts"

/** D80: what a gateway refuses, and what the operator sees at another gateway of the same database. */

const { provider, gateway, other } = await testPair({
  changes: { limits: { per_key: { requests_per_minute: 5 } } },
  other_changes: {},
})
const poor = await other.account("0")
const spent = await other.account("10")
const revoked = await other.account("10")
await other.admin("DELETE", `/keys/${revoked.key_id}`)

async function refuse(key: string, body: object = {}): Promise<string> {
  const answer = await chat(gateway, key, body)
  const { error } = JSON.parse(new TextDecoder().decode(await answer.bytes()))
  return error.code
}

const refusals = (query = "") => other.admin<RefusalsBody>("GET", `/refusals${query}`)

/** It has the checksum of a key, and nobody has it. */
const UNKNOWN = makeKey()

describe("D80 refused calls", () => {
  test("are counted by account, key and code, and written when the process stops", async () => {
    const codes = [
      await refuse("malformed"),
      await refuse(UNKNOWN),
      await refuse(revoked.key),
      await refuse(poor.key),
      await refuse(poor.key),
      await refuse(poor.key, { model: "nothing" }),
      await refuse(poor.key, { messages: "none" }),
      await refuse(poor.key),
      await refuse(poor.key),
    ]
    expect(codes).toEqual([
      "invalid_api_key",
      "invalid_api_key",
      "invalid_api_key",
      "insufficient_balance",
      "insufficient_balance",
      "model_not_found",
      "invalid_request",
      "insufficient_balance",
      "rate_limited",
    ])
    expect((await refusals()).data).toEqual([])
    await gateway.stop()
    const { data } = await refusals()
    expect(data.map(({ account, key, code, requests }) => [account, key, code, requests])).toEqual(
      expect.arrayContaining([
        [null, null, "invalid_api_key", 2],
        [revoked.id, revoked.key_id, "invalid_api_key", 1],
        [poor.id, poor.key_id, "insufficient_balance", 3],
        [poor.id, poor.key_id, "model_not_found", 1],
        [poor.id, poor.key_id, "invalid_request", 1],
        [poor.id, poor.key_id, "rate_limited", 1],
      ]),
    )
    expect(data).toHaveLength(6)
    expect(data[0]).toMatchObject({ code: "insufficient_balance", account_name: "test" })
  })

  test.each([
    ["an account", () => `?account=${poor.id}`, 4],
    ["an account without refusals", () => `?account=${spent.id}`, 0],
    ["a key", () => `?key=${revoked.key_id}`, 1],
    ["a code", () => "?code=invalid_api_key", 2],
    ["a time before them", () => "?from=2026-01-01&to=2026-01-02", 0],
    ["a time with them", () => "?from=2026-01-01&to=2036-01-01", 6],
  ])("are filtered by %s", async (_, query, rows) => {
    expect((await refusals(query())).data).toHaveLength(rows)
  })

  test("of a call that was held and then failed, nothing is counted", async () => {
    provider.replyOnce(json(400, { error: { message: "no" } }))
    expect((await chat(other, spent.key, { model: CHAT })).status).toBe(400)
    expect((await refusals(`?account=${spent.id}`)).data).toEqual([])
  })

  test("are shown by the command line", async () => {
    const env = { TOLLGATE_URL: other.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
    const { code, out } = await type(["refusals", "--account", poor.id, "--code", "rate_limited"], env)
    expect(code).toBe(0)
    expect(out.split("\n")[1]).toMatch(/^test +\S+ +rate_limited +1 /)
    expect((await type(["refusals", "--to", "2026-01-01"], env)).out).toContain("No refused calls")
    expect((await type(["refusals", "--from", "2026-01-02", "--to", "2026-01-01"], env)).err).toContain(
      "a time before `to`",
    )
  })

  test("are written in one statement, with at most 10,000 keys and codes", async () => {
    const written: { account_id: string; requests: number }[] = []
    const runner: Runner = {
      async run(_, [rows]) {
        written.push(...JSON.parse(rows ?? "[]"))
        return []
      },
    }
    const queue = new RefusalQueue()
    for (let at = 0; at < 10_050; at++) {
      queue.add({ owner: { account_id: "a", key_id: String(at) }, code: "rate_limited" })
    }
    await queue.write(runner, 1_000)
    expect(written).toHaveLength(10_001)
    expect(written.filter(({ account_id }) => account_id !== "a").map(({ requests }) => requests)).toEqual([
      50,
    ])
    await queue.write(runner, 1_000)
    expect(written).toHaveLength(10_001)
  })
})
