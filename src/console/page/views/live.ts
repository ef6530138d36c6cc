import { CallBody } from "../../../wire/admin.ts"
import { showUsd, sumUsd } from "../../amount.ts"
import { withQuery } from "../../fragment.ts"
import { showDuration } from "../../times.ts"
import { counted } from "../../words.ts"
import { ask, type ListBody } from "../admin-api.ts"
import { el, setText } from "../element.ts"
import { accountLink, callLink } from "../formats.ts"
import { poll, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"

const LOOK_MS = 2_000
const MOST_OPEN = 100
/** Calls take at most half an hour by default. A longer range would be a more expensive query. */
const BACK_MS = 3_600_000

const MEANING =
  "Open calls that started in the last hour, on all gateways that share this database. Updated every two seconds."

/** The open calls, polled every two seconds while the page is visible. */
export function live(visit: Visit): HTMLElement {
  const ages = new Map<string, HTMLDataElement>()
  const summary = el("p.quiet")
  const column = columnsOf(CallBody)
  const open = list(visit, {
    label: "Open calls",
    mark: ({ state }) => state,
    columns: [
      column("id", ({ id }) => callLink(id)),
      column("started_at"),
      ["Running for", ({ id }) => ages.get(id) ?? null, "right"],
      column("account_id", ({ account_id }) => accountLink(account_id)),
      ...column.each("model", "upstream"),
      ["Kind", ({ stream }) => (stream ? "stream" : "JSON")],
      column("held"),
    ],
    empty: "No calls in progress.",
    async load(signal) {
      const from = new Date(Date.now() - BACK_MS).toISOString()
      const path = withQuery("/calls", { state: "open", from, limit: String(MOST_OPEN) })
      const page = await ask<ListBody<CallBody>>(path, signal)
      for (const { id, started_at } of page.data) {
        // In whole seconds, because the page updates every two seconds.
        const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(started_at)) / 1_000))
        const age = ages.get(id) ?? el("data")
        ages.set(id, age)
        age.value = String(seconds)
        setText(age, showDuration(seconds * 1_000))
      }
      const held = showUsd(sumUsd(page.data.map((call) => call.held)))
      const more = page.next === null ? "" : `, the newest ${MOST_OPEN} of them`
      setText(summary, `${counted(page.data.length, "open call")}${more}, holding ${held}`)
      return page
    },
  })
  poll(visit, LOOK_MS, open.load)
  return view("Live calls", summary, open.element, el("p.quiet", MEANING))
}
