import { beforeEach, describe, expect, test } from "bun:test"
import { type AttemptResult, CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import { routes, upstream } from "./calling.ts"

let now_ms = 0
let breakers = new CircuitBreakers(() => now_ms)
beforeEach(() => {
  now_ms = 1_000
  breakers = new CircuitBreakers(() => now_ms)
})

function report(result: AttemptResult, times = 1, name = "first"): void {
  for (let n = 0; n < times; n++) {
    const leave = breakers.tryAcquire(name, "key")
    if (leave === null) throw new Error(`try ${n + 1} was turned away`)
    leave(result)
  }
}

describe("D33 what opens a breaker", () => {
  const rows: [name: string, reports: [AttemptResult, number][], admits: boolean][] = [
    ["nothing yet", [], true],
    ["four failures", [["unreachable", 4]], true],
    ["five in a row", [["unreachable", 5]], false],
    [
      "an answer between",
      [
        ["unreachable", 4],
        ["answered", 1],
        ["unreachable", 4],
      ],
      true,
    ],
    [
      "an abandoned call between",
      [
        ["unreachable", 4],
        ["abandoned", 3],
        ["unreachable", 1],
      ],
      false,
    ],
    ["only abandoned calls", [["abandoned", 50]], true],
  ]
  test.each(rows)("%s", (_name, reports, admits) => {
    for (const [result, times] of reports) report(result, times)
    expect(breakers.admits("first")).toBe(admits)
    expect(breakers.tryAcquire("first", "key") !== null).toBe(admits)
  })

  test("failures of one account after the request was sent do for that account, those of two for all whose last call failed", () => {
    report("failed", 4)
    expect(breakers.admits("first", "key")).toBe(true)
    report("failed")
    expect(breakers.admits("first", "key")).toBe(false)
    expect(breakers.tryAcquire("first", "key")).toBeNull()
    expect(breakers.admits("first", "other")).toBe(true)
    expect(breakers.admits("first")).toBe(true)
    expect(breakers.status("first")).toEqual({
      state: "ready",
      failures: 5,
      tries_in_ms: null,
      accounts_skipped: 1,
    })
    breakers.tryAcquire("first", "other")?.("failed")
    expect(breakers.admits("first")).toBe(false)
    expect(breakers.admits("first", "other")).toBe(false)
    // Two accounts whose requests fail by themselves keep out nobody else.
    breakers.tryAcquire("first", "third")?.("failed")
    expect(breakers.admits("first", "third")).toBe(false)
    breakers.tryAcquire("first", "fourth")?.("answered")
    for (const account of ["other", "third", "fourth"]) expect(breakers.admits("first", account)).toBe(true)
    expect(breakers.admits("first", "key")).toBe(false)
  })

  test.each([0, 2, 4])(
    "failures of one account and one that could not be sent do for all: after %d of them",
    (before) => {
      report("failed", before)
      report("unreachable")
      report("failed", 4 - before)
      expect([breakers.admits("first"), breakers.admits("first", "other")]).toEqual([false, false])
    },
  )

  test("an answer between forgets whose they were", () => {
    report("failed", 4)
    report("answered")
    breakers.tryAcquire("first", "other")?.("failed")
    breakers.tryAcquire("first", "other")?.("failed")
    report("failed", 2)
    expect(breakers.admits("first")).toBe(true)
    report("failed")
    expect(breakers.admits("first")).toBe(false)
  })

  test("one upstream's failures are its own", () => {
    report("unreachable", 5, "first")
    expect(breakers.admits("second")).toBe(true)
  })

  test("a report counts once", () => {
    const leave = breakers.tryAcquire("first", "key")
    for (let n = 0; n < 5; n++) leave?.("unreachable")
    expect(breakers.admits("first")).toBe(true)
  })
})

describe("D33 an open breaker", () => {
  beforeEach(() => report("unreachable", 5))

  test("stays open for 10 s to the millisecond", () => {
    now_ms += 9_999
    expect(breakers.tryAcquire("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.tryAcquire("first", "key")).not.toBeNull()
  })

  test("then lets exactly one of 50 try, and asking whether it would does not use that up", () => {
    now_ms += 10_000
    for (let n = 0; n < 50; n++) expect(breakers.admits("first")).toBe(true)
    const let_in = Array.from({ length: 50 }, () => breakers.tryAcquire("first", "key")).filter(
      (leave) => leave !== null,
    )
    expect(let_in).toHaveLength(1)
    expect(breakers.admits("first")).toBe(false)
  })

  test("closes when that one is answered", () => {
    now_ms += 10_000
    report("answered")
    report("unreachable", 4)
    expect(breakers.admits("first")).toBe(true)
  })

  test("opens for another 10 s from when that one fails", () => {
    now_ms += 10_000
    const leave = breakers.tryAcquire("first", "key")
    now_ms += 3_000
    leave?.("unreachable")
    now_ms += 9_999
    expect(breakers.tryAcquire("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.tryAcquire("first", "key")).not.toBeNull()
  })

  test("lets the next one try at once when that one was abandoned", () => {
    now_ms += 10_000
    breakers.tryAcquire("first", "key")?.("abandoned")
    expect(breakers.tryAcquire("first", "key")).not.toBeNull()
    expect(breakers.tryAcquire("first", "key")).toBeNull()
  })

  test("lets another one try after 10 s when that one is slow, and its being abandoned then frees nothing", () => {
    now_ms += 10_000
    const slow = breakers.tryAcquire("first", "key")
    now_ms += 9_999
    expect(breakers.tryAcquire("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.tryAcquire("first", "key")).not.toBeNull()
    slow?.("abandoned")
    expect(breakers.tryAcquire("first", "key")).toBeNull()
  })

  test("is not kept open by calls that began before it opened", () => {
    breakers = new CircuitBreakers(() => now_ms)
    const early = Array.from({ length: 10 }, () => breakers.tryAcquire("first", "key"))
    for (const leave of early.slice(0, 5)) leave?.("unreachable")
    now_ms += 9_000
    for (const leave of early.slice(5)) leave?.("unreachable")
    now_ms += 1_000
    expect(breakers.tryAcquire("first", "key")).not.toBeNull()
  })

  test("closes when a call that began before is answered", () => {
    breakers = new CircuitBreakers(() => now_ms)
    const early = breakers.tryAcquire("first", "key")
    report("unreachable", 5)
    early?.("answered")
    expect(breakers.admits("first")).toBe(true)
  })
})

describe("D33 ready", () => {
  const first = upstream("http://x")
  const second = upstream("http://y", { name: "second" })

  test("as long as one route's breaker is not open", () => {
    expect(breakers.ready(routes(first, second), "key")).toBe(true)
    report("unreachable", 5, "first")
    expect(breakers.ready(routes(first), "key")).toBe(false)
    expect(breakers.ready(routes(first, second), "key")).toBe(true)
    report("unreachable", 5, "second")
    expect(breakers.ready(routes(first, second), "key")).toBe(false)
    now_ms += 10_000
    expect(breakers.ready(routes(first, second), "key")).toBe(true)
  })

  test("by name: a reload's new object of the same upstream inherits the state", () => {
    report("unreachable", 5, "first")
    expect(breakers.ready(routes(upstream("http://elsewhere")), "key")).toBe(false)
  })
})

test("D33, D51: what a breaker shows: ready, open, trying, and ready again", () => {
  const shown = () => Object.values(breakers.status("first"))
  expect(breakers.status("first")).toEqual({
    state: "ready",
    failures: 0,
    tries_in_ms: null,
    accounts_skipped: 0,
  })
  report("unreachable", 4)
  expect(shown()).toEqual(["ready", 4, null, 0])
  report("unreachable")
  expect(shown()).toEqual(["open", 5, 10_000, 1])
  now_ms += 10_500
  expect(shown()).toEqual(["open", 5, 0, 0])
  const trying = breakers.tryAcquire("first", "key")
  expect(shown()).toEqual(["trying", 5, 10_000, 1])
  trying?.("abandoned")
  expect(shown()).toEqual(["open", 5, 0, 0])
  report("answered")
  expect(shown()).toEqual(["ready", 0, null, 0])
})
