import { PERIOD_MS } from "../job.ts"
import type { LatencyPoint } from "../latencies.ts"
import type { Chart, Series } from "./report.ts"

/** A line of a chart before it has its place among the others. */
export interface Line<Value> {
  readonly name: string
  readonly colour: Series["colour"]
  readonly values: readonly Value[]
}

/** What is shorter is told from nothing only by chance. */
const SHORTEST_MS = 0.01

/** Times by percentile. A tail is as long as there are values for it. */
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

/** A logarithmic axis has no place for 0: of two events that came together the second has waited none. */
function shown(ms: number): number | null {
  return ms < SHORTEST_MS ? null : ms
}

/** Numbers by the seconds that were measured. */
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
