import { lineLabel, priceUnit } from "../kinds.ts"
import { CallBody } from "../wire/admin.ts"
import { failures, operationNames, states } from "../wire/call.ts"
import { accountId } from "./accounts.ts"
import type { Query } from "./admin-client.ts"
import { type AdminContext, adminCommand, listCommand } from "./admin-command.ts"
import type { Given } from "./command.ts"
import { tagsText } from "./keys.ts"
import { span } from "./moment.ts"
import {
  type CardLine,
  type Column,
  card,
  columnsOf,
  count,
  linesOf,
  type Screen,
  table,
  usd,
} from "./screen.ts"
import { idOf, timeOf } from "./typed-words.ts"

/** The filter flags: account, key, model and time range. */
export const CALL_WORDS = {
  "--account <ACCOUNT>": "only calls of this account (id or name)",
  "--key <ID>": "only calls with this key",
  "--model <NAME>": "only calls to this model",
  "--from <TIME>": "start of the range: 2026-11-21, an RFC 3339 time, or 24h (ago)",
  "--to <TIME>": "end of the range, exclusive",
} as const

/** The query of the filter flags; `others` are passed on unchanged. */
export async function callQuery(
  context: AdminContext,
  { account, from, to, ...others }: Partial<Given<typeof CALL_WORDS>>,
): Promise<Query> {
  return {
    account: account && (await accountId(context, account)),
    from: from && timeOf("--from", from),
    to: to && timeOf("--to", to),
    ...others,
  }
}

const column = columnsOf(CallBody)

export const calls = listCommand({
  summary: "List calls that held money, newest first",
  words: {
    ...CALL_WORDS,
    "--operation <NAME>": ["only calls of this operation", operationNames],
    "--session <ID>": "only calls of this agent session",
    "--tag <A=B,C=D>": "only calls with all of these tags",
    "--end-user <NAME>": "only calls of this end user (name or id)",
    "--state <STATE>": ["only calls in this state", states],
    "--failure <NAME>": ["only calls with this failure", failures],
  },
  examples: {
    "tollgate calls": "the latest 20",
    "tollgate calls --account Acme --failure client_left --from 24h":
      "calls whose client disconnected in the last day",
    "tollgate calls --model demo-small --from 2026-11-01 --all --json": "one model since a day, as JSON",
  },
  entry: CallBody,
  columns: [
    column("started_at", { as: "brief" }),
    column("id"),
    column("account_id", { spare: 5 }),
    column("model", { least: 8 }),
    { title: "OUTCOME", of: outcomeOf, least: 8 },
    column("basis", { spare: 2 }),
    column("usage.prompt_tokens", { spare: 3 }),
    column("usage.completion_tokens", { spare: 3 }),
    column("held", { spare: 4 }),
    column("charge"),
    column("duration_ms", { spare: 1 }),
  ],
  empty: "No calls found. Refused calls: tollgate refusals. Token counts are in the metrics only.",
  path: async ({ "end-user": end_user, ...given }, context) => [
    "/calls",
    { ...(await callQuery(context, given)), end_user },
  ],
})

/** The most specific word for the outcome of a call. */
export function outcomeOf({ failure, ending, state }: CallBody): string {
  return failure ?? ending ?? state
}

export const receipt = adminCommand({
  summary: "Show the receipt of a call: what it held, used and cost",
  words: { "<id>": "the id of the call: the x-request-id of its response" },
  examples: { "tollgate receipt 019f8b1c-3333-7000-8b7a-5d1f3c9e2a40": "tokens, prices, charge and outcome" },
  async run({ id: word }, context) {
    const id = idOf(word, "a call", "use the x-request-id of the response")
    const call = await context.client.get(`/calls/${id}`, CallBody)
    context.show(call, () => receiptText(call, context.screen))
  },
})

function receiptText(call: CallBody, { paint }: Pick<Screen, "paint">): string {
  return `${card(callLines(call), { paint })}\n\n${table(COLUMNS, moneyRows(call), { paint, width: null })}`
}

function callLines(call: CallBody): CardLine[] {
  const { estimate, unread, unexplained_tokens, ttft_ms, duration_ms, session_id, agent_id } = call
  const line = linesOf(CallBody, call)
  const notes = call.notes.length === 0 ? "" : ` (${call.notes.join(", ")})`
  const agent = agent_id === null ? "" : `, agent ${agent_id}`
  const optional = <Shown>(shown: Shown | null) => shown ?? undefined
  return [
    ["call", call.id],
    ...line.each("account_id", "key_id"),
    line("model", `${call.model} by ${call.upstream}, ${call.operation}${call.stream ? ", streamed" : ""}`),
    line("session_id", session_id === null ? undefined : `${session_id}${agent}`),
    line("tags", Object.keys(call.tags).length === 0 ? undefined : tagsText(call.tags)),
    line("end_user", optional(call.end_user ?? call.end_user_id)),
    line("agent_id", session_id === null ? optional(agent_id) : undefined),
    [
      "outcome",
      call.state === "open"
        ? "open"
        : `${outcomeOf(call)}, ${call.state}, ${BASES[call.basis] ?? call.basis}${notes}`,
    ],
    ...call.attempts.map((attempt) => line("attempts", attemptLine(attempt))),
    line("upstream_key", optional(call.upstream_key)),
    line("provider_request_id", optional(call.provider_request_id)),
    line(
      "estimate",
      optional(estimate && `${count(estimate.output_bytes)} bytes, ${estimate.bytes_per_token} per token`),
    ),
    line("unread", unread.length > 0 ? unread.join(", ") : undefined),
    line("unexplained_tokens", unexplained_tokens === 0 ? undefined : `${unexplained_tokens} tokens`),
    ...(call.provider_cost === null ? [] : [line("provider_cost")]),
    line("started_at"),
    line("ttft_ms", ttft_ms === null ? undefined : `after ${span(ttft_ms)}`),
    ...(duration_ms === null ? [] : [line("duration_ms")]),
  ]
}

function attemptLine(attempt: CallBody["attempts"][number]): string {
  const { upstream, upstream_key, status, failure, ms, provider_request_id } = attempt
  const by = upstream_key === null ? upstream : `${upstream}, key ${upstream_key}`
  const id = provider_request_id === null ? "" : `, ${provider_request_id}`
  return `${by}: ${status ?? failure} after ${span(ms)}${id}`
}

const BASES: Readonly<Record<string, string>> = {
  usage: "charged by the usage that the provider reported",
  partial: "charged by the last reported usage, plus an estimate of the output after it",
  estimate: "charged by an estimate of its tokens",
  none: "not charged",
}

type MoneyRow = readonly [label: string, tokens: string, price: string, cost: string]

const COLUMNS: readonly Column<MoneyRow>[] = [
  { title: "", of: ([label]) => label },
  { title: "TOKENS", of: ([, tokens]) => tokens, as: "number" },
  { title: "USD PER 1M", of: ([, , price]) => price, as: "point" },
  { title: "USD", of: ([, , , cost]) => cost, as: "point" },
]

/** The exact cost of each kind, and sums. The charge is the sum of the kinds, times the price multiplier, rounded up once. */
function moneyRows(call: CallBody): MoneyRow[] {
  const { cost, charge, overage, refunded, price_multiplier, list_prices } = call
  const sum = (label: string, amount: string): MoneyRow => [label, "", "", usd(amount)]
  return [
    ...call.lines.map((line): MoneyRow => {
      const unit = priceUnit(line.kind)
      const is_call = line.kind === "per_call"
      const label = `${lineLabel(line)}${unit === "1M" || is_call ? "" : ", each"}`
      return [label, is_call ? "" : count(line.count), usd(line.price), usd(line.cost)]
    }),
    sum("held", call.held),
    ...(cost !== null && price_multiplier !== "1" ? [sum(`cost, times ${price_multiplier}`, cost)] : []),
    ...(cost !== null && list_prices !== null ? [sum("cost at the configured prices", cost)] : []),
    ...(charge === null ? [] : [sum("charged", charge)]),
    ...(overage === null || overage === "0" ? [] : [sum("above what was held", overage)]),
    ...(refunded == null || refunded === "0" ? [] : [sum("refunded", refunded)]),
  ]
}
