import { parseId } from "../id.ts"
import { parsePrice } from "../money.ts"
import type { Paint } from "../paint.ts"
import { CallBody } from "../wire/admin.ts"
import { costOf, count, usd } from "./amount.ts"
import { outcomeOf } from "./calls.ts"
import { UsageComplaint } from "./complaint.ts"
import { deskLeaf } from "./desk.ts"
import { moment, span } from "./moment.ts"
import type { Screen } from "./screen.ts"
import { card, table } from "./table.ts"

/** `tollgate receipt`: what one call held, used and cost, and at which prices. */
export const receipt = deskLeaf({
  tells: "Show what a call held, used and cost",
  args: {
    id: {
      type: "positional",
      required: true,
      description: "the call's id: the x-request-id that the client saw",
    },
  },
  examples: [
    ["tollgate receipt 019f8b1c-3333-7000-8b7a-5d1f3c9e2a40", "tokens, prices, charge, and how it went"],
  ],
  async run(given, desk) {
    const word = given.word("id")
    const id = parseId(word)
    if (id === null)
      throw new UsageComplaint(`"${word}" is no call's id: the x-request-id of an answer is one`)
    const call = await desk.office.get(`/calls/${id}`, CallBody)
    desk.show(call, () => receiptText(call, desk.screen))
  },
})

/** The call, its money line by line, and its time. */
export function receiptText(call: CallBody, { paint }: Screen): string {
  const head = card(
    [
      ["call", call.id],
      ["account", call.account_id],
      ["key", call.key_id],
      ["model", `${call.model} by ${call.upstream}${call.stream ? ", streamed" : ""}`],
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

/** On what a charge rests, in words. */
const BASES: Readonly<Record<string, string>> = {
  usage: "charged by the provider's usage",
  partial: "charged by the last usage and what came after it",
  estimate: "charged by an estimate of its output",
  none: "nothing charged",
}

function timeLines({ ttft_ms, duration_ms }: CallBody): [string, string][] {
  const first: [string, string][] = ttft_ms === null ? [] : [["first byte", `after ${span(ttft_ms)}`]]
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
  if (call.charge !== null) rows.push(["charged", "", "", usd(call.charge)])
  if (call.overage !== null && call.overage !== "0")
    rows.push(["above what was held", "", "", usd(call.overage)])
  return table(COLUMNS, rows, null, paint)
}

/** What the tokens cost to the last pico-USD; the charge is their sum, rounded up once. */
function usageRows({ usage, prices }: CallBody): string[][] {
  if (usage === null) return []
  const line = (what: string, tokens: number, price: string) => {
    const price_pico = parsePrice(price)
    return price_pico === null ? [] : [[what, count(tokens), usd(price), costOf(tokens, price_pico)]]
  }
  return [
    ...line("prompt", usage.prompt_tokens - usage.cached_tokens, prices.input),
    ...(usage.cached_tokens > 0 ? line("cached prompt", usage.cached_tokens, prices.cached_input) : []),
    ...line("output", usage.completion_tokens, prices.output),
    ...(prices.per_call === "0" ? [] : [["call", "", "", usd(prices.per_call)]]),
  ]
}
