import { AccountBody, type CallBody } from "../../../wire/admin.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { monthsSince } from "../../../wire/time.ts"
import { type OperatorUsageReport, OperatorUsageSums } from "../../../wire/usage-report.ts"
import { metrics } from "../../chart.ts"
import { addressOf, idIn, withQuery } from "../../fragment.ts"
import { ranges, spanOf } from "../../times.ts"
import { ask, type ListBody, tell } from "../admin-api.ts"
import { button, type Child, el, named, replaceElement, rowButton } from "../element.ts"
import { fieldsOf, openDialog } from "../form.ts"
import { callsLink, choice, detail, entriesOf, moment, none, noteName } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { accountChip, EXTERNAL_ID } from "./accounts.ts"
import { budgets } from "./budgets.ts"
import { callColumns } from "./calls.ts"
import { addCredit, credits } from "./credits.ts"
import { customerPrices } from "./customer-prices.ts"
import { keys, suspending } from "./keys.ts"
import { plotOf } from "./overview.ts"
import { refusals } from "./refusals.ts"

const CALLS = 10

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
        entry("low_balance", undefined, "an event below it"),
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
  const field = fieldsOf(AccountBody, account)
  openDialog({
    title: "Change account",
    fields: [
      field("name"),
      field("external_id", EXTERNAL_ID),
      field("credit_limit", "How far calls can take the balance below 0."),
      field("low_balance", "Optional. There is an event when the balance falls below it."),
      field("price_multiplier", "For example 1.25: new calls are charged 25 % more than they cost.", "usd"),
      {
        ...field("may_manage_keys", undefined, [
          ["false", "no"],
          ["true", "yes"],
        ]),
        label: "Customers make and rotate keys",
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

/** The months of an account, each with its statement as a page to print and as CSV (D106). */
export function statements(visit: Visit, account: string): ViewPart {
  const file = (month: string, format: string, label: string) =>
    el(
      "a",
      { href: `/admin/accounts/${account}/statements/${month}?format=${format}`, target: "_blank" },
      label,
    )
  return list(visit, {
    title: "Statements",
    tools: el(
      "a",
      { href: addressOf("usage", null, { by: "model,day", account }) },
      "Usage by several dimensions",
    ),
    columns: [
      ["Month", ({ month }: { readonly month: string }) => month],
      ["Statement", ({ month }) => el("span", file(month, "html", "Page"), " ", file(month, "csv", "CSV"))],
    ],
    empty: "No months yet.",
    async load(signal) {
      const { created_at } = await ask<AccountBody>(`/accounts/${account}`, signal)
      return { data: monthsSince(new Date(created_at), new Date()).map((month) => ({ month })) }
    },
  })
}

type EndUserRow = OperatorUsageReport["data"][number]

/** The end users of an account, and what their calls were charged (D94). */
function endUsers(visit: Visit, account_id: string): ViewPart {
  const reload = () => void made.load()
  const column = columnsOf(OperatorUsageSums)
  const made = list(visit, {
    title: "End users, last 30 days",
    tools: button("Forget an end user", () => forget(account_id, "", null, reload)),
    label: "End users",
    key: ({ group }: EndUserRow) => group,
    columns: [
      ["End user", nameLink],
      ...column.each("calls", "charge"),
      ["Actions", (user) => forgetting(user, account_id, reload), "right"],
    ],
    empty: "No calls of the last 30 days name an end user.",
    async load(signal) {
      const { data, left_out } = await ask<OperatorUsageReport>(
        `/usage?account=${account_id}&by=end_user`,
        signal,
      )
      return { data: data.filter(({ group }) => group !== ""), left_out }
    },
    below: ({ left_out }) => left_out > 0 && el("p.quiet", "Only those with the highest charges are shown."),
  })
  return made
}

/** The group of those that have no row of their own has no id. */
function nameLink({ group, name }: EndUserRow): Child {
  const shown = named(name ?? group)
  return idIn(group) === null ? shown : callsLink({ end_user: group }, shown)
}

function forgetting({ group, name }: EndUserRow, account_id: string, done: () => void): Child {
  if (name === null) return none()
  return rowButton("Forget", name, () => forget(account_id, group, name, done))
}

const END_USER = { name: "end_user", label: "End user", hint: "The name that clients send, or the id." }

/** Asks for the end user if it is not known. */
function forget(account_id: string, end_user: string, name: string | null, done: () => void): void {
  openDialog({
    title: "Forget end user",
    text: el(
      "p",
      "Removes the name",
      ...(name === null ? [""] : [" ", named(name)]),
      " from the ledger. Calls, charges and sums keep the id.",
    ),
    fields: name === null ? [END_USER] : [],
    submit: "Forget",
    is_dangerous: true,
    act: (values) => tell("POST", `/accounts/${account_id}/forget-end-user`, { end_user, ...values }),
    done,
  })
}
