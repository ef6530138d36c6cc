import { AccountBody } from "../../../wire/admin.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { showUsd, sumUsd } from "../../amount.ts"
import { coarser } from "../../chart.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import { spanOf } from "../../times.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, el, named } from "../element.ts"
import { fieldsOf, filled, openDialog } from "../form.ts"
import { ago, chip, usd } from "../formats.ts"
import { noteAddress, type Visit, view } from "../part.ts"
import { spark } from "../plot.ts"
import { columnsOf, list, pages } from "../table.ts"
import { refusals } from "./refusals.ts"

const PAGE = "50"
const NEWEST = "-created"
/** The steps of 15 minutes that a sparkline combines into one point. */
const STEPS = 4

export function accounts(visit: Visit): HTMLElement {
  const column = columnsOf(AccountBody)
  const { search = "", sort = NEWEST } = visit.address.query
  let { after = "" } = visit.address.query
  let query = { search, sort: sort === NEWEST ? "" : sort }
  const sparks = new Map<string, HTMLElement>()
  const sparkPlace = (id: string): HTMLElement => {
    const place = sparks.get(id) ?? el("span.spark-place")
    sparks.set(id, place)
    return place
  }
  const all = list(visit, {
    label: "Accounts",
    columns: [
      column("name", ({ id, name }) => el("a", { href: addressOf("accounts", id) }, named(name))),
      ...column.each("available", "balance", "held"),
      ["Spent in 24 h", ({ id }) => sparkPlace(id)],
      column("suspended", ({ suspended }) => accountChip(suspended)),
      column("created_at", ({ created_at }) => ago(created_at)),
    ],
    sort: {
      fields: ["name", "available", "balance", "held", null, null, "created"],
      order: sort,
      choose(order) {
        after = ""
        query = { search, sort: order }
        noteAddress(visit, query)
        void all.load()
      },
    },
    empty: search === "" ? "No accounts yet. Create the first one." : "No account is found.",
    async load(signal) {
      const path = withQuery("/accounts", { ...query, limit: PAGE, after })
      const page = await ask<ListBody<AccountBody>>(path, signal)
      void drawSparks(page.data, sparks, signal)
      return page
    },
    below: (page) => pages("accounts", query, after, page),
  })
  const create = button("Create account", openAccount, { class: "primary" })
  return view("Accounts", create, finder(search, sort), all.element, refusals(visit, "").element)
}

function finder(search: string, sort: string): HTMLElement {
  const label = "Search accounts"
  const hint = "Name, external id or id"
  const input = el("input", { type: "search", "aria-label": label, placeholder: hint, value: search })
  const find = (event: Event) => {
    event.preventDefault()
    location.hash = addressOf("accounts", null, {
      search: input.value.trim(),
      sort: sort === NEWEST ? "" : sort,
    })
  }
  const clear = search !== "" && el("a", { href: addressOf("accounts") }, "Clear")
  return el(
    "form.finder",
    { role: "search", "aria-label": label, submit: find },
    input,
    el("button", { type: "submit" }, "Search"),
    clear,
  )
}

/** One request for all sparklines of the page. They are optional, so a failure leaves them empty. */
async function drawSparks(
  data: readonly AccountBody[],
  sparks: ReadonlyMap<string, HTMLElement>,
  signal: AbortSignal,
): Promise<void> {
  if (data.length === 0) return
  const account = data.map(({ id }) => id).join(",")
  const query = { ...spanOf("24h", Date.now()), by: "account", groups: PAGE, account }
  const timeline = await ask<TimelineBody>(withQuery("/timeline", query), signal).catch(() => null)
  if (timeline === null) return
  for (const [id, place] of sparks) {
    const { charge } = timeline.data.find(({ group }) => group === id) ?? { charge: [] }
    const total = sumUsd(charge)
    if (charge.length === 0) {
      place.replaceChildren(el("data.quiet", { value: 0 }, "nothing"))
      continue
    }
    const label = `Spent in the last 24 hours: ${showUsd(total)}`
    place.replaceChildren(spark(coarser(charge.map(Number), STEPS), label), usd(total))
  }
}

export function accountChip(suspended: boolean): HTMLElement {
  return suspended
    ? chip("suspended", "Its new calls are refused.")
    : chip("active", "Its calls are accepted.")
}

export const EXTERNAL_ID = "Optional. Your own id of the account."

function openAccount(): void {
  const id = ownId()
  const field = fieldsOf(AccountBody)
  openDialog({
    title: "Create account",
    fields: [field("name"), field("external_id", EXTERNAL_ID)],
    submit: "Open",
    async act({ name, ...values }) {
      await tell("POST", "/accounts", { id, name, ...filled(values) })
      location.hash = addressOf("accounts", id)
    },
  })
}
