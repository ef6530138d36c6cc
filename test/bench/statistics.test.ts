import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { Latencies } from "../../bench/latencies.ts"
import { loadWarnings } from "../../bench/load-cost.ts"
import { resultOf, type ScenarioResult, sideResult } from "../../bench/results.ts"
import { type Measured, measuredOf, reaches } from "../../bench/scenario.ts"
import { scenarios } from "../../bench/scenarios.ts"
import { median, spread } from "../../bench/statistics.ts"
import { cpuCells } from "../../bench/table.ts"
import { Tally } from "../../bench/tally.ts"

describe("what rounds say together", () => {
  test.each([
    ["one", [3], 3],
    ["an odd number, in any order", [9, 1, 5], 5],
    ["an even number: the mean of the two in the middle", [4, 1, 3, 100], 3.5],
    ["numbers are compared as numbers", [10, 9, 100], 10],
  ])("the median of %s", (_name, values, expected) => {
    expect(median(values)).toBe(expected)
  })

  test("spread keeps the extremes", () => {
    expect(spread([0.4, 0.6, 0.5])).toEqual({ median: 0.5, min: 0.4, max: 0.6 })
  })
})

test.each([
  ["at least", { at_least: 0.6 }, 0.6, 1, true],
  ["at least, missed", { at_least: 0.6 }, 0.59, 1, false],
  ["at least, with slack", { at_least: 0.6 }, 0.2, 3, true],
  ["at most", { at_most: 1.5 }, 1.5, 1, true],
  ["at most, missed", { at_most: 1.5 }, 1.51, 1, false],
  ["at most, with slack", { at_most: 1.5 }, 4.4, 3, true],
  ["what was not measured reaches nothing", { at_most: 1.5 }, Number.NaN, 10, false],
  ["what is only reported", null, 99, 1, true],
])("a goal: %s", (_name, goal, value, slack, reached) => {
  expect(reaches(value, goal, slack)).toBe(reached)
})

describe("what a call costs", () => {
  const scenario = (sides: ScenarioResult["sides"]): ScenarioResult => ({
    name: "json",
    title: "JSON",
    figures: [],
    sides,
    reference: null,
  })

  test("CPU is by call, and the load generator's share is over all rounds", () => {
    const { cpu } = sideResult([measured(1, 10), measured(3, 30)])
    expect(cpu).toMatchObject({ load_share: 0.1, target_us: { median: 200, min: 100, max: 300 } })
    expect(cpu.postgres_us.map(({ median }) => median)).toEqual([200])
    expect(cpu.load_us.median).toBe(20)
  })

  test("CPU is by event where streams outlast what is measured", () => {
    const { per, cpu } = sideResult([measured(1, 10, { per: "event" })])
    expect({ per, median: cpu.target_us.median }).toEqual({ per: "event", median: 50 })
  })

  test.each([
    ["a fifth of the gateway's CPU is no reason to warn", 20, 0],
    ["more than a fifth is", 21, 1],
  ])("%s", (_name, load, warnings) => {
    const tollgate = sideResult([measured(load, 100)])
    const found = loadWarnings([scenario({ direct: sideResult([measured(90, 100)]), tollgate })])
    expect(found).toHaveLength(warnings)
    expect(
      found.every((warning) => warning.startsWith("JSON, tollgate: the load generator used 21 %")),
    ).toBeTrue()
  })

  test("of two shards beside one CPU is by pair, and the ratio is of the sum over both Postgres", () => {
    const shards = scenarios.find(({ name }) => name === "shards")
    if (shards === undefined) throw new Error("there is no scenario of shards")
    const pairs = (calls: number, postgres: number[]) => measured(0, 10, { per: "pair", calls, postgres })
    const sides = [pairs(100, [20]), pairs(100, [10, 14]), pairs(200, [19, 21])]
    const round = {
      measured: new Map(shards.sides.map(({ name }, at) => [name, sides[at] ?? pairs(0, [])])),
      reference_ms: null,
    }
    const result = resultOf(shards, [round, round])
    expect(result.figures.map(({ median }) => median)).toEqual([
      expect.closeTo(1.2),
      expect.closeTo(1),
      expect.closeTo(0.5),
      expect.closeTo(2),
    ])
    expect(result.figures.map(({ reached }) => reached)).toEqual([false, true, true, true])
    const [alone, together, full] = Object.values(result.sides)
    expect(alone?.cpu.postgres_us.map(({ median }) => median)).toEqual([200])
    expect(together?.cpu.postgres_us.map(({ median }) => median)).toEqual([100, 140])
    expect(full?.cpu.target_us.median).toBe(50)
    expect(cpuCells(result)).toEqual(["100 µs per pair", "200 µs", ""])
    expect(cpuCells({ ...result, sides: { tollgate: together ?? sideResult([]) } })[1]).toBe(
      "100 µs + 140 µs",
    )
  })
})

/** Calls of two events each in a second, which took so much CPU together. */
function measured(
  load: number,
  target: number,
  {
    per = "call",
    calls = 100,
    postgres = [20],
  }: { per?: Measured["per"]; calls?: number; postgres?: number[] } = {},
): Measured {
  const tally = new Tally()
  tally.measure(0, 1000)
  for (let call = 0; call < calls; call++) {
    tally.noteCall({ start_ms: 0, end_ms: 10, first_ms: 5, failure: null })
    tally.noteEvents(2, null, 5)
  }
  return measuredOf({ ...tally.report(), cpu_ms: { load, target, postgres }, grown_bytes: 0 }, per, 1)
}

describe("a distribution", () => {
  const times = fc.array(fc.double({ min: 0, max: 60_000, noNaN: true }), { minLength: 1, maxLength: 300 })

  test("every quantile is the exact one, to three digits and a microsecond, also when it was sent to another process", () => {
    fc.assert(
      fc.property(times, fc.double({ min: 0.01, max: 1, noNaN: true }), (values, quantile) => {
        const latencies = recorded(values)
        const sorted = [...values].sort((a, b) => a - b)
        const exact = sorted[Math.ceil(quantile * sorted.length - 1e-9) - 1] ?? 0
        for (const same of [latencies, Latencies.decode(latencies.encoded)]) {
          expect(same.at(quantile)).toBeWithin(exact * 0.999 - 0.0011, exact * 1.001 + 0.0011)
        }
      }),
    )
  })

  test("parts merged are the whole", () => {
    fc.assert(
      fc.property(times, times, (one, other) => {
        const merged = Latencies.merged([recorded(one), recorded(other)])
        expect(merged.summary).toEqual(recorded([...one, ...other]).summary)
      }),
    )
  })

  test("none is zero everywhere", () => {
    const none = new Latencies()
    expect(none.summary).toEqual({ count: 0, p50: 0, p90: 0, p99: 0, max: 0 })
    expect(Latencies.merged([none, none]).count).toBe(0)
  })
})

function recorded(values: readonly number[]): Latencies {
  const latencies = new Latencies()
  for (const value of values) latencies.record(value)
  return latencies
}
