import { countedKinds, titleOf } from "../kinds.ts"
import { AttemptBody, AttemptsBody } from "../wire/attempts.ts"
import { DEFAULT_DAYS, ENOUGH_CALLS, EstimateBody, EstimatesBody, MAX_DAYS } from "../wire/estimates.ts"
import { RefusalBody, RefusalsBody, refusalCodes } from "../wire/refusals.ts"
import { OperatorUsageReport, operatorGroupings } from "../wire/usage-report.ts"
import { type AdminContext, adminCommand, type ShownTable } from "./admin-command.ts"
import { CALL_WORDS, callQuery } from "./calls.ts"
import { moment } from "./moment.ts"
import { type Column, columnsOf, count, table, visible } from "./screen.ts"

const { "--model <NAME>": _model, ...REFUSAL_WORDS } = CALL_WORDS

const refusalColumn = columnsOf(RefusalBody)

/** `tollgate refusals`: which calls were refused, and why (D80). */
export const refusals = adminCommand({
  is_list: true,
  summary: "Show refused calls by account, key and error code",
  details:
    "Default: the last 7 days. Whole hours are counted. LAST is the time when the last refusal was counted, up to a minute after it. Calls with an unknown key, or without one, have no account. Token counts, model lists, quotes and lookups are not counted.",
  words: { ...REFUSAL_WORDS, "--code <CODE>": ["only calls refused with this code", refusalCodes] },
  examples: {
    "tollgate refusals --from 24h": "all refused calls of the last day",
    "tollgate refusals --account Acme --code insufficient_balance": "one account and one code",
  },
  async run(given, context) {
    const query = await callQuery(context, given)
    showSpan(context, await context.client.get("/refusals", RefusalsBody, query), {
      columns: [
        refusalColumn("account_name", {
          of: ({ account_name, account }) => account_name ?? account,
          least: 8,
        }),
        refusalColumn("key_name", { of: ({ key_name, key }) => key_name ?? key, least: 8 }),
        ...refusalColumn.each("code", "requests"),
        refusalColumn("last_at", { spare: 1 }),
      ],
      empty: "No refused calls in this time.",
    })
  },
})

const { "--key <ID>": _key, ...ATTEMPT_WORDS } = CALL_WORDS
const attemptColumn = columnsOf(AttemptBody)

/** `tollgate attempts`: which attempts at providers failed or gave no answer, and can cost money (D93). */
export const attempts = adminCommand({
  is_list: true,
  summary: "Count attempts at providers that failed or gave no answer",
  details:
    "Counts the attempts that may have reached a provider but did not become the answer of their call. The provider may bill them. Default: the last 7 days. tollgate receipt shows the attempts of a call.",
  words: { ...ATTEMPT_WORDS, "--upstream <NAME>": "only attempts at this upstream" },
  examples: {
    "tollgate attempts --from 24h": "all attempts of the last day",
    "tollgate attempts --upstream first --from 2026-11-25 --to 2026-11-26": "one upstream and one day",
  },
  async run(given, context) {
    const query = await callQuery(context, given)
    showSpan(context, await context.client.get("/attempts", AttemptsBody, query), {
      columns: [
        attemptColumn("upstream", { least: 8 }),
        attemptColumn("upstream_key", { spare: 2 }),
        attemptColumn("model", { least: 8 }),
        attemptColumn("failure", { of: ({ status, failure }) => failure ?? status }),
        attemptColumn("attempts"),
        attemptColumn("last_at", { spare: 1 }),
      ],
      empty: "No such attempts in this time.",
    })
  },
})

interface Report<Row> {
  readonly from: string
  readonly to: string
  readonly data: readonly Row[]
}

/** Shows the rows of a time range, and the range. */
function showSpan<Row>(
  context: AdminContext,
  report: Report<Row>,
  shown: Omit<ShownTable<Row>, "rows">,
): void {
  context.showTable(report, { rows: report.data, ...shown })
  context.remark(`From ${moment(report.from)} to ${moment(report.to)}.`)
}

/** `tollgate usage`: what the calls of a time range used and cost (D48). */
export const usage = adminCommand({
  is_list: true,
  summary: "Show token usage and charges of a time range",
  details:
    "Default: the last 30 days, by day. A call counts at the time it ended. ABANDONED counts calls whose client left before output; they are not charged.",
  words: {
    "--by <GROUPING>": `what to group by: ${operatorGroupings.join(", ")} or tag:NAME; several are separated by commas`,
    ...CALL_WORDS,
  },
  examples: {
    "tollgate usage": "the last 30 days, by day",
    "tollgate usage --by model --from 2026-11-01 --to 2026-12-01": "one month, by model",
    "tollgate usage --by model,day,key --from 7d": "a line for each model of each day and key",
    "tollgate usage --by upstream,upstream_key": "by provider and its key",
    "tollgate usage --account Acme --by tag:team": "one account by the values of a tag",
    "tollgate usage --account Acme --by key --from 7d --json":
      "the last 7 days of one account by key, as JSON",
  },
  async run(given, context) {
    const query = await callQuery(context, given)
    if (context.shows_rows) {
      const lines = context.client.lines("/usage", usageRow, { ...query, format: "ndjson" })
      return context.show({ data: await Array.fromAsync(lines) }, () => "")
    }
    const report = await context.client.get("/usage", OperatorUsageReport, query)
    context.showTable(report, {
      rows: [...report.data, { group: "total", name: "", ...report.total }],
      columns: usageColumns(report),
      empty: "",
    })
    const is_open = given.to !== undefined && Date.parse(report.to) > Date.now()
    context.remark(`From ${moment(report.from)} to ${moment(report.to)}${is_open ? " (not over yet)" : ""}.`)
    if (report.left_out > 0)
      context.remark(`${count(report.left_out)} more groups are not shown; the total includes them.`)
  },
})

type UsageRow = OperatorUsageReport["data"][number]
type UsageColumn = Column<UsageRow>
const usageRow = OperatorUsageReport.properties.data.items
const usageColumn = columnsOf(usageRow)

/** The value of a dimension, and its name if it has one. Only the first dimension has the line of the total. */
function dimensionColumns(dimension: string, is_first: boolean): UsageColumn[] {
  const groupIn = ({ group, groups = {} }: UsageRow) => (is_first ? group : (groups[dimension] ?? ""))
  const nameOf = ({ name, names = {} }: UsageRow) => (is_first ? name : (names[dimension] ?? ""))
  const is_named = dimension === "key" || dimension === "account" || dimension === "end_user"
  return [
    {
      title: dimension.replaceAll("_", " ").toUpperCase(),
      of: (row) => {
        const value = groupIn(row)
        return dimension === "hour" && value !== "total" && value !== "" ? moment(value) : value
      },
      ...(dimension === "model" && { least: 8 }),
    },
    ...(is_named ? [{ title: "NAME", of: nameOf, least: 8 }] : []),
  ]
}

/** Columns of what no group has are left out. */
function usageColumns({ by, data, total }: OperatorUsageReport): UsageColumn[] {
  const used = countedKinds.filter((kind) => [total, ...data].some(({ buckets }) => buckets[kind] !== 0))
  const columns: readonly (UsageColumn | false)[] = [
    ...by.split(",").flatMap((dimension, at) => dimensionColumns(dimension, at === 0)),
    usageColumn("calls"),
    total.abandoned > 0 && usageColumn("abandoned", { spare: 5 }),
    usageColumn("prompt_tokens"),
    usageColumn("cached_tokens", { spare: 2 }),
    usageColumn("completion_tokens"),
    ...used.map(
      (kind): UsageColumn => ({
        title: titleOf(kind),
        of: ({ buckets }) => buckets[kind],
        as: "count",
        spare: 4,
      }),
    ),
    usageColumn("overage", { spare: 1 }),
    total.provider_cost !== "0" && usageColumn("provider_cost", { spare: 2 }),
    usageColumn("cost", { spare: 3 }),
    total.profit !== "0" && usageColumn("profit", { spare: 3 }),
    usageColumn("charge"),
  ]
  return columns.filter((column) => column !== false)
}

/** `tollgate estimates`: what the estimates of each model should be (D92). */
export const estimates = adminCommand({
  is_list: true,
  summary: "Compare estimates with the usage that providers report",
  details:
    "Compares the settings for estimates with the usage that providers reported for each model. BYTES/TOKEN is the reported value for the output, IN PROMPTS for the prompts, and BYTES SET is the configured bytes_per_token. HIDDEN/CALL is the reported number of reasoning tokens of a call that clients do not see, and HIDDEN SET the configured estimate.hidden_output. OUTPUT OFF and PROMPT OFF show by how many percent estimates with the configured settings are too high, or too low if negative.",
  words: {
    "--days <N>": `how many UTC days to include, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS})`,
    "--model <NAME>": "only this model, by the name that clients use",
  },
  examples: {
    "tollgate estimates": `the last ${DEFAULT_DAYS} days, every model`,
    "tollgate estimates --days 30 --model gpt-5-mini": "the last 30 days of one model",
    "tollgate estimates --json": "as JSON, for scripts",
  },
  async run(given, context) {
    const report = await context.client.get("/estimates", EstimatesBody, given)
    const suggestions = report.data.flatMap(({ model, operation, suggestion }) =>
      suggestion === null ? [] : [visible(`${model}, ${operation}: ${suggestion}`)],
    )
    context.show(report, () =>
      report.data.length === 0
        ? "No calls with usage in this time."
        : [
            table(estimateColumns, report.data, context.screen),
            ...(suggestions.length > 0 ? ["", ...suggestions] : []),
          ].join("\n"),
    )
    if (report.data.some(({ calls }) => calls < ENOUGH_CALLS))
      context.remark(`Models with fewer than ${ENOUGH_CALLS} calls get no suggestion.`)
  },
})

const estimateColumn = columnsOf(EstimateBody)
const estimateColumns = [
  estimateColumn("model", { least: 8 }),
  estimateColumn("operation", { spare: 1 }),
  ...estimateColumn.each("calls", "seen.bytes_per_token"),
  estimateColumn("configured.bytes_per_token", { spare: 5 }),
  estimateColumn("seen.prompt_bytes_per_token", { spare: 3 }),
  estimateColumn("seen.hidden_output"),
  estimateColumn("configured.hidden_output", { spare: 4 }),
  estimateColumn("error_percent.output"),
  estimateColumn("error_percent.prompt", { spare: 2 }),
]
