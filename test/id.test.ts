import { describe, expect, test } from "bun:test"
import { alignIds, floorId, isId, ledgerTime, NIL_ID, nextId } from "../src/id.ts"

describe("an id is a UUIDv7", () => {
  test("of the right form, version and variant", () => {
    for (let n = 0; n < 100; n++) {
      const id = nextId()
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(isId(id)).toBe(true)
    }
  })

  test("that begins with the time", () => {
    const timeOf = (id: string) => Number.parseInt(id.replace("-", "").slice(0, 12), 16)
    // Ids of earlier tests in this process may be ahead of the clock.
    const later_ms = timeOf(nextId()) + 10
    expect(timeOf(nextId(later_ms))).toBe(later_ms)
  })

  test("and is never the same twice, nor its random part", () => {
    const ids = Array.from({ length: 10_000 }, () => nextId())
    expect(new Set(ids).size).toBe(ids.length)
    expect(new Set(ids.map((id) => id.slice(19))).size).toBe(ids.length)
  })
})

describe("D35 the ids of one process never go backwards", () => {
  // Little ahead of the clock: what this file leaves behind, the ids of every later test in this process begin with.
  const now_ms = Date.now() + 20
  const rows: [string, (n: number) => number][] = [
    ["within one millisecond, past the counter's 4,096", () => now_ms],
    ["when the clock steps back an hour", (n) => now_ms + 20 - (n > 10 ? 3_600_000 : 0)],
    ["when the clock jitters", (n) => now_ms + 30 + (n % 7) - 3],
    ["when the clock runs", (n) => now_ms + 40 + Math.floor(n / 500)],
  ]
  test.each(rows)("%s", (_, clock) => {
    const ids = Array.from({ length: 10_000 }, (_, n) => nextId(clock(n)))
    expect(ids.every((id, n) => n === 0 || id > (ids[n - 1] ?? ""))).toBe(true)
  })
})

test("the lower bound of a time is an id, before 1970 too", () => {
  expect(floorId(new Date(Date.UTC(2026, 10, 27)))).toBe("01a21a4d-4000-0000-0000-000000000000")
  expect([floorId(new Date(0)), floorId(new Date(-10_000))]).toEqual([NIL_ID, NIL_ID])
})

test("the ledger's time is after everything that it has written until now", () => {
  alignIds(0, 0)
  const before_ms = Date.now()
  const time_ms = ledgerTime().getTime()
  expect(time_ms).toBeGreaterThan(before_ms)
  expect(time_ms).toBeLessThanOrEqual(Date.now() + 1)
})

/** In a process of its own: ids that were made in the future would stay there for all tests. */
test.each([
  ["ahead by an hour", 3_600_000],
  ["behind by an hour", -3_600_000],
])("D58 ids and the ledger's time follow a clock of the ledger that is %s", async (_, ahead_ms) => {
  const source = `
    import { alignIds, floorId, ledgerTime, nextId } from ${JSON.stringify(import.meta.resolve("../src/id.ts"))}
    const asked_ms = Date.now()
    alignIds(asked_ms + ${ahead_ms} + 0.25, asked_ms)
    const [id, time] = [nextId(), ledgerTime()]
    alignIds(asked_ms - 7_200_000, asked_ms)
    const later = nextId()
    console.log(JSON.stringify({ asked_ms, id, time_ms: time.getTime(), below: floorId(time) > id, later }))`
  const child = Bun.spawn([process.execPath, "-e", source], { stderr: "inherit" })
  const { asked_ms, id, time_ms, below, later } = JSON.parse(await child.stdout.text())
  const id_ms = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
  expect(id_ms - asked_ms).toBeWithin(ahead_ms, ahead_ms + 2_000)
  expect(time_ms).toBeGreaterThan(id_ms)
  expect(below).toBe(true)
  // A clock that was set back does not set back the ids of a process (D35).
  expect(later > id).toBe(true)
})

describe("isId", () => {
  const rows: [string, string, boolean][] = [
    ["a version 7", "018f4e7c-9b1a-7000-8000-000000000000", true],
    ["a version 4", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", true],
    ["upper case", "018F4E7C-9B1A-7000-8000-000000000000", false],
    ["without dashes", "018f4e7c9b1a70008000000000000000", false],
    ["in braces", "{018f4e7c-9b1a-7000-8000-000000000000}", false],
    ["with a prefix", "urn:uuid:018f4e7c-9b1a-7000-8000-000000000000", false],
    ["a digit short", "018f4e7c-9b1a-7000-8000-00000000000", false],
    ["a digit long", "018f4e7c-9b1a-7000-8000-0000000000000", false],
    ["a letter that is none of 16", "018f4e7g-9b1a-7000-8000-000000000000", false],
    ["a line end behind", "018f4e7c-9b1a-7000-8000-000000000000\n", false],
    ["two of them", "018f4e7c-9b1a-7000-8000-000000000000 018f4e7c-9b1a-7000-8000-000000000000", false],
    ["nothing", "", false],
  ]
  test.each(rows)("%s", (_, text, valid) => expect(isId(text)).toBe(valid))
})
