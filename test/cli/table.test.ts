import { describe, expect, test } from "bun:test"
import { briefMoment, moment, parseMoment, span } from "../../src/cli/moment.ts"
import { type Column, card, count, table, usd, visible } from "../../src/cli/screen.ts"
import { painter } from "../../src/start/paint.ts"

const plain = painter(false, {})
type Row = readonly [id: string, name: string, note: string, amount: string]
const columns: readonly Column<Row>[] = [
  { title: "ID", of: ([id]) => id },
  { title: "NAME", of: ([, name]) => name, least: 4 },
  { title: "NOTE", of: ([, , note]) => note, spare: 1 },
  { title: "USD", of: ([, , , amount]) => amount, as: "usd" },
]
const rows: readonly Row[] = [
  ["0123456789", "Acme", "first", "10"],
  ["9876543210", "Wile E. Coyote", "second", "9.9871"],
]
const far = { width: null, paint: plain }
const draw = (width: number | null) => table(columns, rows, { width, paint: plain }).split("\n")

describe("tables", () => {
  test("stand in columns, amounts with their points below one another", () => {
    expect(draw(null)).toEqual([
      "ID          NAME            NOTE        USD",
      "0123456789  Acme            first   10.00",
      "9876543210  Wile E. Coyote  second   9.9871",
    ])
  })

  test("a narrower terminal cuts what may be cut", () => {
    expect(draw(38)).toEqual([
      "ID          NAME       NOTE        USD",
      "0123456789  Acme       first   10.00",
      "9876543210  Wile E. …  second   9.9871",
    ])
  })

  test("a much narrower one spares a column first", () => {
    expect(draw(26)).toEqual([
      "ID          NAME       USD",
      "0123456789  Acme   10.00",
      "9876543210  Wile…   9.9871",
    ])
  })

  test("an id is never cut, even where the line runs over the edge", () => {
    expect(draw(10).join("\n")).toContain("9876543210  Wil…")
  })

  test("without rows there is a line of titles", () => {
    expect(table(columns, [], far)).toBe("ID  NAME  NOTE  USD")
  })

  test("wide letters take their two columns", () => {
    const columns: readonly Column<{ name: string; x: number }>[] = [
      { title: "NAME", of: ({ name }) => name },
      { title: "X", of: ({ x }) => x },
    ]
    const wide = [
      { name: "日本", x: 1 },
      { name: "abcd", x: 2 },
    ]
    const lines = table(columns, wide, far).split("\n")
    expect(lines).toEqual(["NAME  X", "日本  1", "abcd  2"])
  })

  test.each([
    ["an escape sequence", "\u001b[31mred", "\ufffd[31mred"],
    ["a line break", "one\ntwo", "one\ufffdtwo"],
    ["text that turns around", "a\u202eb", "a\ufffdb"],
    ["letters of any script", "Ünïcode 日本", "Ünïcode 日本"],
  ])("%s in a name is shown and not obeyed", (_what, text, shown) => {
    expect(visible(text)).toBe(shown)
    expect(table([{ title: "NAME", of: (name: string) => name }], [text], far)).toBe(`NAME\n${shown}`)
    expect(card([["name", text]], far)).toBe(`name  ${shown}`)
  })
})

describe("amounts are texts from end to end", () => {
  test.each([
    ["10", "10.00"],
    ["9.9871", "9.9871"],
    ["-0.5", "-0.50"],
    ["123456789.123456789", "123456789.123456789"],
  ])("%s USD is shown as %s", (amount, shown) => {
    expect(usd(amount)).toBe(shown)
  })

  test.each([
    [0, "0"],
    [999, "999"],
    [1_000, "1,000"],
    [12_345_678, "12,345,678"],
  ])("%i is shown as %s", (number, shown) => {
    expect(count(number)).toBe(shown)
  })
})

describe("times", () => {
  const NOW_MS = Date.UTC(2026, 10, 21, 12)

  test.each([
    ["2026-11-21", "2026-11-21T00:00:00.000Z"],
    ["2026-11-21T10:00:00+02:00", "2026-11-21T08:00:00.000Z"],
    ["90m", "2026-11-21T10:30:00.000Z"],
    ["24h", "2026-11-20T12:00:00.000Z"],
    ["7d", "2026-11-14T12:00:00.000Z"],
    ["2026-02-30", null],
    ["yesterday", null],
    ["7", null],
    ["", null],
  ])("%s is read as %s", (text, time) => {
    expect(parseMoment(text, NOW_MS)).toBe(time)
  })

  test("30d ahead is a month from now", () => {
    expect(parseMoment("30d", NOW_MS, "ahead")).toBe("2026-12-21T12:00:00.000Z")
  })

  test("is shown to the second, and in a list of this year without the year", () => {
    expect(moment("2026-11-21T09:30:01.234Z")).toBe("2026-11-21 09:30:01 UTC")
    expect(briefMoment("2026-11-21T09:30:01.234Z", NOW_MS)).toBe("11-21 09:30:01")
    expect(briefMoment("2025-11-21T09:30:01.234Z", NOW_MS)).toBe("2025-11-21 09:30")
  })

  test.each([
    [0, "0 ms"],
    [999, "999 ms"],
    [1_000, "1.0 s"],
    [2_417, "2.4 s"],
    [61_999, "62.0 s"],
  ])("%i ms is shown as %s", (duration_ms, shown) => {
    expect(span(duration_ms)).toBe(shown)
  })
})
