import { beforeEach, describe, expect, test } from "bun:test"
import type { Credential, Route, Upstream } from "../../src/config/config.ts"
import { anyErrors } from "../../src/presets/presets.ts"
import { meaningOf } from "../../src/upstream/account-errors.ts"
import { candidatesOf, KeyCooldowns } from "../../src/upstream/candidates.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import type { Attempts, Outgoing } from "../../src/upstream/forward.ts"
import { json, type Script } from "../support/provider.ts"
import { anUpstream } from "../support/upstream.ts"
import { answers, failure, first, newProviders, routes, second, send, textOf, upstream } from "./calling.ts"

newProviders()
let now_ms = 0
let breakers: CircuitBreakers
beforeEach(() => {
  second.reply(answers)
  now_ms = 1_000
  breakers = new CircuitBreakers(() => now_ms)
})

const key = (name: string, weight = 1): Credential => ({ name, api_key: `sk-${name}`, weight })

/** Answers by the key that is shown; a key that is not named is answered well. */
const byKey =
  (scripts: Record<string, Script>): Script =>
  (exchange) =>
    (scripts[exchange.request.headers.authorization?.replace("Bearer sk-", "") ?? ""] ?? answers)(exchange)

/** The keys that were shown so far. */
const shown = () => first.requests.map(({ headers }) => headers.authorization?.replace("Bearer sk-", ""))

/** Two keys, of which this affinity prefers `a`. */
const AFFINITY = "session-2"
const two = (...others: Upstream[]) => routes(upstream(first.url, { keys: [key("a"), key("b")] }), ...others)
const asking = (affinity: string | null) => ({ affinity, account_id: "one", path: "/" })
const backup = () => upstream(second.url, { name: "second" })

async function call(
  to: readonly [Route, ...Route[]] = two(),
  seen: (string | null)[] = [],
  overrides: Partial<Outgoing> = {},
): Promise<string> {
  const attempts: Attempts = { attempted: (_upstream, _outcome, _ms, fault) => void seen.push(fault) }
  const reply = await send(to, { affinity: AFFINITY, ...overrides }, breakers, attempts)
  await textOf(reply.body)
  return reply.route.upstream.name
}

test("D82 the affinity of these tests prefers the first key", () => {
  expect(candidatesOf(two(), asking(AFFINITY), breakers.cooldowns).map(({ key }) => key.name)).toEqual([
    "a",
    "b",
  ])
})

describe("D82 a key that the provider refuses is out for a minute, and the next one is asked in the same call", () => {
  const EMPTY = {
    error: { type: "invalid_request_error", message: "Your credit balance is too low to go on." },
  }
  const rows: [name: string, script: Script, fault: string][] = [
    ["401", json(401, {}), "status 401: key or account refused, key a"],
    ["402", json(402, {}), "status 402: key or account refused, key a"],
    ["403", json(403, {}), "status 403: key or account refused, key a"],
    ["400 of an empty account", json(400, EMPTY), "status 400: key or account refused, key a"],
    [
      "429 of an empty account",
      json(429, { error: { code: "insufficient_quota" } }),
      "status 429: key or account refused, key a",
    ],
  ]
  test.each(rows)("%s", async (_name, script, fault) => {
    first.reply(byKey({ a: script }))
    const to = two()
    const seen: (string | null)[] = []
    await call(to, seen)
    await call(to)
    expect(seen).toEqual([fault, null])
    expect(shown()).toEqual(["a", "b", "b"])
    now_ms += 60_000
    await call(to)
    expect(shown().slice(3)).toEqual(["a", "b"])
    expect(breakers.admits("first")).toBe(true)
  })

  test("a changed key is asked at once", async () => {
    first.reply(byKey({ a: json(401, {}) }))
    await call(two())
    await call(two())
    expect(shown()).toEqual(["a", "b", "a", "b"])
  })

  test("all are refused: a 502, and the next call asks again", async () => {
    first.reply(json(401, { error: { message: "sk-a" } }))
    const to = two()
    for (let times = 0; times < 2; times++) expect((await failure(call(to))).code).toBe("upstream_error")
    expect(shown()).toEqual(["a", "b", "a", "b"])
  })

  test("the next upstream is asked after the last key", async () => {
    first.reply(json(401, {}))
    expect(await call(two(backup()))).toBe("second")
    expect(shown()).toEqual(["a", "b"])
  })

  test("an empty account of the operator is never shown as the client's (D17)", async () => {
    first.reply(json(400, EMPTY))
    const error = await failure(call())
    expect(error.code).toBe("upstream_error")
    expect(error.message).not.toContain("credit")
  })
})

test("D82 a page of a firewall, which a client's words can cause, goes to the next upstream, and no key is out", async () => {
  first.reply(
    byKey({ a: json(403, "\n<!DOCTYPE html><title>Blocked</title>", { "content-type": "text/html" }) }),
  )
  const to = two(backup())
  expect(await call(to)).toBe("second")
  expect(shown()).toEqual(["a"])
  await call(to)
  expect(shown()).toEqual(["a", "a"])
})

describe("D82 a key with 429 rests for its Retry-After", () => {
  test("for the model and the path alone, and the next key is asked in the same call", async () => {
    first.reply(byKey({ a: json(429, {}, { "retry-after": "20" }) }))
    const to = two()
    await call(to)
    await call(to)
    expect(shown()).toEqual(["a", "b", "b"])
    const [route] = to
    await call([{ ...route, model: "another" }])
    await call(to, [], { path: "/v1/messages/count_tokens?beta=true" })
    expect(shown().slice(3)).toEqual(["a", "b", "a", "b"])
    now_ms += 20_000
    await call(to)
    expect(shown().slice(7)).toEqual(["a", "b"])
  })

  test("or for the wait that Gemini names in the body, which the client is told too (D17)", async () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "45.2s" }]
    first.reply(byKey({ a: json(429, [{ error: { code: 429, status: "RESOURCE_EXHAUSTED", details } }]) }))
    const to = two()
    await call(to)
    await call(to)
    expect(shown()).toEqual(["a", "b", "b"])
    now_ms += 46_000
    await call(to)
    expect(shown().slice(3)).toEqual(["a", "b"])
    first.reply(json(429, [{ error: { details } }]))
    expect((await failure(call(to))).detail.headers).toEqual({ "retry-after": "46" })
  })

  test("without one it does not rest", async () => {
    first.reply(byKey({ a: json(429, {}) }))
    const to = two()
    await call(to)
    await call(to)
    expect(shown()).toEqual(["a", "b", "a", "b"])
  })

  test("the only key is asked all the same", async () => {
    first.reply(json(429, {}, { "retry-after": "20" }))
    const to = routes(upstream(first.url))
    for (let times = 0; times < 2; times++) expect((await failure(call(to))).status).toBe(429)
    expect(first.requests).toHaveLength(2)
  })
})

describe("D82 a key that is refused to one account stays in use for the others", () => {
  const rows: [name: string, script: Script, rests_ms: number][] = [
    ["403 of a flagged prompt", json(403, { error: { message: "Forbidden" } }), 60_000],
    ["402 of a large max_tokens", json(402, {}), 60_000],
    ["429 with a wait", json(429, {}, { "retry-after": "20" }), 20_000],
  ]
  test.each(rows)("%s, until another one is refused too", async (_name, script, rests_ms) => {
    first.reply(byKey({ a: script }))
    const to = two()
    for (let times = 0; times < 2; times++) await call(to, [], { account_id: "one" })
    expect(shown()).toEqual(["a", "b", "b"])
    for (const account_id of ["two", "three", "one"]) await call(to, [], { account_id })
    expect(shown().slice(3)).toEqual(["a", "b", "b", "b"])
    now_ms += rests_ms
    for (const account_id of ["two", "three"]) await call(to, [], { account_id })
    expect(shown().slice(7)).toEqual(["a", "b", "a", "b"])
  })

  test("an answer to another account ends a refusal", async () => {
    const to = two()
    const refuse = json(403, {})
    for (const [account, script] of [
      ["one", refuse],
      ["two", answers],
      ["three", refuse],
      ["four", answers],
    ] as const) {
      first.reply(byKey({ a: script }))
      await call(to, [], { account_id: account })
    }
    expect(shown()).toEqual(["a", "b", "a", "a", "b", "a"])
  })
})

test("D82 what is not about a key goes to the next upstream, not to the next key", async () => {
  first.reply(json(503, {}))
  expect(await call(two(backup()))).toBe("second")
  expect(shown()).toEqual(["a"])
})

describe("D82 whose fault a refusal is", () => {
  const rows: [status: number, body: unknown, is_of_account: boolean][] = [
    [400, { error: { message: "You have reached your specified API usage limits. Until May." } }, true],
    [400, { error: { message: "Bad: 'Your credit balance is too low'" } }, false],
    [400, { error: { message: "Too long.", code: "context_length_exceeded" } }, false],
    [402, "", true],
    [403, { error: { message: "Request flagged by moderation." } }, false],
    [
      403,
      { error: { code: "permission-denied", message: "Your team x has used all available credits." } },
      true,
    ],
    [412, { error: "Account suspended" }, false],
    [429, { error: { details: { error_code: "enforced_spend_limit_reached" } } }, true],
    [429, { error: { code: "1113", message: "x" } }, true],
    [429, { error: { code: "rate_limit_exceeded" } }, false],
    [400, { error: { code: "Arrearage" } }, true],
    [500, { error: { code: 1008 } }, true],
    [500, { error: { message: "oops" } }, false],
    [503, { error: { code: "insufficient_quota" } }, false],
  ]
  test.each(rows)("%d %j: the account's %p", (status, body, is_of_account) => {
    expect(meaningOf(status, JSON.stringify(body), anyErrors) === "account").toBe(is_of_account)
  })
})

describe("D82 the order of upstreams and keys", () => {
  const rests = new KeyCooldowns(() => 0)
  const route = (name: string, weight: number, priority = 0): Route => ({
    upstream: anUpstream({ name }),
    model: "m",
    weight,
    priority,
  })
  const firstOf = (to: readonly [Route, ...Route[]], affinity: string | null) =>
    candidatesOf(to, asking(affinity), rests)[0]?.route.upstream.name

  test("lower priorities come first, whatever the weights", () => {
    const to = [route("late", 1_000, 2), route("early", 1, 1)] as const
    for (let n = 0; n < 50; n++)
      expect(candidatesOf(to, asking(`${n}`), rests).map(({ route }) => route.upstream.name)).toEqual([
        "early",
        "late",
      ])
  })

  test("among equals the weight is the share of the calls, and one affinity keeps to one", () => {
    const to = [route("one", 3), route("two", 1)] as const
    const firsts = Array.from({ length: 4_000 }, (_, n) => firstOf(to, `session-${n}`))
    const share = firsts.filter((name) => name === "one").length / firsts.length
    expect(share).toBeWithin(0.7, 0.8)
    for (let n = 0; n < 100; n++) expect(firstOf(to, `session-${n}`)).toBe(firsts[n] ?? "")
  })

  test("a further upstream moves only the calls that it takes over", () => {
    const to = [route("one", 1), route("two", 1)] as const
    const more = [...to, route("three", 1)] as const
    for (let n = 0; n < 500; n++) {
      const now = firstOf(more, `${n}`)
      if (now !== "three") expect(now).toBe(firstOf(to, `${n}`) ?? "")
    }
  })

  test("only the beginning of a long affinity counts, so that it costs no more than a short one", () => {
    const to = [route("one", 1), route("two", 1)] as const
    const long = (n: number, end: string) => `${n}${"x".repeat(1_024)}${end}`
    for (let n = 0; n < 20; n++) expect(firstOf(to, long(n, "a"))).toBe(firstOf(to, long(n, "b")) ?? "")
    const firsts = Array.from({ length: 20 }, (_, n) => firstOf(to, long(n, "")))
    expect(new Set(firsts).size).toBe(2)
  })

  test("without an affinity it is chance", () => {
    const to = [route("one", 1), route("two", 1)] as const
    expect(new Set(Array.from({ length: 200 }, () => firstOf(to, null))).size).toBe(2)
  })
})
