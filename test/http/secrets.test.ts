import { describe, expect, test } from "bun:test"
import type { Answer } from "../support/answer.ts"
import { ADMIN_TOKEN, PROVIDER_KEY } from "../support/gateway.ts"
import { expectError, expectIds } from "./errors.ts"
import { CANARY, testHarness } from "./harness.ts"

const harness = await testHarness()
const account = await harness.account()

const json_type = "content-type: application/json"
const admin = `authorization: Bearer ${ADMIN_TOKEN}`

/** The answer, and the log since the request, hold nothing of what was planted; nor any inside of the gateway. */
async function expectSilence(ask: () => Promise<Answer>, planted = CANARY): Promise<Answer> {
  const logged = harness.gateway.lines.length
  const answer = await ask()
  const said = [JSON.stringify(answer), ...harness.gateway.lines.slice(logged)].join("\n")
  for (const secret of [planted, account.key, PROVIDER_KEY, ADMIN_TOKEN]) expect(said).not.toContain(secret)
  return answer
}

describe("D16 a fault of the gateway's own shows nothing of the inside", () => {
  const asks: readonly (() => Promise<Answer>)[] = [
    () => harness.chat(account.key, { user: CANARY }),
    () => harness.count(account.key),
    () => harness.ask({ target: "/models", headers: [`authorization: Bearer ${account.key}`] }),
    () => harness.ask({ target: `/admin/accounts/${account.id}`, headers: [admin] }),
    () =>
      harness.ask({
        method: "POST",
        target: "/admin/accounts",
        headers: [json_type, admin],
        body: { name: CANARY },
      }),
  ]

  test("a table that was changed; the log says its code", async () => {
    const logged = harness.gateway.lines.length
    await harness.gateway
      .sql`ALTER TABLE tollgate.accounts RENAME COLUMN balance_nano TO balance_of_another_time`
    const answers = await Promise.all(asks.map((ask) => expectSilence(ask)))
    await harness.gateway
      .sql`ALTER TABLE tollgate.accounts RENAME COLUMN balance_of_another_time TO balance_nano`
    for (const answer of answers) {
      expectError(answer, answer.status === 500 ? "internal_error" : "ledger_unavailable", {
        message: /^(?!.*(balance_of|balance_nano|select|insert|postgres|42703|\.ts)).*$/i,
      })
      const lines = harness.gateway.lines.slice(logged).filter((line) => line.includes(expectIds(answer)))
      expect(lines.join("")).toContain("42703")
    }
    expect((await harness.chat(account.key)).status).toBe(200)
  })
})
