import { parseId } from "../id.ts"
import type { Paint } from "../paint.ts"
import { CallBody } from "../wire/admin.ts"
import { adminCommand } from "./admin-command.ts"
import { outcomeOf } from "./calls.ts"
import { UsageError } from "./cli-error.ts"
import { moment, span } from "./moment.ts"
import { card, count, type Screen, table, usd } from "./screen.ts"

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
      ["outcome", outcomeLine(call)],
      ["started", moment(call.started_at)],
      ...timeLines(call),
    ],
    paint,
  )
  return `${head}\n\n${moneyTable(call, paint)}`
}

function outcomeLine(call: CallBody): string {
  const notes = call.notes.length === 0 ? "" : ` (${call.notes.join(", ")})`
  return `${outcomeOf(call)}, ${call.state}, ${BASES[call.basis] ?? call.basis}${notes}`
}

/** The basis of a charge, in words. */
const BASES: Readonly<Record<string, string>> = {
  usage: "charged by the usage that the provider reported",
  partial: "charged by the last reported usage, plus an estimate of the output after it",
  estimate: "charged by an estimate of the output, or of the input of embeddings",
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
  const rows = [...usageRows(call), ["held", "", "", usd(call.reserved)]]
  if (call.cost !== null && call.margin !== "1")
    rows.push([`cost, times ${call.margin}`, "", "", usd(call.cost)])
  if (call.charge !== null) rows.push(["charged", "", "", usd(call.charge)])
  if (call.overage !== null && call.overage !== "0")
    rows.push(["above what was held", "", "", usd(call.overage)])
  return table(COLUMNS, rows, null, paint)
}

/** The exact cost of each kind. The charge is their sum, times the margin, rounded up once. */
function usageRows({ lines }: CallBody): string[][] {
  return lines.map(({ kind, count: of, price, cost }) => [
    KINDS[kind] ?? kind,
    kind === "per_call" ? "" : count(of),
    usd(price),
    usd(cost),
  ])
}

/** The kinds of what was charged, in words. A search and the call have a price each. */
const KINDS: Readonly<Record<string, string>> = {
  input: "prompt",
  cached_input: "cached prompt",
  output: "output",
  cache_write: "written to the cache",
  cache_write_1h: "written to the cache for 1 h",
  reasoning: "reasoning",
  audio_input: "audio of the prompt",
  audio_output: "audio of the output",
  image_input: "images of the prompt",
  web_search: "web searches, each",
  per_call: "call",
}
