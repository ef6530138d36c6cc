import { afterEach, describe, expect, test } from "bun:test"
import type { Answer } from "../support/answer.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import { chatWords, HELLO, heldBack, json, type Script, silent, sse, usage } from "../support/provider.ts"
import { type Code, expectError, expectIds, type Said } from "./errors.ts"
import { HELD, testHarness } from "./harness.ts"

const completes = HELLO
const streams = sse(chatWords("hello"), { usage: usage(10, 5) })
/** What each upstream, named by the first segment of its path, answers next. */
const scripts = new Map<string, Script[]>()

const harness = await testHarness(configuration)
const account = await harness.account()
harness.provider.reply((exchange) => {
  const { path, body } = exchange.request
  const usual = body.includes('"stream":true') ? streams : completes
  return (scripts.get(upstreamOf(path))?.shift() ?? usual)(exchange)
})
// Failures in a row open a breaker: an answer in between keeps those shut that no test wants open.
afterEach(async () => {
  for (const model of ["first", "second"]) expect((await ask(model)).status).toBe(200)
})

function configuration(url: string) {
  const upstream = (name: string, key: string, timeouts: object = {}) => ({
    [name]: { family: "chat", base_url: `${url}/${name}`, api_key: key, timeouts },
  })
  const model = (...uses: string[]) =>
    chatModel(uses.join("+"), { upstreams: uses.map((use) => ({ use, model: `model-of-${use}` })) })
  return {
    upstreams: {
      ...upstream("first", PROVIDER_KEY),
      ...upstream("second", `${PROVIDER_KEY}-2`),
      ...upstream("hurried", PROVIDER_KEY, { first_byte: "80ms", total: "160ms" }),
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
    },
    models: [
      model("first"),
      model("second"),
      model("first", "second"),
      model("nowhere", "second"),
      model("first", "nowhere"),
      model("hurried", "second"),
    ],
  }
}

function ask(model: string, fields: object = {}): Promise<Answer> {
  return harness.chat(account.key, { model, ...fields })
}

function script(upstream: string, ...next: Script[]): void {
  scripts.set(upstream, next)
}

function upstreamOf(path: string): string {
  return path.split("/")[1] ?? ""
}

/** The upstreams that were asked while `work` ran, in order. */
async function asked(work: () => Promise<unknown>): Promise<string[]> {
  const before = harness.provider.requests.length
  await work()
  return harness.provider.requests.slice(before).map(({ path }) => upstreamOf(path))
}

/** A call of `model` ends in this error, and holds and costs nothing. */
async function expectReleased(model: string, code: Code, said: Said = {}): Promise<void> {
  const answer = await ask(model)
  expectError(answer, code, said)
  expect(await harness.gateway.call(expectIds(answer))).toMatchObject({ state: "released", charge: "0" })
  expect(await harness.gateway.balance(account.id)).toMatchObject({ held: "0" })
}

describe("D14 a second upstream is tried while nothing of a 2xx was received", () => {
  type Row = readonly [what: string, model: string, first: Script | null, forms: readonly Form[]]
  type Form = "JSON" | "stream"
  const both: readonly Form[] = ["JSON", "stream"]
  const rows: readonly Row[] = [
    ["a refused connection", "nowhere+second", null, both],
    ["a reset", "first+second", (exchange) => exchange.reset(), both],
    ["a close", "first+second", (exchange) => exchange.close(), both],
    ...[408, 429, 500, 502, 503, 504, 529].map(
      (status): Row => [`a ${status}`, "first+second", json(status, {}), both],
    ),
    ["no headers within first_byte", "hurried+second", silent(), ["stream"]],
  ]
  const cases = rows.flatMap(([what, model, first, forms]) =>
    forms.map((form) => ({ what, model, first, form })),
  )
  test.each(cases)("$what, $form", async ({ model, first, form }) => {
    const [one = "", two = ""] = model.split("+")
    if (first !== null) script(one, first)
    const before = await harness.gateway.calls(`?account=${account.id}`)
    let answer: Answer | null = null
    const tried = await asked(async () => {
      answer = await ask(model, form === "stream" ? { stream: true } : {})
    })
    expect(tried).toEqual(first === null ? [two] : [one, two])
    const [call, ...earlier] = await harness.gateway.calls(`?account=${account.id}`)
    expect(earlier).toEqual(before)
    expect(answer).toMatchObject({ status: 200, headers: { "x-request-id": String(call?.id) } })
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      upstream: two,
      charge: "0.00003",
      failure: null,
    })
    const requests = harness.provider.requests.slice(-tried.length)
    expect(
      requests.map(({ headers, json: body }) => [headers["x-request-id"], headers.authorization, body]),
    ).toEqual(
      tried.map((name) => [
        call?.id,
        `Bearer ${name === "second" ? `${PROVIDER_KEY}-2` : PROVIDER_KEY}`,
        expect.objectContaining({ model: `model-of-${name}` }),
      ]),
    )
  })

  test("one reservation spans all attempts", async () => {
    const { id, key } = await harness.account(HELD)
    const release = heldBack(completes)
    script("first", json(503, {}))
    script("second", release.held)
    const arrived = harness.provider.requests.length + 2
    const answer = harness.chat(key, { model: "first+second" })
    await harness.provider.exchange(arrived)
    expect(await harness.gateway.balance(id)).toMatchObject({ held: HELD, available: "0" })
    expect(await harness.gateway.calls(`?account=${id}`)).toMatchObject([{ state: "open", held: HELD }])
    release.release()
    expect((await answer).status).toBe(200)
    expect(await harness.gateway.balance(id)).toMatchObject({ held: "0", balance: "0.004013" })
  })
})

describe("the log has one warning for each attempt that failed", () => {
  /** What the log says of a request, but for its times. */
  function logged(answer: Answer) {
    const id = expectIds(answer)
    return harness.gateway.lines
      .filter((line) => line.includes(id))
      .map((line): Record<string, unknown> => JSON.parse(line))
      .map(({ level, msg, upstream, fault }) => ({ level, msg, upstream, fault }))
  }
  const warning = (upstream: string, fault: string) => ({
    level: 40,
    msg: "upstream attempt failed",
    upstream,
    fault,
  })
  const call = (upstream: string) => ({ level: 30, msg: "call", upstream, fault: undefined })
  type Row = readonly [what: string, model: string, scripts: readonly Script[], lines: readonly object[]]
  const rows: readonly Row[] = [
    [
      "a 503 and another that answers",
      "first+second",
      [json(503, {})],
      [warning("first", "status 503"), call("second")],
    ],
    [
      "nothing listens and another answers",
      "nowhere+second",
      [],
      [warning("nowhere", "unreachable (ECONNREFUSED)"), call("second")],
    ],
    [
      "both fail: the call names the upstream that the ledger names",
      "first+nowhere",
      [json(500, {})],
      [warning("first", "status 500"), warning("nowhere", "unreachable (ECONNREFUSED)"), call("first")],
    ],
    [
      "a 401",
      "first",
      [json(401, {})],
      [warning("first", "status 401: key or account refused"), call("first")],
    ],
    ["a 400 is the request's fault", "first", [json(400, {})], [call("first")]],
  ]
  test.each(rows)("%s", async (_, model, next, lines) => {
    script("first", ...next)
    const answer = await ask(model)
    expect<readonly object[]>(logged(answer)).toEqual(lines)
    const { upstream } = await harness.gateway.call(expectIds(answer))
    expect(lines.at(-1)).toMatchObject({ upstream })
  })
})

describe("D14 no second chance where the first did its work, or the request is at fault", () => {
  type Row = readonly [what: string, first: Script, code: Code]
  const refusals: readonly (readonly [status: number, code: Code])[] = [
    [400, "invalid_request"],
    [404, "not_found"],
    [413, "request_too_large"],
    [422, "invalid_request"],
    [307, "upstream_error"],
    [501, "upstream_error"],
    [520, "upstream_error"],
  ]
  const rows: readonly Row[] = [
    ...refusals.map(([status, code]): Row => [`a ${status}`, json(status, {}), code]),
    ["a blank 200 (rule 3)", json(200, ""), "usage_missing"],
    ["a malformed 200 (rule 3)", json(200, "<html>"), "usage_invalid"],
    ["an error in a 200 (D10)", json(200, { error: { message: "x" } }), "upstream_error"],
  ]
  test.each(rows)("%s", async (_, first, code) => {
    script("first", first)
    expect(await asked(() => expectReleased("first+second", code))).toEqual(["first"])
  })

  test("a JSON call's total timeout (D31)", async () => {
    script("hurried", silent())
    expect(await asked(() => expectReleased("hurried+second", "upstream_timeout"))).toEqual(["hurried"])
  })

  test("a stream that is lost after its 2xx", async () => {
    script("first", sse(chatWords("hello"), { done: false, ending: "reset" }))
    expect(await asked(() => ask("first+second", { stream: true }))).toEqual(["first"])
  })
})

describe("D14 when all failed, the answer is that of the last one tried", () => {
  type Row = readonly [what: string, model: string, first: Script, second: Script, code: Code, said: Said]
  // Without a wait: its key would rest (D82).
  const busy = json(429, {}, { "retry-after": "0" })
  const rows: readonly Row[] = [
    ["500, 503", "first+second", json(500, {}), json(503, {}), "upstream_unavailable", {}],
    ["503, 500", "first+second", json(503, {}), json(500, {}), "upstream_error", {}],
    ["500, 429", "first+second", json(500, {}), busy, "rate_limited", { headers: { "retry-after": "0" } }],
    ["429, 400", "first+second", busy, json(400, { message: "No." }), "invalid_request", { message: "No." }],
    ["504, a reset", "first+second", json(504, {}), (exchange) => exchange.reset(), "upstream_error", {}],
    ["500, a refused connection", "first+nowhere", json(500, {}), silent(), "upstream_unavailable", {}],
  ]
  test.each(rows)("%s", async (_, model, first, second, code, said) => {
    script("first", first)
    script("second", second)
    await expectReleased(model, code, said)
    scripts.clear()
  })
})
