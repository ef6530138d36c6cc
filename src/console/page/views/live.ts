import type { CallBody } from "../../../wire/admin.ts"
import { sumUsd } from "../../amount.ts"
import { showClock, showDuration } from "../../moment.ts"
import { counted } from "../../words.ts"
import { accountLink } from "../account-name.ts"
import { el, named, setText } from "../element.ts"
import { callLink, moment, usd } from "../figures.ts"
import { ask, type Listed } from "../gateway.ts"
import { table } from "../table.ts"
import { poll, type Visit } from "../visit.ts"

const LOOK_MS = 2_000
const PAGE = 100
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
      { title: "Held", right: true, cell: ({ reserved }) => usd(reserved) },
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
      limit: String(PAGE),
    })
    const { data, next } = await ask<Listed<CallBody>>(`/calls?${query}`, visit.signal)
    rows.show(data)
    for (const call of data) setText(age(call), showDuration(runningFor(call)))
    for (const id of ages.keys()) if (!data.some((call) => call.id === id)) ages.delete(id)
    const held = usd(sumUsd(data.map(({ reserved }) => reserved))).textContent ?? ""
    const more = next === null ? "" : `, the newest ${PAGE} of them`
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
