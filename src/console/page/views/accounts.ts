import type { AccountBody } from "../../../wire/admin.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { plotted, showUsd, sumUsd } from "../../amount.ts"
import { coarser } from "../../chart.ts"
import { addressOf } from "../../fragment.ts"
import { spanOf } from "../../times.ts"
import { ask, type Listed, ownId, tell } from "../admin-api.ts"
import { openDialog } from "../dialog.ts"
import { el, named } from "../element.ts"
import { ago, chip, pages, usd } from "../figures.ts"
import { spark } from "../plot.ts"
import { table } from "../table.ts"
import { part, type Visit } from "../visit.ts"
import { refusalsPart } from "./refusals.ts"

const PAGE = 50
/** How many steps of 15 minutes a sparkline combines into one point. */
const STEPS = 4

/** All accounts, with their balances and recent spending. */
export function accounts(visit: Visit): HTMLElement {
  const { after = "" } = visit.address.query
  const sparks = new Map<string, HTMLElement>()
  const rows = table<AccountBody>({
    label: "Accounts",
    key: ({ id }) => id,
    columns: [
      { title: "Account", cell: ({ id, name }) => el("a", { href: addressOf("accounts", id) }, named(name)) },
      { title: "Available", right: true, cell: ({ available }) => usd(available) },
      { title: "Balance", right: true, cell: ({ balance }) => usd(balance) },
      { title: "Held", right: true, cell: ({ held }) => usd(held) },
      { title: "Spent in 24 h", cell: ({ id }) => sparkPlace(id) },
      { title: "State", cell: ({ suspended }) => stateChip(suspended) },
      { title: "Opened", cell: ({ created_at }) => ago(created_at) },
    ],
    empty: "No accounts yet. Create the first one.",
  })
  function sparkPlace(id: string): HTMLElement {
    const place = sparks.get(id) ?? el("span", { class: "spark-place" })
    sparks.set(id, place)
    return place
  }

  const list = part(visit, {
    title: null,
    content: async (signal) => {
      const page = await ask<Listed<AccountBody>>(
        `/accounts?limit=${PAGE}${after === "" ? "" : `&after=${after}`}`,
        signal,
      )
      rows.show(page.data)
      void drawSparks(page.data, sparks, signal)
      return el("div", {}, rows.element, pages("accounts", {}, after, page.next))
    },
  })
  const refusals = refusalsPart(visit, null)
  void list.load()
  void refusals.load()
  return el(
    "div",
    {},
    el(
      "div",
      { class: "title" },
      el("h1", { tabindex: -1 }, "Accounts"),
      el("button", { type: "button", class: "primary", click: openAccount }, "Create account"),
    ),
    list.element,
    refusals.element,
  )
}

/** One request for all sparklines of the page. They are optional, so a failure leaves them empty. */
async function drawSparks(
  data: readonly AccountBody[],
  sparks: ReadonlyMap<string, HTMLElement>,
  signal: AbortSignal,
): Promise<void> {
  if (data.length === 0) return
  const ids = data.map(({ id }) => id).join(",")
  const query = new URLSearchParams({
    ...spanOf("24h", Date.now()),
    by: "account",
    groups: String(PAGE),
    account: ids,
  })
  const timeline = await ask<TimelineBody>(`/timeline?${query}`, signal).catch(() => null)
  if (timeline === null) return
  for (const { id } of data) {
    const charge = timeline.data.find(({ group }) => group === id)?.charge ?? []
    const total = sumUsd(charge)
    const line =
      charge.length === 0
        ? null
        : spark(coarser(charge.map(plotted), STEPS), `Spent in the last 24 hours: ${showUsd(total)}`)
    sparks
      .get(id)
      ?.replaceChildren(
        ...(line === null ? [] : [line]),
        el("span", { class: line === null ? "quiet" : "usd" }, line === null ? "nothing" : showUsd(total)),
      )
  }
}

export function stateChip(suspended: boolean): HTMLElement {
  return suspended
    ? chip("suspended", "Its new calls are refused.")
    : chip("active", "Its calls are accepted.")
}

function openAccount(): void {
  const id = ownId()
  openDialog({
    title: "Create account",
    fields: [{ name: "name", label: "Name", input: el("input", { maxlength: 200, autocomplete: "off" }) }],
    submit: "Open",
    async act({ name = "" }) {
      const account = await tell<AccountBody>("POST", "/accounts", { id, name })
      location.hash = addressOf("accounts", account.id)
      return null
    },
  })
}
