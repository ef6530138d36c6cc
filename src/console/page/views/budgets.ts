import { groupDigits } from "../../../money.ts"
import {
  BUDGET_EVENT,
  budgetPeriods,
  budgetSelectors,
  budgetUnits,
  printLogged,
  printSelected,
} from "../../../wire/budget.ts"
import { BudgetBody } from "../../../wire/budget-bodies.ts"
import type { BudgetLogBody } from "../../../wire/events.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, type Child, el, named } from "../element.ts"
import { choices, filled, openDialog, REASON, rowActions } from "../form.ts"
import { ago, chip, moment, none, usd } from "../formats.ts"
import { type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list, pages } from "../table.ts"

const MODES = {
  hard: "Calls that do not fit are refused.",
  alert: "Refuses no calls, and only counts.",
} as const

/** The budgets of an account (D97). */
export function budgets(visit: Visit, account_id: string): ViewPart {
  const reload = () => void made.load()
  const column = columnsOf(BudgetBody)
  const made = list(visit, {
    title: "Budgets",
    tools: button("New budget", () => createBudget(account_id, reload)),
    columns: [
      column("name"),
      column("selector", printSelected),
      column("limit", (budget) => el("span", amountOf(budget, budget.limit), ` per ${budget.per}`)),
      column("spent", (budget) => amountOf(budget, budget.spent)),
      column("held", (budget) => amountOf(budget, budget.held)),
      column("left", (budget) => amountOf(budget, budget.left)),
      column("mode", ({ mode }) => chip(mode, MODES[mode])),
      column("resets_at", ({ resets_at, per }) => {
        if (resets_at !== null) return ago(resets_at)
        return per === "minute" ? "refills evenly" : none()
      }),
      ["Actions", (budget) => actions(budget, reload), "right"],
    ],
    empty: "No budgets. Only the balance limits the calls of the account.",
    load: (signal) => ask<ListBody<BudgetBody>>(`/accounts/${account_id}/budgets?limit=1000`, signal),
  })
  return made
}

/** The changes and reached thresholds of one budget, also of a deleted one. */
export function budgetLog(visit: Visit, id: string): HTMLElement {
  const { after = "" } = visit.address.query
  const found = list(visit, {
    label: "Budget log",
    columns: [
      ["Time", ({ time }: BudgetLogBody) => moment(time)],
      ["Type", ({ type }) => type.slice(BUDGET_EVENT.length)],
      ["Actor", ({ data }) => ("actor" in data ? data.actor : none())],
      ["Reason", ({ data }) => ("actor" in data && data.reason !== null ? named(data.reason) : none())],
      ["Values", (entry) => named(printLogged(entry))],
    ],
    empty: "No more entries.",
    load: (signal) =>
      ask<ListBody<BudgetLogBody>>(withQuery(`/budgets/${id}/entries`, { limit: "50", after }), signal),
    below: (page) => pages(`budgets/${id}`, {}, after, page),
  })
  return view("Budget log", null, found.element)
}

export function amountOf({ unit }: Pick<BudgetBody, "unit">, amount: string): Child {
  return unit === "usd" ? usd(amount) : `${groupDigits(amount)} ${unit}`
}

function actions(budget: BudgetBody, done: () => void): Child {
  const { id, name } = budget
  const path = `/budgets/${id}`
  const buttons = rowActions(name, done, {
    Change: () => ({
      title: "Change budget",
      fields: [{ name: "amount", label: "Amount", value: budget.amount }, REASON],
      act: ({ amount, ...reason }) => tell("PATCH", path, { amount, ...filled(reason) }),
    }),
    Raise: () => ({
      title: "Raise budget",
      text: el("p", "Another amount for ", named(name), " until a time. Leave both empty to end the raise."),
      fields: [
        { name: "amount", label: "Raised amount", value: budget.raise?.amount ?? "" },
        { name: "until", label: "Until", hint: "In UTC.", kind: "time" },
        REASON,
      ],
      act: ({ amount, until, ...reason }) =>
        tell("PATCH", path, { raise: amount || until ? { amount, until } : null, ...filled(reason) }),
    }),
    Reset: () => ({
      title: "Reset budget",
      text: el("p", "Earlier calls of this period no longer count in ", named(name), ". Their charges stay."),
      fields: [REASON],
      act: (values) => tell("POST", `${path}/reset`, filled(values)),
    }),
    Delete: () => ({
      title: "Delete budget",
      text: el("p", named(name), " no longer limits or counts calls."),
      is_dangerous: true,
      act: () => tell("DELETE", path),
    }),
  })
  const log = el("a", { href: addressOf("budgets", id), "aria-label": `Log ${name}` }, "Log")
  return el("div.actions", log, ...buttons)
}

function createBudget(account_id: string, done: () => void): void {
  const id = ownId()
  openDialog({
    title: "New budget",
    fields: [
      { name: "name", label: "Name", hint: "Errors show it." },
      { name: "selector", label: "Calls", kind: choices(budgetSelectors) },
      {
        name: "selected",
        label: "Selected",
        hint: "The id of the key, the path of the group, such as acme/search, the name of the model or of the end user, or a tag, such as team=search. Empty for all, and for each end user. The name of a tag stands for each value.",
      },
      { name: "amount", label: "Amount" },
      { name: "unit", label: "Unit", kind: choices(budgetUnits) },
      { name: "per", label: "Period", kind: choices(budgetPeriods), value: "month" },
      { name: "timezone", label: "Time zone", hint: "Such as Europe/Berlin.", value: "UTC" },
      { name: "mode", label: "Mode", kind: choices(["hard", "alert"]) },
    ],
    submit: "Create budget",
    act: ({ selected = "", ...values }) =>
      tell("POST", `/accounts/${account_id}/budgets`, { id, ...values, ...filled({ selected }) }),
    done,
  })
}
