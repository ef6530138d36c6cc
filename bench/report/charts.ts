import { PERIOD_MS } from "../job.ts"
import type { LatencyPoint } from "../latencies.ts"
import type { Chart, Series } from "./report.ts"

/** A line of a chart, with its own values. */
export interface Line<Value> {
  readonly name: string
  readonly colour: Series["colour"]
  readonly values: readonly Value[]
}

/** Shorter times are noise. */
const SHORTEST_MS = 0.01

/** Times by percentile. Tails are as long as there are values for them. */
export function distribution(title: string, lines: readonly Line<LatencyPoint>[]): Chart {
  const longest = lines.reduce<readonly LatencyPoint[]>(
    (most, { values }) => (values.length > most.length ? values : most),
    [],
  )
  return {
    title,
    x: { label: "percentile", scale: "percentile" },
    y: { label: "ms", scale: "logarithmic" },
    places: longest.map(({ quantile }) => -Math.log10(1 - quantile)),
    series: lines.map(({ name, colour, values }) => ({
      name,
      colour,
      values: longest.map((_, at) => shown(values[at]?.ms ?? 0)),
    })),
  }
}

/** A logarithmic axis has no place for 0: the second of two events that came together waited 0 ms. */
function shown(ms: number): number | null {
  return ms < SHORTEST_MS ? null : ms
}

/** Numbers over the measured time. */
export function overTime(title: string, label: string, lines: readonly Line<number>[]): Chart {
  const length = Math.max(...lines.map(({ values }) => values.length))
  const places = Array.from({ length }, (_, at) => ((at + 1) * PERIOD_MS) / 1000)
  return against(title, "seconds measured", label, places, lines)
}

/** Numbers by some other number. */
export function against(
  title: string,
  x_label: string,
  y_label: string,
  places: readonly number[],
  lines: readonly Line<number>[],
): Chart {
  return {
    title,
    x: { label: x_label, scale: "linear" },
    y: { label: y_label, scale: "linear" },
    places,
    series: lines.map(({ name, colour, values }) => ({
      name,
      colour,
      values: places.map((_, at) => values[at] ?? null),
    })),
  }
}
