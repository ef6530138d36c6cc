import { describe, expect, test } from "bun:test"
import { Latencies } from "../../bench/latencies.ts"
import { against, distribution, overTime } from "../../bench/report/charts.ts"
import { renderPage } from "../../bench/report/page.ts"
import type { Report } from "../../bench/report/report.ts"
import { flatness, growthSteps, type Slice } from "../../bench/soak.ts"

const HOSTILE = `</script><script>alert("x")</script> & <b>`

function reportOf(text: string): Report {
  return {
    title: text,
    facts: [text],
    verdict: { good: false, text, faults: [text], warnings: [text] },
    tables: [{ caption: text, head: [text, "empty", "mark"], rows: [[text, "", { text, mark: "bad" }]] }],
    sections: [
      {
        title: text,
        text,
        tables: [],
        charts: [against(text, text, text, [1, 2], [{ name: text, colour: "first", values: [1] }])],
      },
    ],
  }
}

describe("the page", () => {
  const page = renderPage(reportOf(HOSTILE))

  test("shows text as text, in its data too", () => {
    expect(page).not.toContain("<script>alert")
    expect(page).not.toContain("<b>")
    expect(page).toContain("&lt;/script&gt;")
    const data = /<script type="application\/json" id="charts">(.*?)<\/script>/s.exec(page)?.[1] ?? ""
    expect(JSON.parse(data)).toEqual(reportOf(HOSTILE).sections[0]?.charts)
  })

  test("loads nothing", () => {
    expect(page).not.toMatch(/<(?:script|img|link|iframe)[^>]+(?:src|href)=|@import|url\(/)
  })

  test("leaves out a column that has nothing in it", () => {
    expect(page).not.toContain(">empty<")
    expect(page).toContain(">mark<")
  })
})

describe("a chart", () => {
  const latencies = (...values: number[]) => {
    const all = new Latencies()
    for (const value of values) all.record(value)
    return all.points
  }

  test("of distributions has a place for the longest tail, and none for what is too short to be told from nothing", () => {
    const long = latencies(...Array.from({ length: 1000 }, (_, at) => at))
    const chart = distribution("latency", [
      { name: "a", colour: "bare", values: latencies(0, 5) },
      { name: "b", colour: "tollgate", values: long },
    ])
    expect(chart.places).toHaveLength(long.length)
    expect(chart.places.at(-1)).toBeCloseTo(3, 5)
    expect(chart.series[0]?.values.slice(0, 5)).toEqual([null, null, null, null, null])
    expect(chart.series[0]?.values.at(-1)).toBeNull()
  })

  test("over time has one place for each period, as long as the longest line", () => {
    const chart = overTime("calls", "calls/s", [
      { name: "a", colour: "bare", values: [1, 2, 3] },
      { name: "b", colour: "direct", values: [4] },
    ])
    expect(chart.places).toEqual([0.25, 0.5, 0.75])
    expect(chart.series.map(({ values }) => values)).toEqual([
      [1, 2, 3],
      [4, null, null],
    ])
  })
})

describe("what a long run calls flat", () => {
  const summary = (p99: number) => ({ count: 1, mean: 1, p50: 1, p90: 1, p99, max: p99 })
  const slices = (grown: number): Slice[] =>
    Array.from({ length: 20 }, (_, at) => ({
      calls: at,
      left: 0,
      resident_bytes: at < 15 ? 100 : 100 * grown,
      json_latency_ms: summary(10),
      time_to_first_token_ms: summary(10),
    }))
  const step = (calls: number, p50: number) => ({
    calls,
    vacuumed: true,
    hold_ms: { ...summary(1), p50 },
    settle_ms: { ...summary(1), p50 },
    pairs_per_s: 1,
  })

  test.each([
    ["nothing grows", 1, 1, [true, true, true, true]],
    ["memory grows", 1.3, 1, [false, true, true, true]],
    ["the statements grow", 1, 1.4, [true, true, true, false]],
  ])("%s", (_name, memory, statements, reached) => {
    const figures = flatness(slices(memory), [step(10_000, 0.5), step(2_000_000, 0.5 * statements)])
    expect(figures.map((figure) => figure.reached)).toEqual(reached)
  })

  test.each([
    [2_000_000, [10_000, 100_000, 500_000, 1_000_000, 2_000_000]],
    [20_000, [10_000, 20_000]],
    [5_000, [5_000]],
  ])("statements are timed at steps up to %d", (past, steps) => {
    expect(growthSteps(past)).toEqual(steps)
  })
})
