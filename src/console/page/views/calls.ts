import { CallBody } from "../../../wire/admin.ts"
import { failures, operationNames, states } from "../../../wire/call.ts"
import { showCount } from "../../amount.ts"
import { addressOf, type PageQuery, withQuery } from "../../fragment.ts"
import { showDuration } from "../../times.ts"
import { failureWords } from "../../words.ts"
import { ask, type ListBody } from "../admin-api.ts"
import { type Child, el } from "../element.ts"
import { type FormField, filterForm, filterIn } from "../form.ts"
import { accountLink, callLink, chip, count, duration, failureChip, names, none, usd } from "../formats.ts"
import { type Visit, view } from "../part.ts"
import { columnsOf, list, type PageColumn, pages } from "../table.ts"

const PAGE = "50"

const column = columnsOf(CallBody)

export function callColumns(has_account: boolean): readonly PageColumn<CallBody>[] {
  return [
    column("id", ({ id }) => callLink(id)),
    column("started_at"),
    ...(has_account ? [column("account_id", ({ account_id }) => accountLink(account_id))] : []),
    ...column.each("model", "operation"),
    column("state", stateOf),
    column("charge", chargeOf),
    ["Tokens", tokensOf, "right"],
    column("duration_ms", tookOf),
  ]
}

export function stateOf({ state, failure }: Pick<CallBody, "state" | "failure">): Child {
  return names([chip(state), failure === null ? null : failureChip(failure)])
}

/** Of an open call what it holds. */
export function chargeOf({ charge, held }: Pick<CallBody, "charge" | "held">): Child {
  return charge === null ? el("span.quiet", usd(held), " held") : usd(charge)
}

export function tokensOf({ usage }: Pick<CallBody, "usage">): Child {
  if (usage === null) return none()
  const { prompt_tokens, completion_tokens } = usage
  const title = `${showCount(prompt_tokens)} prompt, ${showCount(completion_tokens)} completion`
  return count(prompt_tokens + completion_tokens, title)
}

export function tookOf({ ttft_ms, duration_ms }: Pick<CallBody, "ttft_ms" | "duration_ms">): Child {
  return duration(duration_ms, ttft_ms === null ? "no output" : `first output after ${showDuration(ttft_ms)}`)
}

const choices = (label: string, values: readonly string[], show = (value: string) => value) =>
  [["", label], ...values.map((value) => [value, show(value)] as const)] as const

const FILTERS: readonly FormField[] = [
  { name: "account", label: "Account id" },
  { name: "key", label: "Key id" },
  { name: "model", label: "Model" },
  { name: "session", label: "Session id" },
  { name: "tag", label: "Tags, such as team=search" },
  { name: "end_user", label: "End user" },
  { name: "operation", label: "Operation", kind: choices("any", operationNames) },
  { name: "state", label: "State", kind: choices("any", states) },
  { name: "failure", label: "Failure", kind: choices("any or none", failures, failureWords) },
  { name: "from", label: "From (UTC)", kind: "time" },
  { name: "to", label: "Before (UTC)", kind: "time" },
]

/** All calls that held money, with the filters of the API. */
export function calls(visit: Visit): HTMLElement {
  const { query } = visit.address
  const { after = "" } = query
  const filter = filterIn(FILTERS, query)
  const found = list(visit, {
    label: "Calls",
    columns: callColumns(true),
    empty: "No calls match these filters.",
    load: (signal) => ask<ListBody<CallBody>>(withQuery("/calls", { ...filter, after, limit: PAGE }), signal),
    below: (page) => pages("calls", filter, after, page),
  })
  return view("Calls", null, filters(filter), found.element)
}

function filters(filter: PageQuery): HTMLElement {
  const is_narrowed = Object.values(filter).some((value) => value !== "")
  const is_wide = matchMedia("(min-width: 48rem)").matches
  const clear = is_narrowed && el("a", { href: addressOf("calls") }, "Clear")
  return el(
    "details.card",
    { open: is_wide || is_narrowed },
    el("summary", "Filters"),
    filterForm("calls", FILTERS, filter, clear),
  )
}
