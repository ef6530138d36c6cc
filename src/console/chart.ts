import type { TimelineBody, TimelineGroup } from "../wire/statistics.ts"
import { plotted, showCount, showUsd, sumUsd } from "./amount.ts"

/** The metrics of a timeline. */
export const metrics = ["money", "tokens", "calls"] as const
export type Metric = (typeof metrics)[number]

export interface Series {
  readonly name: string
  /** The values to draw. */
  readonly values: readonly number[]
  /** The same values, exact and formatted. */
  readonly shown: readonly string[]
  readonly total: string
  /** The id or model; null for the group of all others. */
  readonly group: string | null
}

/** The series of a timeline in stacking order, the first at the bottom. */
export function seriesOf({ data, left_out }: TimelineBody, metric: Metric): readonly Series[] {
  return data.map((group) => ({
    name: group.group === null ? `${showCount(left_out)} more` : (group.name ?? group.group),
    group: group.group,
    ...figuresOf(group, metric),
  }))
}

function figuresOf(group: TimelineGroup, metric: Metric): Pick<Series, "values" | "shown" | "total"> {
  if (metric === "money") {
    return {
      values: group.charge.map(plotted),
      shown: group.charge.map(showUsd),
      total: showUsd(sumUsd(group.charge)),
    }
  }
  const values = metric === "calls" ? group.calls : tokensOf(group)
  return { values, shown: values.map(showCount), total: showCount(sum(values)) }
}

function tokensOf({ prompt_tokens, completion_tokens }: TimelineGroup): readonly number[] {
  return prompt_tokens.map((tokens, at) => tokens + (completion_tokens[at] ?? 0))
}

/** Each series added to those before it. */
export function stacked(series: readonly Pick<Series, "values">[]): readonly (readonly number[])[] {
  let below: readonly number[] = []
  return series.map(({ values }) => {
    below = values.map((value, at) => value + (below[at] ?? 0))
    return below
  })
}

/** The totals of all groups of a timeline. */
export interface Totals {
  readonly charge: string
  readonly calls: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

export function totalsOf({ data }: TimelineBody): Totals {
  return {
    charge: sumUsd(data.flatMap(({ charge }) => charge)),
    calls: sum(data.flatMap(({ calls }) => calls)),
    prompt_tokens: sum(data.flatMap(({ prompt_tokens }) => prompt_tokens)),
    cached_tokens: sum(data.flatMap(({ cached_tokens }) => cached_tokens)),
    completion_tokens: sum(data.flatMap(({ completion_tokens }) => completion_tokens)),
  }
}

/** Sums each `size` values, aligned at the last one, for a smoother line. */
export function coarser(values: readonly number[], size: number): readonly number[] {
  const rest = values.length % size
  return Array.from({ length: Math.floor(values.length / size) }, (_, at) =>
    sum(values.slice(rest + at * size, rest + (at + 1) * size)),
  )
}

/** The points of a sparkline in a box of `width` and `height`, the highest value at the top. */
export function sparkPoints(values: readonly number[], width: number, height: number): string {
  const highest = Math.max(...values, Number.MIN_VALUE)
  const step = width / Math.max(1, values.length - 1)
  return values
    .map((value, at) => `${(at * step).toFixed(1)},${(height - (value / highest) * height).toFixed(1)}`)
    .join(" ")
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
