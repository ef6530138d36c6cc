import { type UsageReport, UsageSums } from "../../../wire/usage-report.ts"
import { type Metric, metrics, seriesOf } from "../../chart.ts"
import { dailyUsage } from "../../daily.ts"
import { withQuery } from "../../fragment.ts"
import { dimensionTitle } from "../../words.ts"
import { el, named } from "../element.ts"
import { choice } from "../formats.ts"
import { part, type ViewPart, type Visit } from "../part.ts"
import { timePlot } from "../plot.ts"
import { columnsOf, table } from "../table.ts"
import { askOwn } from "./own-api.ts"

const DAY_MS = 86_400_000
const groupings = ["model", "day", "key", "end_user", "tag"] as const
const spans = ["7", "30", "90"] as const

type OwnUsageRow = UsageReport["data"][number]

/** The usage of the account: a plot of its days, and its sums by model, day, key, end user or a tag. */
export function ownUsage(visit: Visit): ViewPart {
  const reload = () => void made.load()
  const tag = el("input", {
    type: "text",
    "aria-label": "Name of the tag",
    placeholder: "team",
    value: "team",
    change: reload,
  })
  const group = () => {
    tag.hidden = grouping.value !== "tag"
    reload()
  }
  const grouping = choice("Group by", groupings, "model", group, dimensionTitle)
  const metric = choice("Metric", metrics, "money", reload)
  const days = choice("Days", spans, "30", reload, (one) => `${one} d`)
  tag.hidden = true
  const made = part(visit, {
    title: "Usage",
    tools: el("div.actions", grouping.element, tag, metric.element, days.element),
    async content(signal) {
      const by = grouping.value === "tag" ? `tag:${tag.value.trim()}` : grouping.value
      const from = new Date((Math.floor(Date.now() / DAY_MS) - Number(days.value) + 1) * DAY_MS).toISOString()
      const daily = await askOwn<UsageReport>(
        withQuery("/usage", { from, by: by === "day" ? "day" : `day,${by}` }),
        signal,
      )
      const sums = by === "day" ? daily : await askOwn<UsageReport>(withQuery("/usage", { from, by }), signal)
      if (daily.data.length === 0) return el("p.empty", "No calls ended in these days.")
      return el("div", plotOf(signal, daily, by, metric.value), rowsOf(sums, dimensionTitle(grouping.value)))
    },
  })
  return made
}

function plotOf(signal: AbortSignal, report: UsageReport, by: string, metric: Metric): HTMLElement {
  const daily = dailyUsage(report, by)
  return timePlot(signal, {
    starts_at: daily.starts_at,
    step_s: DAY_MS / 1_000,
    metric,
    series: seriesOf(daily, metric),
    showStep: (at) => daily.starts_at[at]?.slice(0, 10) ?? "",
    label: `${metric} by day and ${by}`,
  })
}

function rowsOf({ data, left_out }: UsageReport, title: string): HTMLElement {
  const column = columnsOf(UsageSums)
  const rows = table<OwnUsageRow>({
    label: "Usage",
    columns: [
      [title, ({ group, name }) => (group === "" ? el("span.quiet", "none") : named(name ?? group))],
      ...column.each("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "charge"),
    ],
    empty: "",
  })
  rows.show(data)
  return el(
    "div",
    rows.element,
    left_out > 0 && el("p.quiet", "Only those with the highest charges are shown."),
  )
}
