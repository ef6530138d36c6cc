import { afterAll, describe, expect, test } from "bun:test"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type TSchema, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { knowFormats } from "../../src/cli/admin-client.ts"
import { errorResponse, GatewayError } from "../../src/errors.ts"
import { nextId } from "../../src/id.ts"
import { lineOf } from "../../src/ledger/queue/spool.ts"
import { AccountBody, BalanceBody, CallBody, CreatedKeyBody, KeyBody, listOf } from "../../src/wire/admin.ts"
import { AttemptsBody } from "../../src/wire/attempts.ts"
import { CreditBody, CreditedBody } from "../../src/wire/credit-bodies.ts"
import { EstimatesBody } from "../../src/wire/estimates.ts"
import { FeedLine } from "../../src/wire/events.ts"
import { AuditBody, MonthsBody } from "../../src/wire/ledger-checks.ts"
import { OperatorBody } from "../../src/wire/operators.ts"
import { RefusalsBody } from "../../src/wire/refusals.ts"
import { SinksBody } from "../../src/wire/sinks.ts"
import { OperatorUsageReport } from "../../src/wire/usage-report.ts"
import { settled } from "../ledger/test-database.ts"
import { emptyDatabase } from "../support/database.ts"
import { testFolder } from "../support/folder.ts"
import { ADMIN_TOKEN, CHAT, chat, until } from "../support/gateway.ts"
import { chatCompletion, heldBack, json, usage } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { testGateway } from "../support/test-gateway.ts"
import { type Ended, Shell, type, wordsOf } from "./command.ts"

const HELLO = json(200, chatCompletion("hello", { usage: usage(1_200, 5, 200) }))
const { provider, gateway } = await testGateway({}, HELLO)
/** The data directory of a gateway that has ended. */
const data_dir = testFolder()
/** To its database, by a URL. */
const way = await DatabaseProxy.start(gateway.address)
const shell = new Shell(here())
/** An account with a balance, a key and one call. */
const account = await gateway.account("10")
const name = `Known ${account.id}`
await gateway.admin("PATCH", `/accounts/${account.id}`, { name })
const answer = await chat(gateway, account.key)
const known = { ...account, name, call: answer.headers.get("x-request-id") ?? "" }
knowFormats()
afterAll(() => way.stop())

/** Types a line; what it printed that ended well and said nothing on the side. */
async function printed(line: string, variables?: Record<string, string>): Promise<string> {
  const ended = await run(line, variables)
  expect(ended).toMatchObject({ code: 0, err: "" })
  return ended.out
}

function run(line: string, variables: Record<string, string> = {}): Promise<Ended> {
  const [words = []] = wordsOf([line], {})
  return type(words, { ...here(), ...variables })
}

/** Runs a command against a server that is not a gateway. */
async function runAt(
  fetch: (request: Request) => Response | Promise<Response>,
  line: string,
): Promise<Ended> {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch })
  const ended = await run(line, { TOLLGATE_URL: `http://127.0.0.1:${server.port}` })
  await server.stop(true)
  return ended
}

/** The environment in which an operator types. */
function here(): Record<string, string> {
  return { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN, TOLLGATE_DATA_DIR: gateway.data_dir }
}

function field(card: string, name: string): string {
  return new RegExp(`^${name} +(.*)$`, "m").exec(card)?.[1] ?? ""
}

describe("what people read", () => {
  test("D101, D102 an operator, a change with a reason, and the log of both", async () => {
    const made = await run("tollgate operators create Ann --role billing --expires 90d")
    expect(made).toMatchObject({ code: 0, err: "Store the token now: it is not shown again.\n" })
    const own = { TOLLGATE_ADMIN_TOKEN: field(made.out, "token"), TOLLGATE_REASON: "Müller called" }
    const id = field(await printed("tollgate accounts create Theirs", own), "id")
    expect(await run("tollgate operators", own)).toMatchObject({ code: 0 })
    expect(await run("tollgate operators revoke Ann", own)).toMatchObject({
      code: 1,
      err: "tollgate: This needs the role admin. Your role is billing. Ask an operator with the role admin.\n",
    })
    const direct = { DATABASE_URL: way.address.url, TOLLGATE_ADMIN_TOKEN: "" }
    await printed(`tollgate accounts rename ${id} 'Theirs too' --database`, direct)
    const log = await printed(`tollgate log --resource ${id}`)
    expect(log).toMatch(/database +admin +- +PATCH +\/accounts\/:id +\S+ +done/)
    expect(log).toMatch(/Ann +billing +127\.0\.0\.1 +POST +\/accounts +\S+ +done +Müller called/)
    expect((await run("tollgate operators revoke Ann")).out).toBe("Revoked the token of Ann.\n")
    expect((await run("tollgate accounts", own)).code).toBe(1)
  })

  test("an account of one's own, its money, its key, a call and its receipt", async () => {
    const opened = await printed("tollgate accounts create 'Wile E. Coyote'")
    const account = field(opened, "id")
    expect(opened.split("\n").slice(1, 6)).toEqual([
      "name              Wile E. Coyote",
      "state             active",
      "balance           0.00 USD",
      "held              0.00 USD",
      "available         0.00 USD",
    ])

    const again = await run("tollgate accounts create One")
    expect(again).toMatchObject({ code: 0, err: "" })
    expect((await run("tollgate accounts create One")).err).toBe(
      "Another account has the same name, so commands accept only the ids of these accounts.\n",
    )

    const credited = await printed("tollgate credit 'Wile E. Coyote' 25 --reason 'Invoice 118'")
    expect(field(credited, "balance")).toBe("25.00 USD")
    expect(field(await printed("tollgate credit 'Wile E. Coyote' -0.5"), "balance")).toBe("24.50 USD")
    const credits = await gateway.admin("GET", `/accounts/${account}/credits`)
    expect(credits).toMatchObject({ data: [{ amount: "-0.5", reason: null }, { reason: "Invoice 118" }] })

    const listed = await printed("tollgate accounts credits 'Wile E. Coyote'")
    expect(listed).toMatch(
      /^[0-9a-f-]{36} +\d\d-\d\d \d\d:\d\d:\d\d +25\.00 +24\.50 +payment +50 +- +Invoice 118$/m,
    )

    const made = await run(
      `tollgate keys create ${account} --name ci --models ${CHAT},other --expires 30d --limit 5/day`,
    )
    expect(made).toMatchObject({ code: 0, err: "Store the key now: it is not shown again.\n" })
    const key = field(made.out, "key")
    expect(field(made.out, "models")).toBe(`${CHAT}, other`)
    expect(field(made.out, "limit")).toBe("5.00 USD per day")

    provider.replyOnce(
      json(200, chatCompletion("hi", { usage: usage(1_200, 5, 200) }), { "request-id": "req_1" }),
    )
    const answer = await chat(gateway, key)
    expect(answer.status).toBe(200)
    const call = answer.headers.get("x-request-id")
    const calls = await printed("tollgate calls --account 'Wile E. Coyote' --from 1h")
    expect(calls.split("\n")).toHaveLength(3)
    expect(calls).toMatch(
      new RegExp(` ${call} +${account} +${CHAT} +completed +usage +1,200 +5 +\\d\\.\\d+ +0\\.00104 `),
    )

    const receipt = await printed(`tollgate receipt ${call}`)
    expect(field(receipt, "outcome")).toBe(
      "completed, settled, charged by the usage that the provider reported",
    )
    expect(field(receipt, "provider request id")).toBe("req_1")
    expect(receipt.slice(receipt.indexOf("\n\n")).replace(/held .*/, "held")).toBe(
      [
        "\n",
        "               TOKENS  USD PER 1M       USD",
        "prompt          1,000        1.00  0.001",
        "cached prompt     200        0.10  0.00002",
        "output              5        4.00  0.00002",
        "held",
        "charged                            0.00104",
        "",
      ].join("\n"),
    )
    expect(field(await printed("tollgate accounts show 'Wile E. Coyote'"), "balance")).toBe("24.49896 USD")
    const then = await printed("tollgate accounts balance 'Wile E. Coyote' --at 2026-11-01")
    expect([field(then, "at"), field(then, "balance")]).toEqual(["2026-11-01 00:00:00 UTC", "0.00 USD"])
    const now = await printed(`tollgate accounts balance ${account} --at 0m`)
    expect([field(now, "balance"), field(now, "held")]).toEqual(["24.49896 USD", "0.00 USD"])
    // On a busy machine it says how far it has come, too.
    expect((await run("tollgate audit")).out).toMatch(
      /^✓ The ledger matches its journal: \d+ accounts, 0 open holds, at /,
    )
  })

  test("D42 suspended, resumed, limited, changed and revoked, each for the very next call", async () => {
    const { id, key, key_id } = await gateway.account("1")
    const status = async () => (await chat(gateway, key)).status
    const rows: readonly [line: string, state: string, status: number][] = [
      [`tollgate accounts suspend ${id}`, "suspended", 403],
      [`tollgate accounts resume ${id}`, "active", 200],
      [`tollgate keys suspend ${key_id}`, "suspended", 403],
      [`tollgate keys resume ${key_id}`, "active", 200],
      [`tollgate keys limit ${key_id} 0/month`, "active", 402],
      [`tollgate keys limit ${key_id} none`, "active", 200],
      [`tollgate keys change ${key_id} --models other`, "active", 403],
      [`tollgate keys change ${key_id} --models none --name renamed`, "active", 200],
    ]
    for (const [line, state, expected] of rows) {
      expect({ line, state: field(await printed(line), "state") }).toEqual({ line, state })
      expect({ line, status: await status() }).toEqual({ line, status: expected })
    }
    expect(await printed(`tollgate keys revoke ${key_id}`)).toBe(`Revoked the key ${key_id}.\n`)
    expect(await status()).toBe(401)
    expect(await printed(`tollgate keys list ${id}`)).toMatch(
      new RegExp(`^${key_id} +renamed +tg_live_\\w+ +revoked `, "m"),
    )
    expect(field(await printed(`tollgate accounts rename ${id} Ltd-${id}`), "name")).toBe(`Ltd-${id}`)
  })

  test("amounts of budgets have their unit, and those in USD at least two decimals", async () => {
    const { id } = await gateway.account("0")
    const made = await printed(`tollgate budget create ${id} 5/day --name Daily`)
    expect(["limit", "spent", "held", "left"].map((name) => field(made, name))).toEqual([
      "5.00 USD per day (UTC)",
      "0.00 USD",
      "0.00 USD",
      "5.00 USD",
    ])
    const counted = await printed(`tollgate budget create ${id} 500/day --name Words --unit tokens`)
    expect(field(counted, "left")).toBe("500 tokens")
    const listed = await printed(`tollgate budget list ${id}`)
    expect(listed).toMatch(/ Daily +all calls +5\.00 USD\/day +0\.00 +0\.00 +5\.00 /)
    expect(listed).toMatch(/ Words +all calls +500 tokens\/day +0 +0 +500 /)
  })

  test("the outcome of an open call is open", async () => {
    const { id, key } = await gateway.account("1")
    const { held, release } = heldBack(json(200, chatCompletion("hi", { usage: usage(1_200, 5, 200) })))
    provider.replyOnce(held)
    const arrived = provider.requests.length + 1
    const answered = chat(gateway, key)
    await provider.exchange(arrived)
    const [call] = await gateway.calls(`?account=${id}`)
    expect(field(await printed(`tollgate receipt ${call?.id}`), "outcome")).toBe("open")
    expect((await run("tollgate audit")).out).toMatch(/ accounts, 1 open hold, at /)
    release()
    expect((await answered).status).toBe(200)
  })

  test("a list that is cut says so, and goes on where it ended", async () => {
    const first = await run("tollgate accounts --limit 1")
    expect(first).toMatchObject({
      code: 0,
      err: "There are more entries: use --all or --limit N to see them.\n",
    })
    expect(first.out.trimEnd().split("\n")).toHaveLength(2)
    const list = JSON.parse(await printed("tollgate accounts list --limit 1 --json"))
    const rest = JSON.parse(await printed(`tollgate accounts list --all --json --after ${list.next}`))
    const all = JSON.parse(await printed("tollgate accounts list --all --json"))
    expect([...list.data, ...rest.data]).toEqual(all.data)
    expect(all.next).toBeNull()
  })

  test("D105 CSV and NDJSON have all entries, unless there is a limit", async () => {
    const { id } = await gateway.account("0")
    for (let count = 0; count < 21; count += 1)
      await gateway.admin("POST", `/accounts/${id}/credits`, { amount: "1" })
    const lines = async (line: string) => (await run(`tollgate ${line}`)).out.trimEnd().split("\n").length
    const events = "events --types tollgate.credit.added --from 1h"
    // Transactions of other tests of this server hold the feed back.
    await until(
      () => lines(`${events} --limit 1000 --ndjson`),
      (count) => count >= 21,
    )
    for (const list of [`accounts credits ${id}`, events]) {
      expect([list, await lines(list)]).toEqual([list, 1 + 20])
      const all = await lines(`${list} --limit 1000 --ndjson`)
      expect(all).toBeGreaterThanOrEqual(21)
      expect([list, await lines(`${list} --csv`)]).toEqual([list, 1 + all])
      expect([list, await lines(`${list} --ndjson`)]).toEqual([list, all])
    }
  })

  test("no colours in a pipe, and what is empty is said", async () => {
    const { id } = await gateway.account("0")
    const none = await printed(`tollgate calls --account ${id}`)
    expect(none).toBe(
      "No calls found. Refused calls: tollgate refusals. Token counts are in the metrics only.\n",
    )
    expect(await printed("tollgate accounts")).not.toContain("\u001b")
  })
})

describe("what scripts read is the API's own answer, from a gateway as from the database", () => {
  /** The command, the form of its answer, and where the API says the same. ACCOUNT, KEY and CALL are those of the test. */
  const rows: readonly (readonly [line: string, schema: TSchema, path?: string])[] = [
    ["accounts --limit 1000", listOf(AccountBody), "/accounts?limit=1000"],
    ["accounts show NAME", AccountBody, "/accounts/ACCOUNT"],
    ["accounts create one", AccountBody],
    ["accounts credits ACCOUNT", listOf(CreditBody), "/accounts/ACCOUNT/credits"],
    ["accounts balance ACCOUNT --at 2026-11-01", BalanceBody, "/accounts/ACCOUNT/balance?at=2026-11-01"],
    ["credit ACCOUNT 1", CreditedBody],
    ["keys list ACCOUNT", listOf(KeyBody), "/accounts/ACCOUNT/keys"],
    ["keys create ACCOUNT", CreatedKeyBody],
    ["keys limit KEY 25/month", KeyBody],
    ["calls --key KEY", listOf(CallBody), "/calls?key=KEY"],
    ["receipt CALL", CallBody, "/calls/CALL"],
    [
      "usage --by model --account ACCOUNT --from 2026-01-01 --to 2027-01-01",
      OperatorUsageReport,
      "/usage?by=model&account=ACCOUNT&from=2026-01-01&to=2027-01-01",
    ],
    ["events --from 24h", Type.Object({ data: Type.Array(FeedLine), next: Type.String() })],
    ["sinks", SinksBody, "/sinks"],
    ["operators", listOf(OperatorBody), "/operators"],
    ["audit", AuditBody],
    ["journal --verify", MonthsBody],
    ["estimates --days 30", EstimatesBody, "/estimates?days=30"],
    ["refusals --from 2026-01-01 --to 2027-01-01", RefusalsBody, "/refusals?from=2026-01-01&to=2027-01-01"],
    ["attempts --from 2026-01-01 --to 2027-01-01", AttemptsBody, "/attempts?from=2026-01-01&to=2027-01-01"],
    ["sums", Type.Object({ differed: Type.Literal(0) })],
  ]
  /** Without what the gateway writes some seconds after a call. */
  const settledIn = (text: string): unknown =>
    JSON.parse(text, (name, value) => (name === "last_used_at" ? null : value))
  const placed = (text: string) =>
    text
      .replace("NAME", `'${known.name}'`)
      .replace("ACCOUNT", known.id)
      .replace("KEY", known.key_id)
      .replace("CALL", known.call)
  test.each(rows)("%s --json", async (line, schema, path = "") => {
    const said = await Promise.all([
      printed(`tollgate ${placed(line)} --json`),
      printed(`tollgate ${placed(line)} --json --database`, {
        DATABASE_URL: way.address.url,
        TOLLGATE_ADMIN_TOKEN: "",
      }),
    ])
    const [asked, direct] = said.map(settledIn)
    expect({ asked: Value.Check(schema, asked), direct: Value.Check(schema, direct) }).toEqual({
      asked: true,
      direct: true,
    })
    if (path === "") return
    expect(asked).toEqual(settledIn(JSON.stringify(await gateway.admin("GET", placed(path)))))
    expect(direct).toEqual(asked)
  })

  test("what the API answers without a body is null", async () => {
    const { key_id } = await gateway.account("0")
    expect(await printed(`tollgate keys revoke ${key_id} --json`)).toBe("null\n")
  })
})

describe("D52 what goes wrong is one sentence on standard error, with exit code 1, or 2 for words that are none", () => {
  const NOBODY = "019f8b1c-0000-7000-8b7a-5d1f3c9e2a40"
  /** Without variables those of the operator. */
  const rows: readonly [code: number, line: string, err: string | RegExp, variables?: () => object][] = [
    [2, "accuonts", "unknown command 'accuonts' (Did you mean accounts?)"],
    [1, `accounts show ${NOBODY}`, "No account has this id."],
    [1, "accounts show nobody", 'no account is named "nobody": "tollgate accounts" lists all accounts'],
    [1, `receipt ${NOBODY}`, "No call has this id."],
    [2, "receipt last", '"last" is not a call id: use the x-request-id of the response'],
    [1, `credit ${NOBODY} much`, /^`amount`: expected USD as a decimal string/],
    [2, `keys limit ${NOBODY} 5`, /^spending limit: expected AMOUNT\/day, AMOUNT\/month or none, such as 25/],
    [
      2,
      `keys change ${NOBODY}`,
      "nothing to change: use --name, --models, --expires, --limit, --group or a flag for tags",
    ],
    [2, "calls --from yesterday", "--from: expected 2026-11-21, an RFC 3339 time, or 24h"],
    [
      2,
      `accounts balance ${NOBODY}`,
      /^--at is required; "tollgate accounts show" shows the current balance$/,
    ],
    [2, `accounts balance ${NOBODY} --at soon`, "--at: expected 2026-11-21, an RFC 3339 time, or 24h"],
    [1, `accounts balance ${NOBODY} --at 2999-01-01`, "`at`: expected a time in the past."],
    [2, "calls --all --limit 5", "--all and --limit cannot be combined"],
    [
      2,
      "accounts create Acme --margin 1 --price-multiplier 2",
      "--margin and --price-multiplier cannot be combined",
    ],
    [
      1,
      "accounts",
      /^The admin token is missing or incorrect\. .* Set TOLLGATE_ADMIN_TOKEN to the token of this gateway\.$/,
      () => ({ TOLLGATE_ADMIN_TOKEN: "another-token-0123456789" }),
    ],
    [
      1,
      "accounts",
      /^no admin token for http:\/\/127\.0\.0\.1:\d+, and no demo is running in \/\S+: set TOLLGATE_ADMIN_TOKEN/,
      () => ({ TOLLGATE_ADMIN_TOKEN: "" }),
    ],
    [
      1,
      "accounts --url http://127.0.0.1:1",
      /^no gateway is running at http:\/\/127\.0\.0\.1:1: start one with/,
    ],
    [
      1,
      "accounts",
      /^the gateway at .* returned an unknown response to GET \/admin\/accounts\?limit=20/,
      () => ({ TOLLGATE_URL: provider.url }),
    ],
    [
      1,
      "accounts --database",
      "cannot use the database: connect ECONNREFUSED 127.0.0.1:1",
      () => ({ DATABASE_URL: "postgres://tollgate:s3cret@127.0.0.1:1/ledger" }),
    ],
    [1, "accounts --database", /^the embedded database of \/\S+ is not running/],
  ]
  test.each(rows)("%i: %s: %s", async (code, line, err, variables = () => ({})) => {
    const ended = await run(`tollgate ${line}`, { ...variables() })
    expect(ended).toMatchObject({ code, out: "" })
    const sentence = /^tollgate: ([^\n]+)\n$/.exec(ended.err)?.[1]
    if (typeof err === "string") expect(sentence).toBe(err)
    else expect(sentence).toMatch(err)
    expect(ended.err).not.toContain("s3cret")
  })

  test("a name that two accounts have, with the ids to choose from", async () => {
    const name = `twin ${crypto.randomUUID()}`
    const ids = await Promise.all(
      [1, 2].map(() => gateway.admin<{ id: string }>("POST", "/accounts", { name })),
    )
    const { code, err } = await run(`tollgate credit '${name}' 5`)
    expect(code).toBe(1)
    expect(err).toStartWith(`tollgate: 2 accounts are named "${name}": use the id of one of them: `)
    for (const { id } of ids) expect(err).toContain(id)
  })

  test("a database without tables, which stays without", async () => {
    const empty = await emptyDatabase()
    const way = await DatabaseProxy.start(empty.address)
    try {
      const say = () => run("tollgate accounts --database", { DATABASE_URL: way.address.url })
      const ended: Ended = {
        code: 1,
        out: "",
        err: 'tollgate: the database has no Tollgate tables yet: "tollgate serve" creates them at its first start\n',
      }
      expect(await say()).toEqual(ended)
      expect(await say()).toEqual(ended)
    } finally {
      await way.stop()
      await empty.drop()
    }
  })

  test("a credit whose outcome is unknown says how to repeat it, and the repeat moves the money once", async () => {
    const asked: unknown[] = []
    const broken = async (request: Request) => {
      asked.push(await request.json())
      return Response.json({ error: { message: "The database did not respond." } }, { status: 503 })
    }
    const { id } = await gateway.account("0")
    const { code, err } = await runAt(broken, `tollgate credit ${id} 5`)
    expect(code).toBe(1)
    const credit_id = /repeat the command with --id (\S+): it is applied only once\.\n$/.exec(err)?.[1] ?? ""
    expect(asked).toEqual([{ id: credit_id, amount: "5" }])
    for (const remark of ["", "Already credited: nothing was moved.\n"]) {
      const credited = await run(`tollgate credit ${id} 5 --id ${credit_id}`)
      expect([credited.code, credited.err]).toEqual([0, remark])
      expect(field(credited.out, "balance")).toBe("5.00 USD")
    }
  })

  test("the token goes nowhere that a redirection points to", async () => {
    const seen: (string | null)[] = []
    const lure = (request: Request) => {
      seen.push(request.headers.get("authorization"))
      return Response.redirect(`http://localhost:${new URL(request.url).port}/admin/elsewhere`)
    }
    const { code } = await runAt(lure, "tollgate audit")
    expect({ code, seen }).toEqual({ code: 1, seen: [`Bearer ${ADMIN_TOKEN}`] })
  })

  test("D39 a gateway whose operators are elsewhere", async () => {
    const clients = () => errorResponse(new GatewayError("not_found"), crypto.randomUUID())
    const { code, err } = await runAt(clients, "tollgate accounts")
    expect(code).toBe(1)
    expect(err).toContain("has no /admin: its TOLLGATE_ADMIN_TOKEN is not set, or /admin has its own address")
  })

  test("balances that disagree with the journal", async () => {
    const call_id = nextId()
    const violations = [
      { account_id: known.id, kind: "balance", id: null, recorded: "9.9871", expected: "9.987" },
      { account_id: known.id, kind: "charge", id: call_id, recorded: "0.5", expected: "0.25" },
      { account_id: known.id, kind: "entry", id: call_id, recorded: "0.75", expected: null },
    ]
    const audit = { checked_at: "2026-11-21T09:40:00.000Z", accounts: 3, open_holds: 12, violations }
    const { code, out, err } = await runAt(() => Response.json({ audit }), "tollgate audit")
    expect({ code, err }).toEqual({
      code: 1,
      err: "tollgate: the ledger does not match its journal in 3 places\n",
    })
    expect(out).toMatch(new RegExp(`^${known.id} +balance +9\\.9871 +9\\.987$`, "m"))
    expect(out).toMatch(new RegExp(`^${known.id} +charge +${call_id} +0\\.50 +0\\.25$`, "m"))
    expect(out).toMatch(new RegExp(`^${known.id} +entry +${call_id} +0\\.75 +no entry$`, "m"))
  })

  test("D13 --database reads the spool of the data directory: what has no hold is unheld", async () => {
    await mkdir(join(data_dir, "spool"))
    const lost = nextId()
    const lines = [known.call, lost].map((id) =>
      lineOf({ account_id: known.id, hold: null, end: settled(id, 5n) }),
    )
    await writeFile(join(data_dir, "spool", `${nextId()}.jsonl`), lines.join(""))
    const { code, out } = await run("tollgate audit --json --database", {
      DATABASE_URL: way.address.url,
      TOLLGATE_DATA_DIR: data_dir,
      TOLLGATE_ADMIN_TOKEN: "",
    })
    expect([code, JSON.parse(out).violations]).toEqual([
      1,
      [{ account_id: known.id, kind: "unheld", id: lost, recorded: "0.000000005", expected: null }],
    ])
  })

  test("in a process of its own: the exit code, the sentence, and nothing else", async () => {
    const ends = (line: string) => shell.run(`tollgate ${line}`)
    const [well, ill, unknown] = await Promise.all([
      ends("audit --json"),
      ends("accounts show nobody"),
      ends("adit"),
    ])
    expect(well).toMatchObject({ code: 0, err: "" })
    expect(Value.Check(AuditBody, JSON.parse(well.out))).toBeTrue()
    const err = 'tollgate: no account is named "nobody": "tollgate accounts" lists all accounts\n'
    expect(ill).toEqual({ code: 1, out: "", err })
    expect(unknown).toMatchObject({ code: 2, out: "" })
  })

  test("nobody reads any more: it ends quietly", async () => {
    const { out, err } = await shell.run("(tollgate completion fish; echo $? > code) | true; cat code")
    expect({ out, err }).toEqual({ out: "0\n", err: "" })
  })
})
