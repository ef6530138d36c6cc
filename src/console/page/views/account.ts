import { AccountBody, type CallBody } from "../../../wire/admin.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { metrics } from "../../chart.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import { ranges, spanOf } from "../../times.ts"
import { ask, type ListBody, tell } from "../admin-api.ts"
import { button, el, named, replaceElement } from "../element.ts"
import { openDialog } from "../form.ts"
import { choice, detail, entriesOf, moment, noteName } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { list } from "../table.ts"
import { accountChip, EXTERNAL_ID } from "./accounts.ts"
import { budgets } from "./budgets.ts"
import { callColumns } from "./calls.ts"
import { addCredit, credits } from "./credits.ts"
import { customerPrices } from "./customer-prices.ts"
import { endUsers } from "./end-users.ts"
import { keys } from "./keys.ts"
import { plotOf } from "./overview.ts"
import { refusals } from "./refusals.ts"
import { statements } from "./statements.ts"
import { suspending } from "./suspend.ts"

const CALLS = 10

/** One account: balance, keys, credits and spending. */
export function account(visit: Visit, id: string): HTMLElement {
  const path = `/accounts/${id}`
  const title = el("span", "Account")
  let actions = el("div.actions")
  const totals = part(visit, {
    class: "totals",
    async content(signal) {
      const found = await ask<AccountBody>(path, signal)
      const { name, external_id, price_multiplier, suspended, created_at } = found
      const entry = entriesOf(AccountBody, found)
      noteName(found)
      document.title = `${name} · Tollgate console`
      title.replaceChildren(named(name), " ", accountChip(suspended))
      const next = el("div.actions", ...buttons(found, reload))
      replaceElement(actions, next)
      actions = next
      const figures = detail("tiles", [
        entry("available", undefined, "available to new calls"),
        entry("balance", undefined, "credits minus charges"),
        entry("held", undefined, "by open calls"),
        entry("credit_limit", undefined, "below 0"),
        entry("low_balance", undefined, "gives an event"),
        entry("price_multiplier", `× ${price_multiplier}`, "on the prices"),
      ])
      const own = external_id === null ? [] : [", external id ", named(external_id)]
      return el("div", figures, el("p.quiet.lead", "Created ", moment(created_at), `, id ${id}`, ...own))
    },
  })
  const recent = list(visit, {
    title: "Recent calls",
    tools: el("a", { href: addressOf("calls", null, { account: id }) }, "All calls"),
    columns: callColumns(false),
    empty: "No calls yet.",
    load: (signal) => ask<ListBody<CallBody>>(`/calls?limit=${CALLS}&account=${id}`, signal),
  })
  const reload = () => {
    void totals.load()
    void credited.load()
  }
  const credited = credits(visit, id, reload)
  const parts = [
    totals,
    spending(visit, id),
    keys(visit, id),
    budgets(visit, id),
    customerPrices(visit, id),
    credited,
    endUsers(visit, id),
    statements(visit, id),
    recent,
    refusals(visit, id),
  ]
  return view(title, actions, ...parts.map(({ element }) => element))
}

function buttons(account: AccountBody, done: () => void): HTMLElement[] {
  const { id, name, suspended } = account
  const path = `/accounts/${id}`
  return [
    button("Add credit", () => addCredit(account, done), { class: "primary" }),
    button("Change", () => changeAccount(path, account, done)),
    button(suspended ? "Resume" : "Suspend", () =>
      openDialog({ ...suspending("account", path, name, suspended), done }),
    ),
  ]
}

function changeAccount(path: string, account: AccountBody, done: () => void): void {
  const before: Readonly<Record<string, unknown>> = { ...account }
  openDialog({
    title: "Change account",
    fields: [
      { name: "name", label: "Name", value: account.name },
      { ...EXTERNAL_ID, value: account.external_id ?? "" },
      {
        name: "credit_limit",
        label: "Credit limit in USD",
        hint: "How far calls can take the balance below 0.",
        kind: "usd",
        value: account.credit_limit,
      },
      {
        name: "low_balance",
        label: "Low balance in USD",
        hint: "Optional. There is an event when the balance falls below it.",
        kind: "usd",
        value: account.low_balance ?? "",
      },
      {
        name: "price_multiplier",
        label: "Price multiplier",
        hint: "For example 1.25: new calls are charged 25 % more than they cost.",
        kind: "usd",
        value: account.price_multiplier,
      },
      {
        name: "may_manage_keys",
        label: "Customers make and rotate keys",
        kind: [
          ["false", "no"],
          ["true", "yes"],
        ],
        value: String(account.may_manage_keys),
      },
    ],
    submit: "Change",
    // Only what was changed: another operator may have changed the rest since the page was read.
    act: (values) => {
      const given: Readonly<Record<string, unknown>> = {
        ...values,
        may_manage_keys: values.may_manage_keys === "true",
      }
      const request = Object.entries(given).map(
        ([field, value]) => [field, value === "" ? null : value] as const,
      )
      return tell(
        "PATCH",
        path,
        Object.fromEntries(request.filter(([field, value]) => value !== before[field])),
      )
    },
    done,
  })
}

function spending(visit: Visit, account: string): ViewPart {
  const reload = () => void made.load()
  const metric = choice("Metric", metrics, "money", reload)
  const range = choice("Range", ranges, "7d", reload)
  const made = part(visit, {
    title: "Spending by model",
    tools: el("div.actions", metric.element, range.element),
    async content(signal) {
      const query = { ...spanOf(range.value, Date.now()), account }
      const timeline = await ask<TimelineBody>(withQuery("/timeline", query), signal)
      return plotOf(signal, timeline, metric.value)
    },
  })
  return made
}
