import { AccountBody, type CallBody } from "../../../wire/admin.ts"
import { GrantBody } from "../../../wire/credit-bodies.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { type Metric, metrics } from "../../chart.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import { ranges, spanOf, type TimeRange } from "../../times.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, el, named, replaceElement } from "../element.ts"
import { openDialog } from "../form.ts"
import { choice, detail, entriesOf, moment, noteName } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { accountChip } from "./accounts.ts"
import { budgets } from "./budgets.ts"
import { callColumns } from "./calls.ts"
import { keys } from "./keys.ts"
import { plotOf } from "./overview.ts"
import { refusals } from "./refusals.ts"
import { suspend } from "./suspend.ts"

const CREDITS = 20
const CALLS = 10

/** One account: balance, keys, credits and spending. */
export function account(visit: Visit, id: string): HTMLElement {
  const path = `/accounts/${id}`
  const title = el("span", "Account")
  let actions = el("div.actions")
  const totals = part(visit, {
    title: null,
    class: "totals",
    async content(signal) {
      const found = await ask<AccountBody>(path, signal)
      const { name, price_multiplier, suspended, created_at } = found
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
        entry("price_multiplier", `× ${price_multiplier}`, "on the prices"),
      ])
      return el("div", figures, el("p.quiet.lead", "Created ", moment(created_at), `, id ${id}`))
    },
  })
  const creditColumn = columnsOf(GrantBody)
  const credits = list(visit, {
    title: "Credits",
    label: "Credits",
    key: (credit: GrantBody) => credit.id,
    columns: [
      creditColumn("created_at"),
      creditColumn("amount"),
      creditColumn("left"),
      creditColumn("kind"),
      creditColumn("expires_at"),
      creditColumn("reason"),
    ],
    empty: "No credits yet.",
    load: (signal) => ask<ListBody<GrantBody>>(`${path}/credits?limit=${CREDITS}`, signal),
    below: ({ next }) => next !== null && el("p.quiet", `Only the newest ${CREDITS} are shown.`),
  })
  const recent = list(visit, {
    title: "Recent calls",
    tools: el("a", { href: addressOf("calls", null, { account: id }) }, "All calls"),
    label: "Recent calls",
    key: (call: CallBody) => call.id,
    columns: callColumns(false),
    empty: "No calls yet.",
    load: (signal) => ask<ListBody<CallBody>>(`/calls?limit=${CALLS}&account=${id}`, signal),
  })
  const reload = () => {
    void totals.load()
    void credits.load()
  }
  const parts = [
    totals,
    spending(visit, id),
    keys(visit, id),
    budgets(visit, id),
    credits,
    recent,
    refusals(visit, id),
  ]
  return view(title, actions, ...parts.map(({ element }) => element))
}

function buttons(account: AccountBody, done: () => void): HTMLElement[] {
  const { id, name, price_multiplier, suspended } = account
  const path = `/accounts/${id}`
  const credit = () => {
    const credit_id = ownId()
    openDialog({
      title: "Add credit",
      text: el("p", "Add credit to ", named(name), "."),
      fields: [
        {
          name: "amount",
          label: "Amount in USD",
          hint: "For example 25 or 0.50. A negative amount is a correction.",
          kind: "usd",
        },
        { name: "reason", label: "Reason", hint: "Optional. Recorded in the journal." },
        {
          name: "priority",
          label: "Priority",
          hint: "Optional. 0 to 100: calls spend the smallest first. The default is 50.",
        },
        { name: "expires_at", label: "Expires", hint: "Optional. A time such as 2027-12-31T00:00:00Z." },
      ],
      submit: "Add credit",
      act: ({ amount, reason, priority, expires_at }) =>
        tell("POST", `${path}/credits`, {
          id: credit_id,
          amount,
          ...(reason ? { reason } : {}),
          ...(priority ? { priority: Number(priority) } : {}),
          ...(expires_at ? { expires_at } : {}),
        }),
      done,
    })
  }
  const rename = () =>
    openDialog({
      title: "Rename account",
      fields: [{ name: "name", label: "Name", value: name }],
      submit: "Rename",
      act: (values) => tell("PATCH", path, values),
      done,
    })
  const setMultiplier = () =>
    openDialog({
      title: "Set price multiplier",
      text: el("p", "New calls of ", named(name), " are charged their cost times this multiplier."),
      fields: [
        {
          name: "price_multiplier",
          label: "Price multiplier",
          hint: "For example 1.25. 1 charges what calls cost.",
          kind: "usd",
          value: price_multiplier,
        },
      ],
      submit: "Set",
      act: (values) => tell("PATCH", path, values),
      done,
    })
  return [
    button("Add credit", credit, { class: "primary" }),
    button("Rename", rename),
    button("Set price multiplier", setMultiplier),
    button(suspended ? "Resume" : "Suspend", () => suspend("account", path, name, suspended, done)),
  ]
}

function spending(visit: Visit, account: string): ViewPart {
  let range: TimeRange = "7d"
  let metric: Metric = "money"
  const chooseMetric = choice("Metric", metrics, metric, (chosen) => {
    metric = chosen
    void made.load()
  })
  const chooseRange = choice("Range", ranges, range, (chosen) => {
    range = chosen
    void made.load()
  })
  const made = part(visit, {
    title: "Spending by model",
    tools: el("div.actions", chooseMetric, chooseRange),
    async content(signal) {
      const query = { ...spanOf(range, Date.now()), account }
      return plotOf(signal, await ask<TimelineBody>(withQuery("/timeline", query), signal), metric)
    },
  })
  return made
}
