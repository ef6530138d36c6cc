import { AssignedPriceList, AssignmentBody, PriceListBody } from "../../../wire/price-lists.ts"
import { addressOf } from "../../fragment.ts"
import { priceIn, priceLine } from "../../price-lines.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, type Child, el, named, replaceElement } from "../element.ts"
import { type FormField, filled, linesIn, openDialog, REASON } from "../form.ts"
import { chip, detail, entriesOf, none } from "../formats.ts"
import { part, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { endButton, SPAN } from "./customer-prices.ts"

const PRICES: FormField = {
  name: "prices",
  label: "Prices",
  hint: "One per line: a model, or all, and a multiplier or prices in USD per 1M tokens. For example: gpt-5-mini input=0.2 output=1.6, or all 0.9.",
  kind: "lines",
}

const pricesIn = (lines: string | undefined) => linesIn(lines).map(priceIn)

export function priceLists(visit: Visit): HTMLElement {
  const column = columnsOf(PriceListBody)
  const reload = () => void made.load()
  const made = list(visit, {
    label: "Price lists",
    columns: [
      column("name", ({ id, name }) => el("a", { href: addressOf("prices", id) }, named(name))),
      ["Prices", ({ prices }) => prices.map(priceLine).join("; ")],
      ...column.each("version", "set_by", "reason", "changed_at"),
    ],
    empty: "No price lists yet. Accounts have the configured prices.",
    load: (signal) => ask<ListBody<PriceListBody>>("/price-lists?limit=1000", signal),
  })
  return view(
    "Price lists",
    button("New price list", () => makeList(reload), { class: "primary" }),
    made.element,
  )
}

export function priceList(visit: Visit, id: string): HTMLElement {
  const path = `/price-lists/${id}`
  const title = el("span", "Price list")
  let actions = el("div.actions")
  const reload = () => {
    void totals.load()
    void assigned.load()
  }
  const totals = part(visit, {
    async content(signal) {
      const found = await ask<AssignedPriceList>(path, signal)
      const entry = entriesOf(AssignedPriceList, found)
      title.replaceChildren(named(found.name))
      const next = el(
        "div.actions",
        button("Assign", () => assign(path, reload), { class: "primary" }),
        button("Change", () => changeList(path, found, reload)),
      )
      replaceElement(actions, next)
      actions = next
      const prices = el("ul", ...found.prices.map((price) => el("li", named(priceLine(price)))))
      const facts = ["version", "assigned", "pending", "set_by", "reason", "changed_at"] as const
      const entries = facts.map((field) => entry(field))
      return el("div", prices, detail("facts", entries))
    },
  })
  const column = columnsOf(AssignmentBody)
  const assigned = list(visit, {
    title: "Accounts",
    columns: [
      column("account_id", ({ account_id }) =>
        el("a", { href: addressOf("accounts", account_id) }, account_id),
      ),
      ...column.each("from", "until"),
      column("state", ({ state }) => chip(state)),
      column("set_by"),
      ["Actions", (one) => ending(one, reload), "right"],
    ],
    empty: "No account has this list.",
    load: (signal) => ask<ListBody<AssignmentBody>>(`${path}/assignments?limit=1000`, signal),
  })
  return view(title, actions, totals.element, assigned.element)
}

function makeList(done: () => void): void {
  const id = ownId()
  openDialog({
    title: "New price list",
    fields: [{ name: "name", label: "Name" }, PRICES, REASON],
    submit: "Create",
    act: ({ prices, ...fields }) =>
      tell("POST", "/price-lists", { id, ...filled(fields), prices: pricesIn(prices) }),
    done,
  })
}

function changeList(path: string, { name, prices: before }: PriceListBody, done: () => void): void {
  // A change that is sent again with its id goes on with the accounts that do not have it yet.
  const id = ownId()
  openDialog({
    title: "Change price list",
    text: el(
      "p",
      "Every account that has ",
      named(name),
      " gets these prices now. Calls in progress keep theirs.",
    ),
    fields: [{ ...PRICES, value: before.map(priceLine).join("\n") }, REASON],
    submit: "Change",
    async act({ prices, ...fields }) {
      const request = { id, ...filled(fields), prices: pricesIn(prices) }
      const { pending } = await tell<AssignedPriceList>("PATCH", path, request)
      return pending === 0
        ? null
        : el("p.fault", { role: "alert" }, `${pending} accounts do not have it yet. Change it again.`)
    },
    done,
  })
}

function assign(path: string, done: () => void): void {
  const id = ownId()
  openDialog({
    title: "Assign price list",
    fields: [{ name: "account_id", label: "Account id" }, ...SPAN, REASON],
    submit: "Assign",
    act: (fields) => tell("POST", `${path}/assignments`, { id, ...filled(fields) }),
    done,
  })
}

function ending({ id, state }: AssignmentBody, done: () => void): Child {
  if (state === "over") return none()
  const text = "The account no longer has the prices of this list, for new calls."
  return endButton("End assignment", text, `/assignments/${id}/end`, done)
}
