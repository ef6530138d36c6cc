import { afterAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { drizzle } from "drizzle-orm/postgres-js"
import { nextId } from "../../src/id.ts"
import { MAX_GROUPS } from "../../src/ledger/reports/usage-sums.ts"
import { csvRows } from "../../src/wire/csv.ts"
import type { StatementBody, TrialBalanceBody } from "../../src/wire/statement.ts"
import { plantCalls } from "../admin/admin-harness.ts"
import { falsify } from "../ledger/test-database.ts"
import { testFolder } from "../support/folder.ts"
import { ADMIN_TOKEN, CHAT, chat, startGateway } from "../support/gateway.ts"
import { HELLO, startProvider } from "../support/provider.ts"
import { type } from "./command.ts"

/** What a person from finance types, at a gateway. */

const NAME = '<script>alert("1")</script> & Söhne\u202e'
const MONTH = new Date().toISOString().slice(0, 7)

const provider = await startProvider()
provider.reply(HELLO)
const gateway = await startGateway(provider)
const folder = testFolder()
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
})
const account = await gateway.account("10")
await gateway.admin("PATCH", `/accounts/${account.id}`, { name: NAME })
const answer = await chat(gateway, account.key)
await answer.bytes()
const call = answer.headers.get("x-request-id") ?? ""

function run(...words: readonly string[]) {
  const env = {
    TOLLGATE_URL: gateway.url,
    TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN,
    TOLLGATE_DATA_DIR: gateway.data_dir,
  }
  return type(words, env)
}

test("D106 a statement of the month has the credits by kind, the charges by model and a page to print", async () => {
  expect((await run("credit", account.id, "0.00001", "--call", call)).code).toBe(0)
  expect((await run("credit", account.id, "-0.5", "--reason", "twice")).code).toBe(0)
  const file = join(folder, "statement.html")
  const { code, out } = await run("statement", account.id, MONTH, "--json", "--html", file)
  expect(code).toBe(0)
  const found: StatementBody = JSON.parse(out)
  expect(found).toMatchObject({
    ...{ account_name: NAME, month: MONTH, is_final: false, opening: "0", expired: "0", voided: "0" },
    credits: [
      { kind: "payment", credits: 1, amount: "10" },
      { kind: "refund", credits: 1, amount: "0.00001" },
      { kind: "correction", credits: 1, amount: "-0.5" },
    ],
    charges: [{ model: CHAT, calls: 1, prompt_tokens: 10, completion_tokens: 5, charge: "0.00003" }],
    ...{ credited: "9.50001", charged: "0.00003", closing: "9.49998" },
  })
  const page = readFileSync(file, "utf8")
  expect(page).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; Söhne\ufffd")
  expect(page).not.toMatch(/<script|https?:|\u202e/)
  for (const amount of ["0.00000", "10.00000", "-0.50000", "-0.00003", "9.49998"])
    expect(page).toContain(`<td>${amount}</td>`)
  const rows = csvRows((await run("statement", account.id, MONTH, "--csv")).out) ?? []
  expect(rows.map((row) => row.get("account_id"))).toEqual(rows.map(() => account.id))
  expect(rows.at(-1)).toEqual(
    new Map([
      ...Object.entries({ account_id: account.id, account_name: NAME, month: MONTH, line: "closing" }),
      ...Object.entries({ of: "", amount: "9.49998", currency: "USD", count: "" }),
      ...Object.entries({ prompt_tokens: "", cached_tokens: "", completion_tokens: "" }),
    ]),
  )
  const text = (await run("statement", account.id, MONTH)).out
  expect(text).toMatch(/^closing balance +9\.49998 USD$/m)
  expect(text).toMatch(/^refund +1 +0\.00001$/m)
})

test("D48 usage of a time range that is not over says so", async () => {
  const ranges: readonly [string, string][] = [
    [`${MONTH}-01`, new Date(Date.now() + 86_400_000).toISOString()],
    ["2026-01-01", "2026-01-02"],
  ]
  const said = await Promise.all(ranges.map(([from, to]) => run("usage", "--from", from, "--to", to)))
  expect(said.map(({ err }) => err.includes("(not over yet)"))).toEqual([true, false])
})

test("D106 debits and credits are equal, unless a balance was changed without an entry", async () => {
  const { code, out } = await run("trial-balance", "--json")
  const found: TrialBalanceBody = JSON.parse(out)
  expect({ code, ...found }).toMatchObject({
    code: 0,
    difference: "0",
    debit: found.credit,
    balance: "9.49998",
  })
  const sides = Object.fromEntries(found.data.map(({ line, debit, credit }) => [line, [debit, credit]]))
  expect(sides).toEqual({
    ...{ payment: ["10", "0"], refund: ["0.00001", "0"], correction: ["0", "0.5"] },
    ...{ charges: ["0", "0.00003"], expired: ["0", "0"], voided: ["0", "0"] },
    ...{ balances: ["0", "9.49998"], debts: ["0", "0"] },
  })
  const before = await run("trial-balance", "--at", "2026-01-01", "--json")
  expect(JSON.parse(before.out)).toMatchObject({ accounts: 0, debit: "0", credit: "0", balance: "0" })
  const shift = (nano: number) =>
    falsify(gateway.sql, (tx) => tx`UPDATE tollgate.accounts SET balance_nano = balance_nano + ${nano}`)
  await shift(1)
  const wrong = await run("trial-balance")
  await shift(-1)
  expect(wrong).toMatchObject({ code: 1 })
  expect(wrong.err).toContain("debits and credits differ")
})

test("D105 usage as CSV and NDJSON has all groups", async () => {
  const calls = Array.from({ length: MAX_GROUPS }, () => ({ id: nextId(), account_id: nextId() }))
  await plantCalls(
    drizzle(gateway.sql),
    calls.map((call) => ({ ...call, ended_at: new Date(), state: "settled", charge_nano: 1n })),
  )
  const asked = ["usage", "--by", "account,day"]
  const shown = await run(...asked)
  expect(shown.err).toContain("1 more groups are not shown; the total includes them.")
  const csv = await run(...asked, "--csv")
  expect([csv.code, csv.err, csvRows(csv.out)?.length]).toEqual([0, "", MAX_GROUPS + 1])
  const lines = await run(...asked, "--ndjson")
  expect(lines.out.trimEnd().split("\n")).toHaveLength(MAX_GROUPS + 1)
})

test("D95 a credit shows when it expires, and a repeat says that nothing was moved", async () => {
  const asked = ["credit", account.id, "1", "--ref", "pi_118", "--expires", "2999-12-31"]
  const first = await run(...asked)
  expect(first).toMatchObject({ code: 0, err: "" })
  expect(first.out).toMatch(/^expires +2999-12-31 00:00:00 UTC$/m)
  const again = await run(...asked)
  expect(again).toMatchObject({ code: 0, out: first.out, err: "Already credited: nothing was moved.\n" })
})

test("D107 audits say whether the entries of sealed months were read, and up to when entries count", async () => {
  await run("audit")
  await run("audit", "--full")
  const { data } = JSON.parse((await run("audits", "--json")).out)
  expect(data.map(({ actor, scope }: Readonly<Record<string, string>>) => [actor, scope])).toEqual([
    ["configured", "all"],
    ["configured", "open"],
  ])
  for (const { entries_until, started_at } of data)
    expect(Date.parse(started_at) - Date.parse(entries_until)).toBeWithin(0, 600_000)
  const [head = "", ...lines] = (await run("audits")).out.trim().split("\n")
  for (const title of ["BY", "SCOPE", "VIOLATIONS", "ENTRIES UNTIL", "SHA-256"]) expect(head).toContain(title)
  expect(lines.map((line) => /configured +(open \(seals\)|all) /.exec(line)?.[1])).toEqual([
    "all",
    "open (seals)",
  ])
})
