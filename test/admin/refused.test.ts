import { expect, test } from "bun:test"
import type { TSchema } from "@sinclair/typebox"
import { nextId } from "../../src/id.ts"
import { mount, operationsOf, refusal, testAdmin } from "./admin-harness.ts"

/** Queries and bodies that are refused, and the parameter that the error names; null for an unknown one, and for no object. */

const adminApi = await testAdmin()
const account = await adminApi.openAccount()
const balance = `accounts/${nextId()}/balance`
const HOURS = "by=day,hour&from=2026-01-01&to=2026-03-01"
const foreign = Buffer.from('[["main","x",false,"1","y"]]').toString("base64url")

const rows: readonly (readonly [path: string, param: string | null, ...queries: readonly string[]])[] = [
  ["accounts", "limit", "limit=0", "limit=1001", "limit=-1", "limit=1.5", "limit=1e2", "limit=0x10"],
  ["accounts", "limit", "limit=", "limit=all", "limit=5&limit=6"],
  ["accounts", "after", "after=", "after=5", "after='%20OR%20true"],
  ["accounts", null, "offset=5"],
  ["calls", "account", "account=x", "account="],
  ["calls", "key", "key=tg_live_abc"],
  ["calls", "model", "model=", "model=%00", `model=${"x".repeat(257)}`],
  ["calls", "tag", "tag=", "tag=team", "tag=Team=a", "tag=team=%00", "tag=team=a=b"],
  ["calls", "state", "state=closed", "state=OPEN", "state=", "state=open&state=settled"],
  ["calls", "failure", "failure=none", "failure=", "failure=no_output'--"],
  ["calls", "from", "from=2026-11", "from=2026-11-21T10:00:00", "from=2026-02-30T00:00:00Z"],
  ["calls", "from", "from=0000-01-01T00:00:00Z"],
  ["calls", "to", "to=now", "to=1795254740", "to=2026-11-21T24:00:00Z", "to=2026-11-21T10:00:00+02:00"],
  ["calls", "limit", "limit=0", "limit=1001"],
  ["calls", "after", "after=x"],
  ["calls", null, "acount=x", "toString=x", "state[]=open"],
  ["usage", "from", "from=2024-01-01&to=2025-01-01T00:00:00.001Z", "from=2026-11-02&to=2026-11-01"],
  ["usage", "from", "from=2026-11-01&to=2026-12-02T00:00:00.001Z&by=hour", "from=9999-01-01", HOURS],
  ["usage", "from", "from=2026-02-30", "from=yesterday"],
  ["usage", "to", "to=2026-11"],
  ["usage", "by", "by=week", "by=", "by=day&by=day", "by=day,model,day", "by=day,week"],
  ["usage", "by", "by=model,operation,key,session,day"],
  ["usage", "account", "account=x"],
  ["usage", "key", "key=x"],
  ["usage", "model", "model="],
  ["usage", null, "state=open", "limit=1", "groupby=day"],
  [balance, "at", "", "at=", "at=yesterday", "at=2026-02-30", "at=2999-01-01", "at=2026-03-01&at=2026-03-02"],
  [balance, null, "at=2026-03-01&to=2026-03-02"],
  ["estimates", "days", "days=0", "days=31", "days=-1", "days=1.5", "days=week"],
  ["timeline", "by", "by=day"],
  ["timeline", "groups", "groups=0", "groups=101"],
  ["timeline", "account", "account=x", "account="],
  ["latency", "from", "from=2026-03-02T00:00:00Z&to=2026-03-02T00:00:00Z"],
  ["latency", null, "by=model"],
  ["outcomes", "from", "from=2026-01-01T00:00:00Z&to=2026-04-04T00:00:00Z"],
  ["events", "after", "after=nonsense", `after=${foreign}`, "after="],
  ["events", "types", "types=tollgate.call.ended,tollgate.call"],
  ["events", "wait", "wait=31"],
  ["events", "limit", "limit=1001"],
  ["events", "from", "from=yesterday"],
  ["events", "to", "to=yesterday"],
]

test.each(rows.flatMap(([path, param, ...queries]) => queries.map((query) => [path, query, param] as const)))(
  "GET /admin/%s?%s is 400",
  async (path, query, param) => {
    const reply = await adminApi.ask("GET", `/admin/${path}?${query}`)
    expect(refusal(reply)).toEqual({ status: 400, code: "invalid_request", param })
  },
)

const name = "x"
const amount = "1"
const bodies: readonly (readonly [
  path: string,
  param: string | null,
  ...bodies: readonly (object | string)[],
])[] = [
  ["accounts", "name", {}, { name: "" }, { name: "x".repeat(201) }, { name: "a\0b" }, { name: "a\nb" }],
  ["accounts", "id", { name, id: "mine" }],
  ["accounts", "__proto__", `{"name":"x","__proto__":{}}`],
  ["accounts", null, [], "null", `"x"`, `{"name":`, ""],
  ["credits", "amount", {}, ...["0", "-0.000000000", "0.0000000001", "1000000000", "+1"].map(credit)],
  ["credits", "amount", ...["1e3", "1,5", " 1", "1\n", "$1", ".5", "NaN", ""].map(credit)],
  ["credits", "id", { amount, id: "invoice-5" }, { amount, id: `{${nextId()}}` }],
  ["credits", "reason", { amount, reason: "x".repeat(501) }, { amount, reason: "\0" }],
  ["keys", "name", { name: "" }, { name: "x".repeat(201) }],
  ["keys", "models", { models: [] }, { models: Array(257).fill("m") }],
  ["keys", "models[0]", { models: ["a\0"] }, { models: ["x".repeat(257)] }],
  ["keys", "models[1]", { models: ["m", 5] }, { models: ["m", ""] }],
  ["keys", "expires_at", ...["2020-01-01T00:00:00Z", "2999-01-01T00:00:00", "2999-01-01"].map(expiry)],
  ["keys", "expires_at", ...["2999-02-29T00:00:00Z", "9999-12-31T23:59:59-12:00", "tomorrow"].map(expiry)],
  ["reconciliation", "upstreams[0]", ...["\0", "", "x".repeat(257)].map(upstreamNamed)],
  ["keys", "spending_limit", { spending_limit: limit("-1") }, { spending_limit: limit("1", "week") }],
  ["journal/check", "month", { month: "2026-13" }, {}],
  ["journal/check", "from", { month: "2026-10", from: "x" }],
]

function upstreamNamed(upstream: string) {
  return { provider: "openai", export: [], upstreams: [upstream] }
}

function limit(amount: string, per = "day") {
  return { amount, per }
}

function credit(amount: string) {
  return { amount }
}

function expiry(expires_at: string) {
  return { expires_at }
}

test.each(bodies.flatMap(([path, param, ...sent]) => sent.map((body) => [path, body, param] as const)))(
  "POST /admin/%s with %j is 400 and changes nothing",
  async (of, body, param) => {
    const path = /credits|keys/.test(of) ? `/admin/accounts/${account}/${of}` : `/admin/${of}`
    expect(refusal(await adminApi.ask("POST", path, body))).toEqual({
      status: 400,
      code: "invalid_request",
      param,
    })
    if (path.includes(account)) expect(await adminApi.walk(path, 10)).toEqual([])
    else expect(await adminApi.walk("/admin/accounts", 10)).toEqual([account])
  },
)

test("every field of every body is refused when it is of another kind, and an unknown field beside it", async () => {
  const operations = operationsOf(mount({ database: adminApi.database }))
  for (const { method, path, query, body, schema } of operations) {
    const address = path.replace(":id", account) + query
    for (const [field, { type }] of Object.entries<TSchema>(schema?.properties ?? {})) {
      const wrong = { [field]: type === "object" ? 5 : { 5: null } }
      expect([path, refusal(await adminApi.ask(method, address, { ...body, ...wrong }))]).toEqual([
        path,
        { status: 400, code: "invalid_request", param: field },
      ])
    }
    if (schema === undefined) continue
    const { param } = refusal(await adminApi.ask(method, address, { ...body, another: null }))
    expect([path, param]).toEqual([path, "another"])
  }
})
