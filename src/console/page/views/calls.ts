import type { CallBody } from "../../../wire/admin.ts"
import { failures, operationNames, states } from "../../../wire/call.ts"
import { showCount, sumUsd } from "../../amount.ts"
import { addressOf } from "../../fragment.ts"
import { showBrief, showClock, showDuration } from "../../times.ts"
import { counted, failureWords } from "../../words.ts"
import { ask, type Listed } from "../admin-api.ts"
import { type Field, fieldRow, select } from "../dialog.ts"
import { type Child, el, named, setText } from "../element.ts"
import { accountLink, callLink, chip, failureChip, moment, none, pages, usd } from "../figures.ts"
import { type Column, table } from "../table.ts"
import { part, poll, type Visit } from "../visit.ts"

const PAGE = 50
const FILTERS = ["account", "key", "model", "operation", "state", "failure", "from", "to"] as const

export const callColumns: readonly Column<CallBody>[] = [
  { title: "Call", cell: ({ id }) => callLink(id) },
  { title: "Started", cell: ({ started_at }) => moment(started_at, showBrief) },
  { title: "Account", cell: ({ account_id }) => accountLink(account_id) },
  { title: "Model", cell: ({ model }) => named(model) },
  { title: "Operation", minor: true, cell: ({ operation }) => operation },
  { title: "State", cell: stateOf },
  { title: "Held", right: true, minor: true, cell: ({ held }) => usd(held) },
  { title: "Charged", right: true, cell: ({ charge }) => usd(charge) },
  { title: "Tokens", right: true, minor: true, cell: tokensOf },
  { title: "Took", right: true, cell: tookOf },
]

function stateOf({ state, failure }: CallBody): Child {
  return el("span", { class: "names" }, chip(state), failure === null ? null : failureChip(failure))
}

function tokensOf({ usage }: CallBody): Child {
  if (usage === null) return none()
  const { prompt_tokens, completion_tokens } = usage
  const title = `${showCount(prompt_tokens)} prompt, ${showCount(completion_tokens)} completion`
  return el("span", { title }, showCount(prompt_tokens + completion_tokens))
}

function tookOf({ ttft_ms, duration_ms }: CallBody): Child {
  if (duration_ms === null) return none()
  const title = ttft_ms === null ? "no output" : `first output after ${showDuration(ttft_ms)}`
  return el("span", { title }, showDuration(duration_ms))
}

/** All calls that held money, with the filters of the API. */
export function calls(visit: Visit): HTMLElement {
  const { query } = visit.address
  const { after = "" } = query
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query[name] ?? ""]))
  const rows = table<CallBody>({
    label: "Calls",
    key: ({ id }) => id,
    columns: callColumns,
    empty: "No calls match these filters.",
  })
  const list = part(visit, {
    title: null,
    content: async (signal) => {
      const given = Object.entries({ ...filter, after, limit: String(PAGE) }).filter(
        ([, value]) => value !== "",
      )
      const page = await ask<Listed<CallBody>>(`/calls?${new URLSearchParams(given)}`, signal)
      rows.show(page.data)
      return el("div", {}, rows.element, pages("calls", filter, after, page.next))
    },
  })
  void list.load()
  return el(
    "div",
    {},
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Calls")),
    filters(filter),
    list.element,
  )
}

function filters(filter: Readonly<Record<string, string>>): HTMLElement {
  const text = (name: string, label: string): Field => ({
    name,
    label,
    input: el("input", { value: filter[name] ?? "", autocomplete: "off", spellcheck: "false" }),
  })
  const time = (name: string, label: string): Field => ({
    name,
    label,
    input: el("input", { type: "datetime-local", step: 1, value: localTime(filter[name] ?? "") }),
  })
  const fields: readonly Field[] = [
    text("account", "Account id"),
    text("key", "Key id"),
    text("model", "Model"),
    text("session", "Session id"),
    {
      name: "operation",
      label: "Operation",
      input: select([["", "any"], ...operationNames.map((one) => [one, one] as const)], filter.operation),
    },
    {
      name: "state",
      label: "State",
      input: select([["", "any"], ...states.map((state) => [state, state] as const)], filter.state),
    },
    {
      name: "failure",
      label: "Failure",
      input: select(
        [["", "any or none"], ...failures.map((one) => [one, failureWords(one)] as const)],
        filter.failure,
      ),
    },
    time("from", "From"),
    time("to", "Before"),
  ]
  const apply = (event: Event) => {
    event.preventDefault()
    const values = fields.map(({ name, input }) => {
      const value = input.value.trim()
      const is_time = input instanceof HTMLInputElement && input.type === "datetime-local" && value !== ""
      return [name, is_time ? new Date(value).toISOString() : value] as const
    })
    location.hash = addressOf("calls", null, Object.fromEntries(values))
  }
  const is_narrowed = Object.values(filter).some((value) => value !== "")
  const form = el(
    "form",
    { class: "filters", submit: apply, "aria-label": "Filters" },
    ...fields.map(fieldRow),
    el(
      "div",
      { class: "actions" },
      el("button", { type: "submit", class: "primary" }, "Show"),
      is_narrowed && el("a", { href: addressOf("calls") }, "Clear"),
    ),
  )
  const is_wide = matchMedia("(min-width: 48rem)").matches
  return el("details", { class: "card", open: is_wide || is_narrowed }, el("summary", {}, "Filters"), form)
}

/** An RFC 3339 time in the form of a `datetime-local` field. */
function localTime(text: string): string {
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) return ""
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

const LOOK_MS = 2_000
const MOST_OPEN = 100
/** Calls take at most half an hour by default. A longer range would be a more expensive query. */
const BACK_MS = 3_600_000

/** In whole seconds, because the page updates every two seconds. */
function runningFor({ started_at }: CallBody): number {
  return Math.max(0, Math.floor((Date.now() - Date.parse(started_at)) / 1_000) * 1_000)
}

/** The open calls, polled every two seconds while the page is visible. */
export function live(visit: Visit): HTMLElement {
  const ages = new Map<string, HTMLElement>()
  const rows = table<CallBody>({
    label: "Open calls",
    key: ({ id }) => id,
    mark: ({ state }) => state,
    columns: [
      { title: "Call", cell: ({ id }) => callLink(id) },
      { title: "Started", cell: ({ started_at }) => moment(started_at, showClock) },
      { title: "Running for", right: true, cell: (call) => age(call) },
      { title: "Account", cell: ({ account_id }) => accountLink(account_id) },
      { title: "Model", cell: ({ model }) => named(model) },
      { title: "Upstream", minor: true, cell: ({ upstream }) => named(upstream) },
      { title: "Kind", minor: true, cell: ({ stream }) => (stream ? "stream" : "JSON") },
      { title: "Held", right: true, cell: ({ held }) => usd(held) },
    ],
    empty: "No calls in progress.",
  })
  const summary = el("p", { class: "quiet" }, "Loading …")

  function age({ id }: CallBody): HTMLElement {
    const place = ages.get(id) ?? el("span")
    ages.set(id, place)
    return place
  }

  async function look(): Promise<void> {
    const query = new URLSearchParams({
      state: "open",
      from: new Date(Date.now() - BACK_MS).toISOString(),
      limit: String(MOST_OPEN),
    })
    const { data, next } = await ask<Listed<CallBody>>(`/calls?${query}`, visit.signal)
    rows.show(data)
    for (const call of data) setText(age(call), showDuration(runningFor(call)))
    for (const id of ages.keys()) if (!data.some((call) => call.id === id)) ages.delete(id)
    const held = usd(sumUsd(data.map(({ held }) => held))).textContent ?? ""
    const more = next === null ? "" : `, the newest ${MOST_OPEN} of them`
    setText(summary, `${counted(data.length, "open call")}${more}, holding ${held}`)
  }

  const status = poll(visit, LOOK_MS, look)
  return el(
    "div",
    {},
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Live calls"), summary),
    el("section", { class: "card" }, rows.element),
    el(
      "p",
      { class: "quiet" },
      "Open calls that started in the last hour, on all gateways that share this database. Updated every two seconds.",
    ),
    status,
  )
}
