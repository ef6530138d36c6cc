import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { csvOf, csvRows, ndjsonOf } from "../../src/wire/csv.ts"
import { linesIn, plantCall, send, testAdmin } from "./admin-harness.ts"

/** D105: every list can be CSV and NDJSON, by one hook. */

const key_id = nextId()

const adminApi = await testAdmin()
const account_id = await adminApi.openAccount()
const at = { account_id, key_id, state: "settled", basis: "usage", charge_nano: 4_000n } as const
for (const model of ["one", "two", '=cmd|"x"'])
  await plantCall(adminApi.database, { ...at, model, ended_at: new Date() })
for (const amount of ["10", "-2.5"])
  await adminApi.ask("POST", `/admin/accounts/${account_id}/credits`, { amount, reason: `a, "b"` })

async function ask(path: string, accept?: string) {
  const { app } = adminApi
  const { status, headers, text } = await send(
    app,
    "GET",
    `/admin${path}`,
    undefined,
    accept ? { accept } : {},
  )
  return { status, type: headers.get("content-type"), headers, text }
}

const PATHS = [
  "/accounts",
  `/accounts/${account_id}/credits`,
  `/accounts/${account_id}/keys`,
  "/calls",
  "/usage?by=model,day,key",
  "/usage?by=model",
  "/outcomes",
  "/refusals",
  "/attempts",
  "/audits",
  "/journal",
  "/trial-balance",
  "/log",
]

test("D105 the lines of a list are the entries of its JSON, whatever the list", async () => {
  await ask("/audit")
  for (const path of PATHS) {
    const to = path.includes("?") ? "&" : "?"
    const whole: { data: Record<string, unknown>[] } = JSON.parse((await ask(path)).text)
    const lines = await ask(`${path}${to}format=ndjson`)
    expect([path, lines.status, lines.type]).toEqual([path, 200, "application/x-ndjson"])
    expect(linesIn(lines.text)).toEqual(whole.data)
    const csv = await ask(path, "text/csv, */*;q=0.1")
    expect([path, csv.status, csv.type]).toEqual([path, 200, "text/csv; charset=utf-8"])
    expect(csv.headers.get("cache-control")).toBe("no-store")
    const rows = csvRows(csv.text) ?? []
    expect([path, csv.text === "" ? 0 : rows.length]).toEqual([path, whole.data.length])
    for (const [at, row] of rows.entries())
      for (const [name, value] of Object.entries(whole.data[at] ?? {}))
        if (typeof value === "number" || typeof value === "boolean") expect(row.get(name)).toBe(String(value))
  }
})

test("D105 groups of several dimensions are columns, and no cell is a formula", async () => {
  const { text } = await ask("/usage?by=model,key&format=csv")
  const rows = csvRows(text) ?? []
  expect(rows.map((row) => row.get("groups.model")).toSorted()).toEqual([`'=cmd|"x"`, "one", "two"])
  expect(rows.map((row) => [row.get("groups.key"), row.get("charge")])).toEqual(
    rows.map(() => [key_id, "0.000004"]),
  )
  const credits = csvRows((await ask(`/accounts/${account_id}/credits?format=csv`)).text) ?? []
  expect(credits.map((row) => [row.get("amount"), row.get("reason")])).toEqual([
    ["-2.5", `a, "b"`],
    ["10", `a, "b"`],
  ])
})

test("D105 the next page and what is left out are in headers", async () => {
  const { headers, text } = await ask(`/accounts/${account_id}/credits?limit=1&format=csv`)
  expect(csvRows(text)).toHaveLength(1)
  const link = /^<\/admin(.*)>; rel="next"$/.exec(headers.get("link") ?? "")?.[1] ?? ""
  const next = await ask(link)
  expect(csvRows(next.text)?.map((row) => row.get("amount"))).toEqual(["10"])
  expect(next.headers.get("link")).toBeNull()
})

describe("D105 the format of an answer", () => {
  test.each([
    ["/accounts?format=xml", undefined, 400],
    [`/accounts/ID?format=csv`, undefined, 400],
    ["/accounts?format=csv&format=json", undefined, 200],
    ["/accounts?format=json", "text/csv", 200],
    ["/accounts", "application/json, text/csv", 200],
    ["/accounts", "*/*", 200],
    ["/accounts/ID", "text/csv", 200],
    ["/accounts?format=csv&canary=1", undefined, 400],
  ])("%s with %p is %p", async (path, accept, status) => {
    const found = await ask(path.replace("ID", account_id), accept)
    expect(found.status).toBe(status)
    if (accept !== undefined) expect(found.type).toStartWith("application/json")
  })
})

test("D105 CSV reads back to the same texts, and NDJSON to the same values", () => {
  const cell = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constantFrom("a,b", 'a"b', "a\nb", "-1.5", "+1", "=x"),
  )
  const rows = fc.array(fc.record({ one: cell, two: fc.record({ three: cell, four: fc.constant(null) }) }), {
    minLength: 1,
  })
  fc.assert(
    fc.property(rows, (list) => {
      const read = csvRows(csvOf(list)) ?? []
      const textOf = (value: unknown) => String(value)
      const plain = (value: string | undefined) => (value ?? "").replace(/^'(?=[=+\-@\t\r])/, "")
      expect(
        read.map((row) => [plain(row.get("one")), plain(row.get("two.three")), row.get("two.four")]),
      ).toEqual(
        list.map(({ one, two }) => [
          textOf(one).replace(/^'(?=[=+\-@\t\r])/, ""),
          textOf(two.three).replace(/^'(?=[=+\-@\t\r])/, ""),
          "",
        ]),
      )
      expect(linesIn(ndjsonOf(list))).toEqual(list)
    }),
  )
})
