import { printSelected } from "../../../wire/budget.ts"
import { OwnBudget } from "../../../wire/budget-bodies.ts"
import { OwnAccount, Receipt } from "../../../wire/receipt.ts"
import { type UsageReport, UsageSums } from "../../../wire/usage-report.ts"
import { type Metric, metrics, seriesOf } from "../../chart.ts"
import { dailyUsage } from "../../daily.ts"
import { withQuery } from "../../fragment.ts"
import { dimensionTitle } from "../../words.ts"
import type { ListBody } from "../admin-api.ts"
import { button, el, named } from "../element.ts"
import { ago, brief, callLink, chip, choice, detail, entriesOf, usd } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { timePlot } from "../plot.ts"
import { columnsOf, list, table } from "../table.ts"
import { amountOf } from "../views/budgets.ts"
import { chargeOf, stateOf, tokensOf, tookOf } from "../views/calls.ts"
import { askOwn } from "./own-api.ts"
import { ownKeys } from "./own-keys.ts"
import { ownStatements } from "./own-statements.ts"

const PAGE = "20"

/** The account of a key as far as the key can read it: balance, usage, credits, budgets and calls (D47, D104). */
export function ownAccount(visit: Visit): HTMLElement {
  const title = el("span", "Your account")
  // One answer for the three parts that show it.
  const account = askOwn<OwnAccount>("/account", visit.signal)
  const totals = part(visit, {
    class: "totals",
    async content() {
      const found = await account
      const entry = entriesOf(OwnAccount, found)
      title.replaceChildren(named(found.name), " ", ...(found.suspended ? [chip("suspended")] : []))
      document.title = found.name
      return detail("tiles", [
        entry("available", undefined, "for new calls"),
        entry("balance", undefined, "credits minus charges"),
        entry("held", undefined, "by open calls"),
        entry("credit_limit", undefined, "below 0"),
        ["This key", named(found.key.name ?? `${found.key.prefix}…`), limitWords(found.key)],
      ])
    },
  })
  const parts = [
    totals,
    ownUsage(visit),
    grants(visit, account),
    budgets(visit, account),
    ownKeys(visit, account),
    ownStatements(visit),
    calls(visit),
  ]
  return view(title, null, ...parts.map(({ element }) => element))
}

function limitWords({ spending_limit, spent, suspended }: OwnAccount["key"]): string {
  const words =
    spending_limit === null
      ? "without a limit"
      : `spent ${spent} of ${spending_limit.amount} USD per ${spending_limit.per}`
  return suspended ? `suspended, ${words}` : words
}

function grants(visit: Visit, account: Promise<OwnAccount>): ViewPart {
  return list(visit, {
    title: "Credits that are left",
    label: "Credits",
    columns: [
      [
        "Expires",
        ({ expires_at }: OwnAccount["grants"][number]) => (expires_at === null ? "never" : brief(expires_at)),
      ],
      ["Left", ({ remaining }) => usd(remaining), "right"],
    ],
    empty: "Nothing of the balance expires.",
    load: async () => ({ data: (await account).grants }),
  })
}

function budgets(visit: Visit, account: Promise<OwnAccount>): ViewPart {
  const column = columnsOf(OwnBudget)
  return list(visit, {
    title: "Budgets of this key",
    label: "Budgets",
    columns: [
      column("name"),
      column("selector", (budget) => printSelected({ ...budget, each: false })),
      column("limit", (budget) => el("span", amountOf(budget, budget.limit), ` per ${budget.per}`)),
      column("spent", (budget) => amountOf(budget, budget.spent)),
      column("left", (budget) => amountOf(budget, budget.left)),
      column("resets_at", ({ resets_at }) => ago(resets_at)),
    ],
    empty: "No budgets. Only the balance limits the calls of this key.",
    load: async () => ({ data: (await account).budgets }),
  })
}

function calls(visit: Visit): ViewPart {
  const column = columnsOf(Receipt)
  let after = ""
  const turn = (to: string) => {
    after = to
    void made.load()
  }
  const made = list(visit, {
    title: "Calls",
    columns: [
      column("id", ({ id }) => callLink(id)),
      ...column.each("held_at", "model", "operation"),
      column("state", stateOf),
      column("charge", chargeOf),
      ["Tokens", tokensOf, "right"],
      column("duration_ms", tookOf),
    ],
    empty: "No calls yet.",
    load: (signal) => askOwn<ListBody<Receipt>>(withQuery("/calls", { limit: PAGE, after }), signal),
    below: ({ next }) =>
      el(
        "div.pages",
        after === "" ? null : button("Newest", () => turn("")),
        next === null ? null : button("Older", () => turn(next)),
      ),
  })
  return made
}

const DAY_MS = 86_400_000
const groupings = ["model", "day", "key", "end_user", "tag"] as const
const spans = ["7", "30", "90"] as const

type OwnUsageRow = UsageReport["data"][number]

/** The usage of the account: a plot of its days, and its sums by model, day, key, end user or a tag. */
function ownUsage(visit: Visit): ViewPart {
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
