import { describe, expect, test } from "bun:test"
import { askAlone } from "../../src/ledger/database/address.ts"
import type { BudgetBody } from "../../src/wire/budget-bodies.ts"
import type { QuoteBody } from "../../src/wire/quote.ts"
import type { OperatorUsageReport, UsageReport } from "../../src/wire/usage-report.ts"
import { type } from "../cli/command.ts"
import { ADMIN_TOKEN, chat, MESSAGES } from "../support/gateway.ts"
import { aMessage } from "../support/messages.ts"
import { chatCompletion, json, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { testPair } from "../support/test-gateway.ts"

/** D94: whose calls they are, and what for. The other gateway remembers keys that are changed at the first one. */

const { provider, gateway, other } = await testPair({ changes: { tags: ["team", "feature"] } })

const VERSION = { "anthropic-version": "2023-06-01" }
const TAGS = "x-tollgate-tags"
const END_USER = "x-tollgate-end-user"

async function errorOf(answer: Response): Promise<{ readonly message: string; readonly budget?: object }> {
  const { error } = JSON.parse(await answer.text())
  return error
}

async function call(key: string, headers: Record<string, string> = {}, body: object = {}, at = gateway) {
  provider.replyOnce(json(200, chatCompletion("hi", { usage: usage(10, 5) })))
  const answer = await chat(at, key, body, { headers })
  const error = answer.ok ? null : await errorOf(answer)
  return { answer, error }
}

/** The end user and tags of a call that was made so. */
async function labelsOf(key: string, headers: Record<string, string> = {}, body: object = {}, at = gateway) {
  const { answer, error } = await call(key, headers, body, at)
  if (error !== null) throw new Error(error.message)
  const { end_user, tags } = await at.callOf(answer)
  return { end_user, tags }
}

/** The status and body of the answer to a quote for such a call. */
async function quote(key: string, headers: Record<string, string>, body: object = {}, at = gateway) {
  const answer = await postJson(`${at.url}/v1/quote`, key, chatBody(body), headers)
  const read: QuoteBody & { readonly error?: object } = JSON.parse(await answer.text())
  return { status: answer.status, read }
}

/** How often the gateway has read or written labels of calls. */
async function labelStatements(): Promise<number> {
  const found = /tollgate_ledger_batch_size_count\{kind="labels"\} (\d+)/.exec(await gateway.metrics())
  return Number(found?.[1] ?? 0)
}

async function keyWith(rules: object) {
  const { id } = await gateway.account("10")
  const made = await gateway.admin<{ id: string; key: string }>("POST", `/accounts/${id}/keys`, rules)
  return { account_id: id, ...made }
}

describe("D97 a budget of end users and tags", () => {
  test("counts the calls of each by itself, also through two gateways, and says whose is reached", async () => {
    const { key, account_id } = await keyWith({})
    const create = (body: object) =>
      gateway.admin<BudgetBody>("POST", `/accounts/${account_id}/budgets`, {
        unit: "requests",
        per: "day",
        ...body,
      })
    const each = await create({ name: "Each", selector: "end_user", amount: "1" })
    const one = await create({ name: "Bob", selector: "end_user", selected: "bob", amount: "0" })
    const tag = await create({ name: "Search", selector: "tag", selected: "team=search", amount: "1" })
    expect([each.each, one.each, tag.each]).toEqual([true, false, false])
    const reached = async (headers: Record<string, string>, at = gateway) =>
      (await call(key, headers, {}, at)).error
    const ann = { [END_USER]: "ann" }
    expect(await reached(ann)).toBeNull()
    expect((await reached(ann, other))?.budget).toMatchObject({ id: each.id, selector: "end_user" })
    expect((await reached({ [END_USER]: "bob" }, other))?.budget).toMatchObject({ id: one.id })
    expect(await reached({ [END_USER]: "cid", [TAGS]: "team=search" }, other)).toBeNull()
    expect((await reached({ [TAGS]: "team=search" }))?.budget).toMatchObject({
      id: tag.id,
      selected: "team=search",
    })
    expect(await reached({ [TAGS]: "team=chat" })).toBeNull()
    await gateway.admin("POST", `/accounts/${account_id}/forget-end-user`, { end_user: "ann" })
    expect(await reached(ann)).toBeNull()
    const { data } = await gateway.admin<{ data: BudgetBody[] }>("GET", `/accounts/${account_id}/budgets`)
    expect(data.map(({ spent, left }) => [spent, left])).toEqual([
      ["1", "0"],
      ["0", "0"],
      ["3", "0"],
    ])
    expect(await gateway.own("/v1/account", key)).toMatchObject({ budgets: [] })
  })

  test("is in the quote for a call that would count in it, which writes nothing", async () => {
    const { key, account_id } = await keyWith({ labels: { env: "prod" } })
    const create = (name: string, selector: string, selected?: string, amount = "1", mode = "hard") =>
      gateway.admin<BudgetBody>("POST", `/accounts/${account_id}/budgets`, {
        ...{ name, selector, selected, amount, mode, unit: "requests", per: "day" },
      })
    await create("Each", "end_user")
    await create("Teams", "tag", "team", "2", "alert")
    const bob = (await create("Bob", "end_user", "bob", "0")).selected
    await create("Production", "tag", "env=prod", "9")
    const quoted = async (headers: Record<string, string>, body = {}, at = gateway) => {
      const { admitted, refusal, budgets } = (await quote(key, headers, body, at)).read
      const shown = budgets.map(({ name, selected, mode, spent, left }) => [
        ...[name, selected, mode, spent, left],
      ])
      return [admitted, refusal, shown]
    }
    const production = (spent: number) => ["Production", "env=prod", "hard", `${spent}`, `${9 - spent}`]
    expect(await quoted({})).toEqual([true, null, [production(0)]])
    const ann = { [END_USER]: "ann", [TAGS]: "team=a" }
    const before = await labelStatements()
    const fresh_ann = [
      production(0),
      ["Teams", "team=a", "alert", "0", "2"],
      ["Each", null, "hard", "0", "1"],
    ]
    expect(await quoted(ann)).toEqual([true, null, fresh_ann])
    expect(await labelStatements()).toBe(before)
    expect((await call(key, ann)).error).toBeNull()
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
    const teams = ["Teams", "team=a", "alert", "1", "1"]
    for (const at of [gateway, other])
      expect(await quoted({ [TAGS]: "team=a" }, { user: "ann" }, at)).toEqual([
        false,
        "budget_reached",
        [production(1), teams, ["Each", id, "hard", "1", "0"]],
      ])
    const each = ["Each", bob, "hard", "0", "1"]
    expect(
      await quoted(
        {},
        { operation: "responses", input: "hi", messages: undefined, safety_identifier: "bob" },
      ),
    ).toEqual([false, "budget_reached", [production(1), ["Bob", bob, "hard", "0", "0"], each]])
    const message = { operation: "messages", model: MESSAGES, max_tokens: 9, metadata: { user_id: "ann" } }
    expect(await quoted({}, message)).toMatchObject([
      false,
      "budget_reached",
      [production(1), ["Each", id, "hard", "1", "0"]],
    ])
    expect(await quoted({ [TAGS]: "team=b", [END_USER]: "cid" })).toMatchObject([
      true,
      null,
      [production(1), ["Teams", "team=b", "alert", "0", "2"], ["Each", null, "hard", "0", "1"]],
    ])
  })

  test.each([
    ["tag", undefined],
    ["tag", "Team"],
    ["tag", "team=a=b"],
    ["all", "team"],
  ])("cannot select %s %s", async (selector, selected) => {
    const { account_id } = await keyWith({})
    const body = { name: "b", selector, selected, amount: "1", per: "day" }
    const refused = gateway.admin("POST", `/accounts/${account_id}/budgets`, body)
    await expect(refused).rejects.toThrow(/: 400 .*"param":"selected"/)
  })
})

describe("D94 a call", () => {
  test("without an end user and tags has none, and needs no statement", async () => {
    const { key } = await gateway.account("10")
    const before = await labelStatements()
    expect(await labelsOf(key)).toEqual({ end_user: null, tags: {} })
    expect(await labelStatements()).toBe(before)
  })

  test("names them in headers, which the provider does not get", async () => {
    const { key } = await gateway.account("10")
    const headers = { [TAGS]: "team=search, feature=rag", [END_USER]: "ann@example.com" }
    expect(await labelsOf(key, headers)).toEqual({
      end_user: "ann@example.com",
      tags: { team: "search", feature: "rag" },
    })
    const { headers: sent } = provider.requests.at(-1) ?? { headers: {} }
    expect(Object.keys(sent).filter((name) => name.startsWith("x-tollgate"))).toEqual([])
  })

  test.each([
    ["safety_identifier", { safety_identifier: "a", user: "b" }, "a"],
    ["user", { user: "b" }, "b"],
    ["an empty one", { user: "" }, null],
    ["letters of any script", { user: "Zoë 山田" }, "Zoë 山田"],
    [
      "a control character",
      { user: "a\0b" },
      `sha256:${new Bun.CryptoHasher("sha256").update("a\0b").digest("hex")}`,
    ],
    ["a long one", { user: "é".repeat(200) }, expect.stringMatching(/^sha256:[0-9a-f]{64}$/)],
  ])("names its end user in a field of the body, which the provider gets: %s", async (_, body, end_user) => {
    const { key } = await gateway.account("10")
    expect((await labelsOf(key, {}, body)).end_user).toEqual(end_user)
    expect(JSON.parse(provider.requests.at(-1)?.body ?? "{}")).toMatchObject(body)
    expect((await labelsOf(key, { [END_USER]: "header" }, body)).end_user).toBe("header")
  })

  test.each([
    ["a name", "ann", "ann"],
    [
      "a text with a session",
      "user_0a1b_account_11111111-2222-3333-4444-555555555555_session_9",
      "11111111-2222-3333-4444-555555555555",
    ],
    ["such a text without an account", "user_0a1b_account__session_9", "user_0a1b"],
    ["JSON with a session", '{"device_id":"d","account_uuid":"a","session_id":"9"}', "a"],
    ["such JSON without an account", '{"device_id":"d","account_uuid":"","session_id":"9"}', "d"],
    ["other JSON", '{"session_id', '{"session_id'],
  ])(
    "of the messages API names it in its metadata, without the session: %s",
    async (_, user_id, end_user) => {
      const { key } = await gateway.account("10")
      provider.replyOnce(json(200, aMessage("hi")))
      const body = { model: MESSAGES, max_tokens: 9, metadata: { user_id } }
      const answer = await postJson(`${gateway.url}/v1/messages`, key, chatBody(body), VERSION)
      expect((await gateway.callOf(answer)).end_user).toBe(end_user)
    },
  )

  test.each([
    ["a tag that nobody has declared", { [TAGS]: "taem=search" }, "tag_not_declared", TAGS],
    ["a value with a space", { [TAGS]: "team=a b" }, "invalid_request", TAGS],
    ["a value of 65 bytes", { [TAGS]: `team=${"a".repeat(65)}` }, "invalid_request", TAGS],
    [
      "more than 2,048 characters",
      { [TAGS]: `team=a,${" ".repeat(2_048)}feature=b` },
      "invalid_request",
      TAGS,
    ],
    ["a tag twice", { [TAGS]: "team=a,team=b" }, "invalid_request", TAGS],
    [
      "nine tags",
      { [TAGS]: Array.from({ length: 9 }, (_, at) => `t${at}=a`).join() },
      "invalid_request",
      TAGS,
    ],
    ["an end user of 257 bytes", { [END_USER]: "a".repeat(257) }, "invalid_request", END_USER],
  ])("is refused for %s, and holds nothing", async (_, headers, code, param) => {
    const { id, key } = await gateway.account("10")
    expect((await call(key, headers)).error).toMatchObject({ code, param })
    expect((await quote(key, headers)).read.error).toMatchObject({ code, param })
    expect(await gateway.calls(`?account=${id}`)).toEqual([])
  })
})

describe("D94 a key", () => {
  test("has labels on each of its calls, which no client can change", async () => {
    const { key } = await keyWith({ labels: { team: "search", env: "prod" } })
    expect((await labelsOf(key)).tags).toEqual({ team: "search", env: "prod" })
    expect((await labelsOf(key, { [TAGS]: "team=search,feature=rag" })).tags).toEqual({
      ...{ team: "search", env: "prod", feature: "rag" },
    })
    expect((await call(key, { [TAGS]: "team=ads" })).error).toMatchObject({
      code: "invalid_request",
      param: TAGS,
    })
  })

  test("may require tags, which its labels can be too", async () => {
    const { key } = await keyWith({ required_tags: ["team"] })
    expect((await call(key)).error).toMatchObject({ code: "tag_required", tag: "team" })
    expect((await labelsOf(key, { [TAGS]: "team=a" })).tags).toEqual({ team: "a" })
    const quoted = await quote(key, {})
    expect([quoted.status, quoted.read.error]).toMatchObject([400, { code: "tag_required", tag: "team" }])
    const labelled = await keyWith({ required_tags: ["team"], labels: { team: "a" } })
    expect((await labelsOf(labelled.key)).tags).toEqual({ team: "a" })
  })

  test("may ignore what clients say", async () => {
    const { key } = await keyWith({ client_tags: "ignored", labels: { team: "a" } })
    const said = { [TAGS]: "taem=b,=", [END_USER]: "ann" }
    expect(await labelsOf(key, said, { user: "bob" })).toEqual({ end_user: null, tags: { team: "a" } })
    expect((await quote(key, said, { user: "bob" })).status).toBe(200)
  })

  test("is changed for every call that arrives afterwards, at every gateway", async () => {
    const { id, key } = await keyWith({})
    const change = (rules: object) => gateway.admin("PATCH", `/keys/${id}`, rules)
    expect((await labelsOf(key, {}, {}, other)).tags).toEqual({})
    await change({ labels: { team: "a" } })
    expect((await labelsOf(key, {}, {}, other)).tags).toEqual({ team: "a" })
    await change({ labels: null, required_tags: ["feature"] })
    expect((await call(key, {}, {}, other)).error).toMatchObject({ code: "tag_required" })
    await change({ required_tags: null })
    expect((await labelsOf(key, {}, {}, other)).tags).toEqual({})
  })

  test.each([
    ["nine labels", { labels: Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`t${at}`, "a"])) }],
    ["an empty value", { labels: { team: "" } }],
  ])("is not created with %s", async (_, rules) => {
    expect(keyWith(rules)).rejects.toThrow("invalid_request")
  })
})

describe("D94 reports", () => {
  test("sum by end user and by tag, and lists filter by them, for operators and clients", async () => {
    const { id, key } = await gateway.account("10")
    const ids: (string | null)[] = []
    const made: [Record<string, string>, object][] = [
      [{ [TAGS]: "team=a", [END_USER]: "ann" }, {}],
      [{ [TAGS]: "team=a,feature=rag" }, { user: "bob" }],
      [{ [TAGS]: "team=b" }, { user: "ann" }],
      [{}, {}],
    ]
    for (const [headers, body] of made)
      ids.push((await call(key, headers, body)).answer.headers.get("x-request-id"))
    const report = await gateway.admin<OperatorUsageReport>("GET", `/usage?account=${id}&by=tag:team`)
    expect(report.by).toBe("tag:team")
    const groups = report.data.map(({ group, calls }) => [group, calls])
    expect(groups).toEqual([
      ["a", 2],
      ["", 1],
      ["b", 1],
    ])
    const { data } = await gateway.own<UsageReport>("/v1/usage?by=end_user", key)
    expect(new Map(data.map(({ name, calls }) => [name, calls]))).toEqual(
      new Map([
        ["ann", 2],
        ["bob", 1],
        [null, 1],
      ]),
    )
    const listed = async (filter: string) =>
      (await gateway.calls(`?account=${id}&${filter}`)).map((each) => ids.indexOf(String(each.id))).sort()
    expect(await listed("tag=team%3Da")).toEqual([0, 1])
    expect(await listed("tag=team%3Da,feature%3Drag")).toEqual([1])
    expect(await listed("end_user=ann")).toEqual([0, 2])
    expect(await listed("end_user=ann&tag=team%3Db")).toEqual([2])
    expect(await listed("end_user=nobody")).toEqual([])
  })

  test.each(["by=tag:", "by=tag:Team", "by=team"])("refuse %s", async (query) => {
    expect(gateway.admin("GET", `/usage?${query}`)).rejects.toThrow("invalid_request")
  })

  test("and the command line show them", async () => {
    const { id, key } = await gateway.account("10")
    const { answer } = await call(key, { [TAGS]: "team=a", [END_USER]: "ann" })
    const env = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
    const call_id = answer.headers.get("x-request-id") ?? ""
    expect((await type(["receipt", call_id], env)).out).toMatch(/tags +team=a\n.*end user +ann/)
    expect(
      (await type(["calls", "--account", id, "--tag", "team=a", "--end-user", "ann"], env)).out,
    ).toContain(call_id)
    expect((await type(["usage", "--account", id, "--by", "end_user"], env)).out).toContain("ann")
    expect((await type(["usage", "--account", id, "--by", "tag:team"], env)).out).toContain("TAG:TEAM")
  })
})

describe("D94 an end user that is forgotten", () => {
  test("has no name any more, and all sums stay", async () => {
    const { id, key } = await gateway.account("10")
    const { answer } = await call(key, {}, { user: "ann" })
    await call(key, {}, { user: "ann" })
    const sums = () => gateway.admin<OperatorUsageReport>("GET", `/usage?account=${id}&by=end_user`)
    const before = await sums()
    const forget = (end_user: string) =>
      gateway.admin<{ id: string }>("POST", `/accounts/${id}/forget-end-user`, { end_user })
    const { id: end_user_id } = await forget("ann")
    const after = await sums()
    expect(after.data).toEqual(before.data.map((group) => ({ ...group, name: null })))
    expect(after.total).toEqual(before.total)
    expect(await gateway.callOf(answer)).toMatchObject({ end_user: null, end_user_id })
    expect((await gateway.audit()).violations).toEqual([])
    expect(await forget(end_user_id)).toMatchObject({ id: end_user_id })
    expect(forget("ann")).rejects.toThrow("not_found")
    const again = await call(key, {}, { user: "ann" })
    expect((await gateway.callOf(again.answer)).end_user_id).not.toBe(end_user_id)
  })

  test("is the one with the name or the id, also if a client named another one by that id", async () => {
    const { id, key } = await gateway.account("10")
    const first = await call(key, {}, { user: "ann" })
    const { end_user_id } = await gateway.callOf(first.answer)
    const other = await call(key, {}, { user: String(end_user_id) })
    // The database reads the other one first now.
    for (const name of ["moved", "ann"])
      await askAlone(gateway.address, ({ unsafe }) =>
        unsafe(`UPDATE tollgate.end_users SET subject = '${name}' WHERE id = '${end_user_id}'`),
      )
    const forgotten = await gateway.admin("POST", `/accounts/${id}/forget-end-user`, { end_user: "ann" })
    expect(forgotten).toMatchObject({ id: end_user_id })
    expect(await gateway.callOf(other.answer)).toMatchObject({ end_user: end_user_id })
  })

  test("is found by all that a client sends, with a session or longer than a name", async () => {
    const { id, key } = await gateway.account("10")
    const long = "é".repeat(200)
    const person = "user_0a1b_account_11111111-2222-3333-4444-555555555555_session_"
    const made = [
      await call(key, {}, { user: long }),
      await call(key, { [END_USER]: "11111111-2222-3333-4444-555555555555" }),
    ]
    for (const [at, end_user] of [long, `${person}9`].entries()) {
      const listed = await gateway.calls(`?account=${id}&end_user=${encodeURIComponent(end_user)}`)
      expect(listed.map((each) => each.id)).toEqual([made[at]?.answer.headers.get("x-request-id")])
      await gateway.admin("POST", `/accounts/${id}/forget-end-user`, { end_user })
      expect(await gateway.calls(`?account=${id}&end_user=${encodeURIComponent(end_user)}`)).toEqual([])
    }
  })

  test("by the command line, which takes the external id of the account", async () => {
    const { id, key } = await gateway.account("10")
    await gateway.admin("PATCH", `/accounts/${id}`, { external_id: "customer 7" })
    await call(key, {}, { user: "ann" })
    const env = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
    const { code, out } = await type(["accounts", "forget-end-user", "customer 7", "ann"], env)
    expect([code, out]).toEqual([0, expect.stringContaining("Forgot the end user ")])
  })

  test("and no name or tag of a call is in the log or the metrics", async () => {
    const { key } = await gateway.account("10")
    await call(key, { [TAGS]: "team=canarytag", [END_USER]: "canaryperson" }, { user: "canaryuser" })
    await call(key, { [TAGS]: "team=canarytag canary", [END_USER]: "canaryperson" })
    const said = `${gateway.lines.join("\n")}${await gateway.metrics()}`
    expect(said).not.toContain("canary")
  })
})
