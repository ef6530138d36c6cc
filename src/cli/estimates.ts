import { DEFAULT_DAYS, ENOUGH_CALLS, EstimatesBody, MAX_DAYS } from "../wire/estimates.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { count, table, visible } from "./screen.ts"

/** `tollgate estimates`: what the estimates of each model should be (D92). */
export const estimates = adminCommand({
  summary: "Compare estimates with the usage that providers report",
  details:
    "Compares the settings for estimates with the usage that providers reported for each model. BYTES/TOKEN is the reported value for the output, IN PROMPTS for the prompts, and BYTES SET is the configured bytes_per_token. HIDDEN/CALL is the reported number of reasoning tokens of a call that clients do not see, and HIDDEN SET the configured estimate.hidden_output. OUTPUT OFF and PROMPT OFF show by how many percent estimates with the configured settings are too high, or too low if negative.",
  args: {
    days: {
      type: "string",
      valueHint: "N",
      description: `how many UTC days to include, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS})`,
    },
    model: {
      type: "string",
      valueHint: "NAME",
      description: "only this model, by the name that clients use",
    },
  },
  examples: [
    ["tollgate estimates", `the last ${DEFAULT_DAYS} days, every model`],
    ["tollgate estimates --days 30 --model gpt-5-mini", "the last 30 days of one model"],
    ["tollgate estimates --json", "as JSON, for scripts"],
  ],
  async run(given, context) {
    const query = new URLSearchParams()
    for (const name of ["days", "model"] as const) {
      const text = given.text(name)
      if (text !== null) query.set(name, text)
    }
    const report = await context.client.get(`/estimates?${query}`, EstimatesBody)
    context.show(report, () => [estimatesTable(report, context), ...suggestions(report)].join("\n"))
    if (report.data.some(({ calls }) => calls < ENOUGH_CALLS))
      context.remark(`Models with fewer than ${ENOUGH_CALLS} calls get no suggestion.`)
  },
})

function estimatesTable({ data }: EstimatesBody, { screen }: AdminContext): string {
  if (data.length === 0) return "No calls with usage in this time."
  return table(
    [
      { title: "MODEL", least: 8 },
      { title: "OPERATION", spare: 1 },
      { title: "CALLS", align: "right" },
      { title: "BYTES/TOKEN", align: "right" },
      { title: "BYTES SET", align: "right", spare: 5 },
      { title: "IN PROMPTS", align: "right", spare: 3 },
      { title: "HIDDEN/CALL", align: "right" },
      { title: "HIDDEN SET", align: "right", spare: 4 },
      { title: "OUTPUT OFF", align: "right" },
      { title: "PROMPT OFF", align: "right", spare: 2 },
    ],
    data.map(({ model, operation, calls, seen, configured, error_percent }) => [
      model,
      operation,
      count(calls),
      orDash(seen.bytes_per_token),
      String(configured.bytes_per_token),
      orDash(seen.prompt_bytes_per_token),
      count(seen.hidden_output),
      count(configured.hidden_output),
      percent(error_percent.output),
      percent(error_percent.prompt),
    ]),
    screen.width,
    screen.paint,
  )
}

function suggestions({ data }: EstimatesBody): string[] {
  const lines = data.flatMap(({ model, operation, suggestion }) =>
    suggestion === null ? [] : [visible(`${model}, ${operation}: ${suggestion}`)],
  )
  return lines.length === 0 ? [] : ["", ...lines]
}

function orDash(value: number | null): string {
  return value === null ? "-" : String(value)
}

function percent(value: number | null): string {
  return value === null ? "-" : `${value > 0 ? "+" : ""}${value} %`
}
