import type { TimelineGroup } from "../wire/statistics.ts"
import type { UsageReport } from "../wire/usage-report.ts"
import { sumUsd } from "./amount.ts"

const DAY_MS = 86_400_000
/** The groups that have a series of their own; the others are added. */
const SERIES = 5

type DailyRow = UsageReport["data"][number]

/**
 * The usage of each day by `by`, of a report by the day and `by`, or by the day alone: series of the groups with the highest
 * charges, and one of all others, whose number is `left_out`.
 */
export function dailyUsage({ from, to, data }: Pick<UsageReport, "from" | "to" | "data">, by: string) {
  const first_ms = Math.floor(Date.parse(from) / DAY_MS) * DAY_MS
  const length = Math.max(1, Math.ceil((Date.parse(to) - first_ms) / DAY_MS))
  const starts_at = Array.from({ length }, (_, at) => new Date(first_ms + at * DAY_MS).toISOString())
  const groups = [...Map.groupBy(data, (row) => row.groups?.[by] ?? "").entries()]
    .map(([group, rows]) => ({
      group,
      name: nameOf(rows, by),
      rows,
      total: Number(sumUsd(rows.map(chargeOf))),
    }))
    .sort((left, right) => right.total - left.total)
  const shown = groups.slice(0, SERIES)
  const rest = groups.slice(SERIES)
  const days = starts_at.map((at) => at.slice(0, 10))
  const series = shown.map(({ group, name, rows }) => seriesIn(days, group, name, rows))
  if (rest.length > 0)
    series.push(
      seriesIn(
        days,
        null,
        null,
        rest.flatMap(({ rows }) => rows),
      ),
    )
  return { starts_at, data: series, left_out: rest.length }
}

const chargeOf = ({ charge }: DailyRow) => charge

function nameOf(rows: readonly DailyRow[], by: string): string | null {
  return rows.map(({ names }) => names?.[by] ?? null).find((name) => name !== null) ?? null
}

function seriesIn(
  days: readonly string[],
  group: string | null,
  name: string | null,
  rows: readonly DailyRow[],
): TimelineGroup {
  const by_day = days.map((day) => rows.filter((row) => (row.groups?.day ?? row.group) === day))
  const sum = (countOf: (row: DailyRow) => number) =>
    by_day.map((of_day) => of_day.reduce((total, row) => total + countOf(row), 0))
  return {
    group,
    name: group === "" ? "none" : name,
    charge: by_day.map((of_day) => sumUsd(of_day.map(chargeOf))),
    calls: sum(({ calls }) => calls),
    prompt_tokens: sum(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: sum(({ cached_tokens }) => cached_tokens),
    completion_tokens: sum(({ completion_tokens }) => completion_tokens),
  }
}
