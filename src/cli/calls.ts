import { parseId } from "../id.ts"
import { lineLabel, priceUnit } from "../kinds.ts"
import type { Paint } from "../paint.ts"
import { CallBody } from "../wire/admin.ts"
import { failures, operationNames, states } from "../wire/call.ts"
import { accountId } from "./accounts.ts"
import { type AdminContext, adminCommand, extentOf, LIST_ARGS, listAll, remarkNext } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Arguments } from "./command.ts"
import { briefMoment, moment, parseMoment, span } from "./moment.ts"
import { card, count, type Screen, table, usd } from "./screen.ts"

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
    session: { type: "string", valueHint: "ID", description: "only calls of this agent session" },
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
    const query = await callQuery(context, given, ["operation", "session", "state", "failure"])
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
    return "No calls found. Refused calls: tollgate refusals. Token counts are in the metrics only."
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
      usd(call.held),
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

/** `tollgate receipt`: what one call held, used and cost, and at which prices. */
export const receipt = adminCommand({
  summary: "Show the receipt of a call: what it held, used and cost",
  args: {
    id: {
      type: "positional",
      description: "the id of the call: the x-request-id of its response",
    },
  },
  examples: [["tollgate receipt 019f8b1c-3333-7000-8b7a-5d1f3c9e2a40", "tokens, prices, charge and outcome"]],
  async run(given, context) {
    const word = given.word("id")
    const id = parseId(word)
    if (id === null) throw new UsageError(`"${word}" is not a call id: use the x-request-id of the response`)
    const call = await context.client.get(`/calls/${id}`, CallBody)
    context.show(call, () => receiptText(call, context.screen))
  },
})

/** The call, its charge line by line, and its timing. */
export function receiptText(call: CallBody, { paint }: Screen): string {
  const head = card(
    [
      ["call", call.id],
      ["account", call.account_id],
      ["key", call.key_id],
      ["model", `${call.model} by ${call.upstream}, ${call.operation}${call.stream ? ", streamed" : ""}`],
      ...sessionLines(call),
      ["outcome", outcomeLine(call)],
      ...detailLines(call),
      ["started", moment(call.started_at)],
      ...timeLines(call),
    ],
    paint,
  )
  return `${head}\n\n${moneyTable(call, paint)}`
}

function sessionLines({ session_id, agent_id }: CallBody): [string, string][] {
  if (session_id === null) return agent_id === null ? [] : [["agent", agent_id]]
  return [["session", agent_id === null ? session_id : `${session_id}, agent ${agent_id}`]]
}

function outcomeLine(call: CallBody): string {
  const notes = call.notes.length === 0 ? "" : ` (${call.notes.join(", ")})`
  return `${outcomeOf(call)}, ${call.state}, ${BASES[call.basis] ?? call.basis}${notes}`
}

function detailLines(call: CallBody): [string, string][] {
  const { estimate, unread, unexplained_tokens, provider_cost, upstream_key, provider_request_id } = call
  const lines: [string, string][] = call.attempts.map((attempt) => ["other attempt", attemptLine(attempt)])
  if (upstream_key !== null) lines.push(["upstream key", upstream_key])
  if (provider_request_id !== null) lines.push(["provider request id", provider_request_id])
  if (estimate !== null)
    lines.push([
      "estimated",
      `from ${count(estimate.output_bytes)} bytes, ${estimate.bytes_per_token} per token`,
    ])
  if (unread.length > 0) lines.push(["not read", unread.join(", ")])
  if (unexplained_tokens !== 0) lines.push(["total", `${unexplained_tokens} tokens more than its parts`])
  if (provider_cost !== null) lines.push(["provider's cost", `${usd(provider_cost)} USD`])
  return lines
}

/** An attempt that did not become the answer of the call. */
function attemptLine(attempt: CallBody["attempts"][number]): string {
  const { upstream, upstream_key, status, failure, ms, provider_request_id } = attempt
  const by = upstream_key === null ? upstream : `${upstream}, key ${upstream_key}`
  const id = provider_request_id === null ? "" : `, ${provider_request_id}`
  return `${by}: ${status ?? failure} after ${span(ms)}${id}`
}

/** The basis of a charge, in words. */
const BASES: Readonly<Record<string, string>> = {
  usage: "charged by the usage that the provider reported",
  partial: "charged by the last reported usage, plus an estimate of the output after it",
  estimate: "charged by an estimate of its tokens",
  none: "not charged",
}

function timeLines({ ttft_ms, duration_ms }: CallBody): [string, string][] {
  const first: [string, string][] = ttft_ms === null ? [] : [["first output", `after ${span(ttft_ms)}`]]
  const last: [string, string][] = duration_ms === null ? [] : [["ended", `after ${span(duration_ms)}`]]
  return [...first, ...last]
}

const COLUMNS = [
  { title: "" },
  { title: "TOKENS", align: "right" },
  { title: "USD PER 1M", align: "point" },
  { title: "USD", align: "point" },
] as const

function moneyTable(call: CallBody, paint: Paint): string {
  const rows = [...usageRows(call), ["held", "", "", usd(call.held)]]
  if (call.cost !== null && call.margin !== "1")
    rows.push([`cost, times ${call.margin}`, "", "", usd(call.cost)])
  if (call.charge !== null) rows.push(["charged", "", "", usd(call.charge)])
  if (call.overage !== null && call.overage !== "0")
    rows.push(["above what was held", "", "", usd(call.overage)])
  return table(COLUMNS, rows, null, paint)
}

/** The exact cost of each kind. The charge is their sum, times the margin, rounded up once. */
function usageRows({ lines }: CallBody): string[][] {
  return lines.map((line) => [
    `${lineLabel(line)}${priceUnit(line.kind) === "1M" || line.kind === "per_call" ? "" : ", each"}`,
    line.kind === "per_call" ? "" : count(line.count),
    usd(line.price),
    usd(line.cost),
  ])
}
