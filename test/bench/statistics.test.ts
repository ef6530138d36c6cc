import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { Arrival } from "../../bench/job.ts"
import { Latencies } from "../../bench/latencies.ts"
import { loadWarnings } from "../../bench/load-cost.ts"
import type { ScenarioResult } from "../../bench/results.ts"
import { type Measured, measuredOf, type Pairs, pairsOf, reaches } from "../../bench/scenario.ts"
import { shardsResult, targetResult } from "../../bench/scenario-result.ts"
import { scenarios } from "../../bench/scenarios.ts"
import { median, spread } from "../../bench/statistics.ts"
import { cpuCells, eachUs } from "../../bench/table.ts"
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
  const arrival: Arrival = { kind: "closed", connections: 1, duration_ms: 1000 }
  /** 100 calls of two events each, which took so much CPU together. */
  function measured(load: number, target: number, of = arrival): Measured {
    const tally = new Tally()
    tally.measure(0, 1000)
    for (let call = 0; call < 100; call++) {
      tally.noteCall({
        start_ms: 0,
        end_ms: 10,
        first_ms: 5,
        events: 2,
        failure: null,
      })
      tally.noteEvents(2, null, 5)
    }
    return measuredOf({ ...tally.report(), cpu_ms: { load, target, postgres: 20 }, memory: null }, of)
  }
  const scenario = (targets: ScenarioResult["targets"]): ScenarioResult => ({
    name: "json",
    title: "JSON",
    load: "",
    rounds: 2,
    figures: [],
    targets,
    pairs: null,
    reference: null,
  })

  test("CPU is by call, and the load generator's share is over all rounds", () => {
    const { cpu } = targetResult([measured(1, 10), measured(3, 30)])
    expect(cpu).toMatchObject({ per: "call", load_share: 0.1 })
    expect(cpu.target_us).toEqual({ median: 200, min: 100, max: 300 })
    expect(cpu.postgres_us.median).toBe(200)
    expect(cpu.load_us.median).toBe(20)
  })

  test("CPU is by event where streams outlast what is measured", () => {
    const held: Arrival = { kind: "held", connections: 5, opened_per_second: 10, window_ms: 1000 }
    const { cpu } = targetResult([measured(1, 10, held)])
    expect(cpu.per).toBe("event")
    expect(cpu.target_us.median).toBe(50)
  })

  test.each([
    ["a fifth of the gateway's CPU is no reason to warn", 20, 0],
    ["more than a fifth is", 21, 1],
  ])("%s", (_name, load, warnings) => {
    const result = targetResult([measured(load, 100)])
    const found = loadWarnings([scenario({ direct: targetResult([measured(90, 100)]), tollgate: result })])
    expect(found).toHaveLength(warnings)
    expect(
      found.every((warning) => warning.startsWith("JSON, tollgate: the load generator used 21 %")),
    ).toBeTrue()
  })
})

describe("two shards beside one", () => {
  const shards = scenarios.find((scenario) => scenario.kind === "shards")
  const pairs = (count: number, postgres: number[]): Pairs =>
    pairsOf({ pairs: count, duration_ms: 1000, cpu_ms: { process: 10, postgres } })

  test("CPU is by pair, and the ratio is of the sum over both Postgres", () => {
    if (shards === undefined) throw new Error("there is no scenario of shards")
    const one = pairs(100, [20])
    const round = { one, two: pairs(100, [10, 14]), two_full: pairs(200, [19, 21]) }
    const result = shardsResult(shards, 1000, [round, round])
    expect(result.figures.map(({ median }) => median)).toEqual([
      expect.closeTo(1.2),
      expect.closeTo(1),
      expect.closeTo(0.5),
      expect.closeTo(2),
    ])
    expect(result.figures.map(({ reached }) => reached)).toEqual([false, true, true, true])
    const [alone, together, full] = Object.values(result.pairs ?? {})
    expect(alone?.postgres_us.map(({ median }) => median)).toEqual([200])
    expect(together?.postgres_us.map(({ median }) => median)).toEqual([100, 140])
    expect(full?.process_us.median).toBe(50)
    expect(together === undefined ? "" : eachUs(together)).toBe("100 µs + 140 µs")
    expect(cpuCells(result)).toEqual(["100 µs per pair", "200 µs", ""])
  })
})

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
    expect(none.summary).toEqual({ count: 0, mean: 0, p50: 0, p90: 0, p99: 0, max: 0 })
    expect(Latencies.merged([none, none]).count).toBe(0)
  })
})

function recorded(values: readonly number[]): Latencies {
  const latencies = new Latencies()
  for (const value of values) latencies.record(value)
  return latencies
}
