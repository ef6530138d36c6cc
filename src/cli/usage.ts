import { countedKinds, titleOf } from "../kinds.ts"
import { OperatorUsageReport, operatorGroupings } from "../wire/usage-report.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CALL_ARGS, callQuery } from "./calls.ts"
import { moment } from "./moment.ts"
import { count, table, usd } from "./screen.ts"

/** `tollgate usage`: what the calls of a time range used and cost (D48). */
export const usage = adminCommand({
  summary: "Show token usage and charges of a time range",
  details:
    "Default: the last 30 days, by day. A call counts at the time it ended. ABANDONED counts calls whose client left before output; they are not charged.",
  args: {
    by: { type: "enum", options: [...operatorGroupings], description: "what to group by" },
    ...CALL_ARGS,
  },
  examples: [
    ["tollgate usage", "the last 30 days, by day"],
    ["tollgate usage --by model --from 2026-11-01 --to 2026-12-01", "one month, by model"],
    [
      "tollgate usage --account Acme --by key --from 7d --json",
      "the last 7 days of one account by key, as JSON",
    ],
  ],
  async run(given, context) {
    const query = await callQuery(context, given, ["by"])
    const report = await context.client.get(`/usage?${new URLSearchParams(query)}`, OperatorUsageReport)
    context.show(report, () => usageTable(report, context))
    context.remark(`From ${moment(report.from)} to ${moment(report.to)}.`)
    if (report.left_out > 0)
      context.remark(`${count(report.left_out)} more groups are not shown; the total includes them.`)
  },
})

function usageTable({ by, data, total }: OperatorUsageReport, { screen }: AdminContext): string {
  const is_named = by === "key" || by === "account"
  const used = countedKinds.filter((bucket) => [total, ...data].some((sums) => sums.buckets[bucket] !== 0))
  const name = is_named ? [{ title: "NAME", least: 8 }] : []
  return table(
    [
      { title: by.toUpperCase(), ...(by === "model" ? { least: 8 } : {}) },
      ...name,
      { title: "CALLS", align: "right" },
      ...(total.abandoned === 0 ? [] : [{ title: "ABANDONED", align: "right" as const, spare: 5 }]),
      { title: "PROMPT", align: "right" },
      { title: "CACHED", align: "right", spare: 2 },
      { title: "OUTPUT", align: "right" },
      ...used.map((bucket) => ({ title: titleOf(bucket), align: "right" as const, spare: 4 })),
      { title: "OVERAGE", align: "point", spare: 1 },
      ...(total.provider_cost === "0" ? [] : [{ title: "PROVIDER", align: "point" as const, spare: 2 }]),
      { title: "COST", align: "point", spare: 3 },
      { title: "CHARGE", align: "point" },
    ],
    [...data, { group: "total", name: "", ...total }].map((sums) => [
      by === "hour" && sums.group !== "total" ? moment(sums.group) : sums.group,
      ...(is_named ? [sums.name ?? "-"] : []),
      count(sums.calls),
      ...(total.abandoned === 0 ? [] : [count(sums.abandoned)]),
      count(sums.prompt_tokens),
      count(sums.cached_tokens),
      count(sums.completion_tokens),
      ...used.map((bucket) => count(sums.buckets[bucket])),
      usd(sums.overage),
      ...(total.provider_cost === "0" ? [] : [usd(sums.provider_cost)]),
      usd(sums.cost),
      usd(sums.charge),
    ]),
    screen.width,
    screen.paint,
  )
}
