import { CustomerPriceBody } from "../../../wire/customer-prices.ts"
import type { PriceListBody } from "../../../wire/price-lists.ts"
import { addressOf } from "../../fragment.ts"
import { pricesLine } from "../../price-lines.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, type Child, el, named } from "../element.ts"
import { type FormField, type FormValues, filled, openDialog, REASON } from "../form.ts"
import { brief, chip, none } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

const STATES: Readonly<Record<string, string>> = {
  scheduled: "Begins later.",
  current: "New calls have it.",
  replaced: "Another price holds in its place: one that was set later, or the account's own.",
  over: "New calls no longer have it.",
}

/** The prices that an account has for itself (D100). */
export function customerPrices(visit: Visit, account_id: string): ViewPart {
  const reload = () => void made.load()
  const column = columnsOf(CustomerPriceBody)
  const made = list(visit, {
    title: "Customer prices",
    tools: el(
      "div.actions",
      button("New price", () => setPrice(account_id, reload)),
      button("Assign price list", () => void assignList(account_id, reload)),
    ),
    columns: [
      column("model", ({ model }) => (model === null ? "all models" : named(model))),
      column("price_multiplier", priceOf),
      column("from"),
      column("until", ({ until, ended }) => brief(ended?.at ?? until)),
      column("price_list_id", ({ price_list_id }) =>
        price_list_id === null ? none() : el("a", { href: addressOf("prices", price_list_id) }, "list"),
      ),
      column("state", ({ state }) => chip(state, STATES[state])),
      ...column.each("set_by", "reason"),
      ["Actions", (price) => ending(price, reload), "right"],
    ],
    empty: "No prices of its own. Calls have the configured prices, times the price multiplier.",
    load: (signal) => ask<ListBody<CustomerPriceBody>>(`/accounts/${account_id}/prices?limit=1000`, signal),
  })
  return made
}

const priceOf = ({ price_multiplier, prices }: CustomerPriceBody): Child =>
  price_multiplier === null ? pricesLine(prices ?? {}) : `× ${price_multiplier}`

/** A price of a list ends with the others of its assignment. */
function ending({ id, model, state, assignment_id }: CustomerPriceBody, done: () => void): Child {
  if (state === "over") return none()
  const [path, what] =
    assignment_id === null
      ? [`/prices/${id}/end`, [model === null ? "all models" : named(model), " no longer have this price."]]
      : [`/assignments/${assignment_id}/end`, ["all models no longer have the prices of this list."]]
  return endButton("End price", el("p", "New calls to ", ...what), path, done)
}

export function endButton(title: string, text: Child, path: string, done: () => void): HTMLElement {
  const act = (values: FormValues) => tell("POST", path, filled(values))
  return button("End", () => openDialog({ title, text, fields: [REASON], submit: "End now", act, done }))
}

async function assignList(account_id: string, done: () => void): Promise<void> {
  const { data } = await ask<ListBody<PriceListBody>>("/price-lists?limit=1000")
  const id = ownId()
  openDialog({
    title: "Assign price list",
    text: el("p", "The account gets the prices of the list."),
    fields: [
      { name: "list", label: "Price list", kind: data.map((list) => [list.id, list.name] as const) },
      ...SPAN,
      REASON,
    ],
    submit: "Assign",
    act: ({ list, ...fields }) =>
      tell("POST", `/price-lists/${list}/assignments`, { id, account_id, ...filled(fields) }),
    done,
  })
}

export const SPAN: readonly FormField[] = [
  { name: "from", label: "From", hint: "Optional. A time such as 2027-01-01T00:00:00Z." },
  { name: "until", label: "Until", hint: "Optional." },
]

function setPrice(account_id: string, done: () => void): void {
  const id = ownId()
  openDialog({
    title: "New customer price",
    text: el("p", "A multiplier of the configured prices, or prices of the model."),
    fields: [
      { name: "model", label: "Model", hint: "Empty: all models, with a multiplier." },
      { name: "price_multiplier", label: "Price multiplier", hint: "For example 0.9. Empty with prices." },
      { name: "input", label: "Input, USD per 1M tokens", hint: "Empty: the configured price." },
      { name: "output", label: "Output, USD per 1M tokens", hint: "Other kinds: use the command line." },
      ...SPAN,
      REASON,
    ],
    submit: "Set",
    act: ({ input, output, ...fields }) => {
      const prices = filled({ input: input ?? "", output: output ?? "" })
      return tell("POST", `/accounts/${account_id}/prices`, {
        id,
        ...filled(fields),
        ...(Object.keys(prices).length > 0 && { prices }),
      })
    },
    done,
  })
}
