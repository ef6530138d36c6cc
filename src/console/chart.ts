import type { TimelineBody, TimelineGroup } from "../wire/statistics.ts"
import { showCount, showUsd, sumUsd } from "./amount.ts"

export const metrics = ["money", "tokens", "calls"] as const
export type Metric = (typeof metrics)[number]

export interface Series {
  readonly name: string
  readonly values: readonly number[]
  /** The same values, exact and formatted. */
  readonly shown: readonly string[]
  readonly total: string
  /** The id or model; null for the group of all others. */
  readonly group: string | null
}

/** The series of a timeline in stacking order, the first at the top. */
export function seriesOf(
  { data, left_out }: Pick<TimelineBody, "data" | "left_out">,
  metric: Metric,
): readonly Series[] {
  return data.map((one) => {
    const { group } = one
    const name = group === null ? `${showCount(left_out)} more` : (one.name ?? group)
    if (metric === "money") {
      const { charge } = one
      const total = showUsd(sumUsd(charge))
      return { name, group, values: charge.map(Number), shown: charge.map(showUsd), total }
    }
    const values = metric === "calls" ? one.calls : tokensOf(one)
    return { name, group, values, shown: values.map(showCount), total: showCount(sum(values)) }
  })
}

function tokensOf({ prompt_tokens, completion_tokens }: TimelineGroup): readonly number[] {
  return prompt_tokens.map((tokens, at) => tokens + (completion_tokens[at] ?? 0))
}

/** Each series added to those after it, so that it is drawn before them and they cover all but its own part. */
export function stacked(series: readonly Pick<Series, "values">[]): number[][] {
  return series.map(({ values }, at) => {
    const below = series.slice(at + 1)
    return values.map((value, step) => value + sum(below.map((one) => one.values[step] ?? 0)))
  })
}

export function totalsOf({ data }: TimelineBody) {
  const total = (valuesOf: (group: TimelineGroup) => readonly number[]) => sum(data.flatMap(valuesOf))
  return {
    charge: sumUsd(data.flatMap(({ charge }) => charge)),
    calls: total(({ calls }) => calls),
    prompt_tokens: total(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: total(({ cached_tokens }) => cached_tokens),
    completion_tokens: total(({ completion_tokens }) => completion_tokens),
  }
}

/** Sums each `size` values, aligned at the last one, for a smoother line. */
export function coarser(values: readonly number[], size: number): readonly number[] {
  const rest = values.length % size
  return Array.from({ length: Math.floor(values.length / size) }, (_, at) =>
    sum(values.slice(rest + at * size, rest + (at + 1) * size)),
  )
}

/** The area of a sparkline as a CSS polygon, the highest value at the top. Zero has 4 % of the height, to be seen. */
export function sparkArea(values: readonly number[]): string {
  const highest = Math.max(...values, Number.MIN_VALUE)
  const step = 100 / Math.max(1, values.length - 1)
  const points = values.map(
    (value, at) => `${(at * step).toFixed(1)}% ${(96 - (value / highest) * 96).toFixed(1)}%`,
  )
  return `polygon(0% 100%, ${points.join(", ")}, 100% 100%)`
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
