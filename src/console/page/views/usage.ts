import { type OperatorUsageReport, OperatorUsageSums } from "../../../wire/usage-report.ts"
import { withQuery } from "../../fragment.ts"
import { dimensionTitle } from "../../words.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { type FormField, filterForm, filterIn } from "../form.ts"
import { type Visit, view } from "../part.ts"
import { columnsOf, list, type PageColumn } from "../table.ts"

type SummedRow = OperatorUsageReport["data"][number]

const FILTERS: readonly FormField[] = [
  {
    name: "by",
    label: "Group by",
    hint: "Up to four of model, operation, upstream, upstream_key, account, key, end_user, tag:NAME, session, day, hour.",
  },
  { name: "account", label: "Account id" },
  { name: "from", label: "From (UTC)", kind: "time" },
  { name: "to", label: "To (UTC)", kind: "time" },
]

/** Usage, charge and cost by several dimensions (D105). */
export function usage(visit: Visit): HTMLElement {
  const { query } = visit.address
  const by = query.by || "model,day"
  const filter = { ...filterIn(FILTERS, query), by }
  const path = withQuery("/usage", filter)
  const column = columnsOf(OperatorUsageSums)
  const found = list(visit, {
    label: "Usage",
    key: ({ group, groups }: SummedRow) => JSON.stringify(groups ?? group),
    columns: [
      ...by.split(",").map(dimension),
      ...column.each("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "charge", "cost"),
      column("profit"),
    ],
    empty: "No calls ended in this time.",
    load: (signal) => ask<OperatorUsageReport>(path, signal),
    below: ({ left_out }) =>
      left_out > 0 && el("p.quiet", `${left_out} more groups with lower charges are in the total only.`),
  })
  const csv = el("a", { href: withQuery(`/admin${path}`, { format: "csv" }), download: "usage.csv" }, "CSV")
  return view("Usage", csv, el("div.card", filterForm("usage", FILTERS, filter)), found.element)
}

function dimension(by: string): PageColumn<SummedRow> {
  return [
    dimensionTitle(by),
    ({ group, groups = { [by]: group }, name, names = { [by]: name } }) => {
      const value = groups[by] ?? group
      return value === "" ? el("span.quiet", "none") : named(names[by] ?? value)
    },
  ]
}
