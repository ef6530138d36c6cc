import { expect, test } from "bun:test"
import { FormatRegistry, type TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { isId, nextId } from "../../src/id.ts"
import { AccountBody, BalanceBody, CallBody, CreatedKeyBody, KeyBody, listOf } from "../../src/wire/admin.ts"
import { CreditedBody, GrantBody } from "../../src/wire/credit-bodies.ts"
import { AuditBody, AuditRecordBody } from "../../src/wire/ledger-checks.ts"
import { StatementBody, TrialBalanceBody } from "../../src/wire/statement.ts"
import { parseTime } from "../../src/wire/time.ts"
import { plantCall, testAdmin } from "./admin-harness.ts"

FormatRegistry.Set("uuid", isId)
FormatRegistry.Set("date-time", (text) => parseTime(text) !== null)
const adminApi = await testAdmin()
const account_id = await adminApi.openAccount()
const call_id = await plantCall(adminApi.database, {
  account_id,
  state: "settled",
  charge_nano: 6_000n,
  basis: "usage",
  ending: "completed",
  notes: ["overage"],
  ended_at: new Date(),
  prompt_tokens: 1,
  cached_tokens: 0,
  completion_tokens: 1,
  ttft_ms: 1,
  duration_ms: 2,
})
await plantCall(adminApi.database, { account_id: nextId() })

test.each<[string, string, unknown, TSchema]>([
  ["POST", "/admin/accounts", { name: "x" }, AccountBody],
  ["GET", "/admin/accounts", undefined, listOf(AccountBody)],
  ["GET", "/admin/accounts/{id}", undefined, AccountBody],
  ["GET", "/admin/accounts/{id}/balance?at=2026-11-01", undefined, BalanceBody],
  ["GET", "/admin/accounts/{id}/statements/2026-10", undefined, StatementBody],
  ["GET", "/admin/trial-balance", undefined, TrialBalanceBody],
  ["POST", "/admin/accounts/{id}/credits", { amount: "1", reason: "x" }, CreditedBody],
  ["GET", "/admin/accounts/{id}/credits", undefined, listOf(GrantBody)],
  [
    "POST",
    "/admin/accounts/{id}/keys",
    { models: ["m"], expires_at: "2999-01-01T00:00:00Z" },
    CreatedKeyBody,
  ],
  ["GET", "/admin/accounts/{id}/keys", undefined, listOf(KeyBody)],
  ["GET", "/admin/calls", undefined, listOf(CallBody)],
  ["GET", "/admin/calls/{call}", undefined, CallBody],
  ["GET", "/admin/audit", undefined, AuditBody],
  ["GET", "/admin/audits", undefined, listOf(AuditRecordBody)],
])("%s %s answers what the reference says, no field more or less", async (method, path, body, schema) => {
  const reply = await adminApi.ask(method, path.replace("{id}", account_id).replace("{call}", call_id), body)
  expect([...Value.Errors(schema, reply.body)].map(({ path, message }) => `${path}: ${message}`)).toEqual([])
  expect(Value.Clean(schema, structuredClone(reply.body)) as unknown).toEqual(reply.body)
})

test("the audit above had violations to show", async () => {
  expect((await adminApi.ask("GET", "/admin/audit")).body.violations.length).toBeGreaterThan(1)
})
