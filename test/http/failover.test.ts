import { afterEach, describe, expect, test } from "bun:test"
import type { Answer } from "../support/answer.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import { chatWords, HELLO, heldBack, json, type Script, sse, usage } from "../support/provider.ts"
import { expectIds } from "./errors.ts"
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
  const upstream = (name: string, api_key: string) => ({
    [name]: { family: "chat", base_url: `${url}/${name}`, api_key },
  })
  const model = (...uses: string[]) =>
    chatModel(uses.join("+"), { upstreams: uses.map((use) => ({ use, model: `model-of-${use}` })) })
  return {
    upstreams: {
      ...upstream("first", PROVIDER_KEY),
      ...upstream("second", `${PROVIDER_KEY}-2`),
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
    },
    models: [
      model("first"),
      model("second"),
      model("first", "second"),
      model("nowhere", "second"),
      model("first", "nowhere"),
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

describe("D14 a second upstream is tried while nothing of a 2xx was received", () => {
  const rows: readonly (readonly [what: string, model: string, first: Script | null])[] = [
    ["a refused connection", "nowhere+second", null],
    ["a 503", "first+second", json(503, {})],
  ]
  const cases = rows.flatMap(([what, ...row]) =>
    [false, true].map((stream) => [what, stream, ...row] as const),
  )
  test.each(cases)("%s, stream %p", async (_, stream, model, first) => {
    const [one = "", two = ""] = model.split("+")
    if (first !== null) script(one, first)
    const before = await harness.gateway.calls(`?account=${account.id}`)
    const asked = harness.provider.requests.length
    const answer = await ask(model, { stream })
    const requests = harness.provider.requests.slice(asked)
    const tried = first === null ? [two] : [one, two]
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
