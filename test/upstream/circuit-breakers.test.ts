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
    const leave = breakers.enter(name, "key")
    if (leave === null) throw new Error(`try ${n + 1} was turned away`)
    leave(result)
  }
}

describe("D33 what opens a breaker", () => {
  const rows: [name: string, reports: [AttemptResult, number][], admits: boolean][] = [
    ["nothing yet", [], true],
    ["four failures", [["failed", 4]], true],
    ["five in a row", [["failed", 5]], false],
    [
      "an answer between",
      [
        ["failed", 4],
        ["answered", 1],
        ["failed", 4],
      ],
      true,
    ],
    [
      "an abandoned call between",
      [
        ["failed", 4],
        ["abandoned", 3],
        ["failed", 1],
      ],
      false,
    ],
    ["only abandoned calls", [["abandoned", 50]], true],
  ]
  test.each(rows)("%s", (_name, reports, admits) => {
    for (const [result, times] of reports) report(result, times)
    expect(breakers.admits("first")).toBe(admits)
    expect(breakers.enter("first", "key") !== null).toBe(admits)
  })

  test("5xx for the requests of one key do not, those for two keys do", () => {
    report("refused", 50)
    expect(breakers.admits("first")).toBe(true)
    expect(breakers.status("first")).toEqual({ state: "ready", failures: 50, tries_in_ms: null })
    breakers.enter("first", "other")?.("refused")
    expect(breakers.admits("first")).toBe(false)
  })

  test.each([0, 2, 4])("5xx for one key and a failed connection do: after %d of them", (before) => {
    report("refused", before)
    report("failed")
    report("refused", 4 - before)
    expect(breakers.admits("first")).toBe(false)
  })

  test("an answer between forgets whose they were", () => {
    report("refused", 4)
    report("answered")
    breakers.enter("first", "other")?.("refused")
    breakers.enter("first", "other")?.("refused")
    report("refused", 2)
    expect(breakers.admits("first")).toBe(true)
    report("refused")
    expect(breakers.admits("first")).toBe(false)
  })

  test("one upstream's failures are its own", () => {
    report("failed", 5, "first")
    expect(breakers.admits("second")).toBe(true)
  })

  test("a report counts once", () => {
    const leave = breakers.enter("first", "key")
    for (let n = 0; n < 5; n++) leave?.("failed")
    expect(breakers.admits("first")).toBe(true)
  })
})

describe("D33 an open breaker", () => {
  beforeEach(() => report("failed", 5))

  test("stays open for 10 s to the millisecond", () => {
    now_ms += 9_999
    expect(breakers.enter("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.enter("first", "key")).not.toBeNull()
  })

  test("then lets exactly one of 50 try, and asking whether it would does not use that up", () => {
    now_ms += 10_000
    for (let n = 0; n < 50; n++) expect(breakers.admits("first")).toBe(true)
    const let_in = Array.from({ length: 50 }, () => breakers.enter("first", "key")).filter(
      (leave) => leave !== null,
    )
    expect(let_in).toHaveLength(1)
    expect(breakers.admits("first")).toBe(false)
  })

  test("closes when that one is answered", () => {
    now_ms += 10_000
    report("answered")
    report("failed", 4)
    expect(breakers.admits("first")).toBe(true)
  })

  test("opens for another 10 s from when that one fails", () => {
    now_ms += 10_000
    const leave = breakers.enter("first", "key")
    now_ms += 3_000
    leave?.("failed")
    now_ms += 9_999
    expect(breakers.enter("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.enter("first", "key")).not.toBeNull()
  })

  test("lets the next one try at once when that one was abandoned", () => {
    now_ms += 10_000
    breakers.enter("first", "key")?.("abandoned")
    expect(breakers.enter("first", "key")).not.toBeNull()
    expect(breakers.enter("first", "key")).toBeNull()
  })

  test("lets another one try after 10 s when that one is slow, and its being abandoned then frees nothing", () => {
    now_ms += 10_000
    const slow = breakers.enter("first", "key")
    now_ms += 9_999
    expect(breakers.enter("first", "key")).toBeNull()
    now_ms += 1
    expect(breakers.enter("first", "key")).not.toBeNull()
    slow?.("abandoned")
    expect(breakers.enter("first", "key")).toBeNull()
  })

  test("is not kept open by calls that began before it opened", () => {
    breakers = new CircuitBreakers(() => now_ms)
    const early = Array.from({ length: 10 }, () => breakers.enter("first", "key"))
    for (const leave of early.slice(0, 5)) leave?.("failed")
    now_ms += 9_000
    for (const leave of early.slice(5)) leave?.("failed")
    now_ms += 1_000
    expect(breakers.enter("first", "key")).not.toBeNull()
  })

  test("closes when a call that began before is answered", () => {
    breakers = new CircuitBreakers(() => now_ms)
    const early = breakers.enter("first", "key")
    report("failed", 5)
    early?.("answered")
    expect(breakers.admits("first")).toBe(true)
  })
})

describe("D33 ready", () => {
  const first = upstream("http://x")
  const second = upstream("http://y", { name: "second" })

  test("as long as one route's breaker is not open", () => {
    expect(breakers.ready(routes(first, second))).toBe(true)
    report("failed", 5, "first")
    expect(breakers.ready(routes(first))).toBe(false)
    expect(breakers.ready(routes(first, second))).toBe(true)
    report("failed", 5, "second")
    expect(breakers.ready(routes(first, second))).toBe(false)
    now_ms += 10_000
    expect(breakers.ready(routes(first, second))).toBe(true)
  })

  test("by name: a reload's new object of the same upstream inherits the state", () => {
    report("failed", 5, "first")
    expect(breakers.ready(routes(upstream("http://elsewhere")))).toBe(false)
  })
})
