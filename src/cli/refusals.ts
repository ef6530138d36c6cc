import { RefusalsBody, refusalCodes } from "../wire/refusals.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CALL_ARGS, callQuery } from "./calls.ts"
import { moment } from "./moment.ts"
import { count, table } from "./screen.ts"

const { account, key, from, to } = CALL_ARGS

/** `tollgate refusals`: which calls were refused, and why (D80). */
export const refusals = adminCommand({
  summary: "Show refused calls by account, key and error code",
  details:
    "Default: the last 7 days. Whole hours are counted. LAST is the time when the last refusal was counted, up to a minute after it. Calls with an unknown key, or without one, have no account. Token counts, model lists, quotes and lookups are not counted.",
  args: {
    account,
    key,
    code: { type: "enum", options: refusalCodes, description: "only calls refused with this code" },
    from,
    to,
  },
  examples: [
    ["tollgate refusals --from 24h", "all refused calls of the last day"],
    ["tollgate refusals --account Acme --code insufficient_balance", "one account and one code"],
  ],
  async run(given, context) {
    const query = await callQuery(context, given, ["code"])
    const report = await context.client.get(`/refusals?${new URLSearchParams(query)}`, RefusalsBody)
    context.show(report, () => refusalsTable(report, context))
    context.remark(`From ${moment(report.from)} to ${moment(report.to)}.`)
  },
})

function refusalsTable({ data }: RefusalsBody, { screen }: AdminContext): string {
  if (data.length === 0) return "No refused calls in this time."
  return table(
    [
      { title: "ACCOUNT", least: 8 },
      { title: "KEY", least: 8 },
      { title: "CODE" },
      { title: "REQUESTS", align: "right" },
      { title: "LAST", spare: 1 },
    ],
    data.map(({ account_name, account, key_name, key, code, requests, last_at }) => [
      account_name ?? account ?? "-",
      key_name ?? key ?? "-",
      code,
      count(requests),
      moment(last_at),
    ]),
    screen.width,
    screen.paint,
  )
}
