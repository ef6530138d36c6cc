import { CallBody } from "../wire/admin.ts"
import { failures, operationNames, states } from "../wire/call.ts"
import { accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, extentOf, LIST_ARGS, listAll, remarkNext } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Arguments } from "./command.ts"
import { briefMoment, parseMoment, span } from "./moment.ts"
import { count, table, usd } from "./screen.ts"

/** The filter flags: account, key, model and time range. */
export const CALL_ARGS = {
  account: { type: "string", valueHint: "ACCOUNT", description: "only calls of this account (id or name)" },
  key: { type: "string", valueHint: "ID", description: "only calls with this key" },
  model: { type: "string", valueHint: "NAME", description: "only calls to this model" },
  from: {
    type: "string",
    valueHint: "TIME",
    description: "start of the range: 2026-11-21, an RFC 3339 time, or 24h (ago)",
  },
  to: { type: "string", valueHint: "TIME", description: "end of the range, exclusive" },
} as const satisfies Arguments

/** `tollgate calls`: the calls that held money, and their outcomes. */
export const calls = adminCommand({
  summary: "List calls that held money, newest first",
  args: {
    ...CALL_ARGS,
    operation: { type: "enum", options: [...operationNames], description: "only calls of this operation" },
    state: { type: "enum", options: [...states], description: "only calls in this state" },
    failure: { type: "enum", options: [...failures], description: "only calls with this failure" },
    ...LIST_ARGS,
  },
  examples: [
    ["tollgate calls", "the latest 20"],
    [
      "tollgate calls --account Acme --failure client_left --from 24h",
      "calls whose client disconnected in the last day",
    ],
    ["tollgate calls --model demo-small --from 2026-11-01 --all --json", "one model since a day, as JSON"],
  ],
  async run(given, context) {
    const query = await callQuery(context, given, ["operation", "state", "failure"])
    const list = await listAll(context, "/calls", query, CallBody, extentOf(given))
    context.show(list, () => callsTable(list.data, context, Date.now()))
    remarkNext(context, list)
  },
})

/** The query string of the filter flags; `others` are passed on unchanged. */
export async function callQuery<Name extends string>(
  context: AdminContext,
  given: { text(name: keyof typeof CALL_ARGS | Name): string | null },
  others: readonly Name[],
): Promise<Record<string, string>> {
  const query: Record<string, string> = {}
  const account = given.text("account")
  if (account !== null) query.account = await accountId(context, account)
  for (const name of ["key", "model", ...others] as const) {
    const text = given.text(name)
    if (text !== null) query[name] = text
  }
  for (const name of ["from", "to"] as const) {
    const text = given.text(name)
    if (text === null) continue
    const time = parseMoment(text, Date.now())
    if (time === null) throw new UsageError(`--${name}: expected 2026-11-21, an RFC 3339 time, or 24h`)
    query[name] = time
  }
  return query
}

function callsTable(data: readonly CallBody[], { screen }: AdminContext, now_ms: number): string {
  if (data.length === 0)
    return "No calls found. Rejected requests and token counts appear in the metrics only."
  return table(
    [
      { title: "STARTED" },
      { title: "ID" },
      { title: "MODEL", least: 8 },
      { title: "OUTCOME", least: 8 },
      { title: "BASIS", spare: 2 },
      { title: "PROMPT", align: "right", spare: 3 },
      { title: "OUTPUT", align: "right", spare: 3 },
      { title: "HELD", align: "point", spare: 4 },
      { title: "CHARGE", align: "point" },
      { title: "TOOK", align: "right", spare: 1 },
    ],
    data.map((call) => [
      briefMoment(call.started_at, now_ms),
      call.id,
      call.model,
      outcomeOf(call),
      call.basis,
      call.usage === null ? "-" : count(call.usage.prompt_tokens),
      call.usage === null ? "-" : count(call.usage.completion_tokens),
      usd(call.reserved),
      call.charge === null ? "-" : usd(call.charge),
      call.duration_ms === null ? "-" : span(call.duration_ms),
    ]),
    screen.width,
    screen.paint,
  )
}

/** The most specific word for the outcome of a call. */
export function outcomeOf({ failure, ending, state }: CallBody): string {
  return failure ?? ending ?? state
}
