import type { AccountBody, CallBody, CreditBody, CreditedBody } from "../../../wire/admin.ts"
import type { TimelineBody } from "../../../wire/statistics.ts"
import { type Metric, metrics } from "../../chart.ts"
import { addressOf } from "../../fragment.ts"
import { type Range, ranges, spanOf } from "../../times.ts"
import { ask, type Listed, ownId, tell } from "../admin-api.ts"
import { openDialog } from "../dialog.ts"
import { el, named } from "../element.ts"
import { choice, moment, none, noteName, tile, usd } from "../figures.ts"
import { table } from "../table.ts"
import { type Part, part, type Visit } from "../visit.ts"
import { stateChip } from "./accounts.ts"
import { callColumns } from "./calls.ts"
import { keysPart } from "./keys.ts"
import { plotOf } from "./overview.ts"
import { refusalsPart } from "./refusals.ts"

const RECENT = 10

/** One account: balance, keys, credits and spending. */
export function account(visit: Visit, id: string): HTMLElement {
  const head = part(visit, {
    title: null,
    class: "head",
    content: async (signal) => headOf(await ask<AccountBody>(`/accounts/${id}`, signal), () => void reload()),
  })
  const credits = creditsPart(visit, id)
  const parts: readonly Part[] = [
    head,
    spendingPart(visit, id),
    keysPart(visit, id),
    credits,
    recentPart(visit, id),
    refusalsPart(visit, id),
  ]
  async function reload(): Promise<void> {
    await Promise.all([head.load(), credits.load()])
  }
  void head.load().then(focusTitle)
  for (const one of parts) if (one !== head) void one.load()
  return el("div", {}, ...parts.map(({ element }) => element))
}

/** The title loads with the account. It then gets the focus, unless the user has moved it. */
function focusTitle(): void {
  if (document.activeElement === document.body) document.querySelector("h1")?.focus({ preventScroll: true })
}

function headOf(account: AccountBody, reload: () => void): HTMLElement {
  noteName(account)
  const { id, name, balance, held, available, price_multiplier, suspended, created_at } = account
  document.title = `${name} · Tollgate console`
  return el(
    "div",
    {},
    el("p", { class: "trail" }, el("a", { href: addressOf("accounts") }, "Accounts")),
    el(
      "div",
      { class: "title" },
      el("h1", { tabindex: -1 }, named(name), " ", stateChip(suspended)),
      el(
        "div",
        { class: "actions" },
        el("button", { type: "button", class: "primary", click: () => topUp(account, reload) }, "Add credit"),
        el("button", { type: "button", click: () => rename(account, reload) }, "Rename"),
        el("button", { type: "button", click: () => setMultiplier(account, reload) }, "Set price multiplier"),
        el(
          "button",
          { type: "button", click: () => suspend(account, reload) },
          suspended ? "Resume" : "Suspend",
        ),
      ),
    ),
    el(
      "dl",
      { class: "tiles" },
      tile("Available", usd(available), "available to new calls"),
      tile("Balance", usd(balance), "credits minus charges"),
      tile("Held", usd(held), "by open calls"),
      tile("Price multiplier", `× ${price_multiplier}`, "on the prices"),
      tile("Opened", moment(created_at), id),
    ),
  )
}

function topUp({ id, name }: AccountBody, reload: () => void): void {
  const credit_id = ownId()
  openDialog({
    title: "Add credit",
    text: el("p", {}, "Add credit to ", named(name), "."),
    fields: [
      {
        name: "amount",
        label: "Amount in USD",
        hint: "For example 25 or 0.50. A negative amount is a correction.",
        input: el("input", { inputmode: "decimal", autocomplete: "off" }),
      },
      {
        name: "reason",
        label: "Reason",
        hint: "Optional. Recorded in the journal.",
        input: el("input", { maxlength: 500, autocomplete: "off" }),
      },
    ],
    submit: "Add credit",
    async act({ amount = "", reason = "" }) {
      const body = { id: credit_id, amount, ...(reason === "" ? {} : { reason }) }
      await tell<CreditedBody>("POST", `/accounts/${id}/credits`, body)
      reload()
      return null
    },
  })
}

function rename({ id, name }: AccountBody, reload: () => void): void {
  openDialog({
    title: "Rename account",
    fields: [
      {
        name: "name",
        label: "Name",
        input: el("input", { maxlength: 200, autocomplete: "off", value: name }),
      },
    ],
    submit: "Rename",
    async act(values) {
      await tell<AccountBody>("PATCH", `/accounts/${id}`, { name: values.name })
      reload()
      return null
    },
  })
}

function setMultiplier({ id, name, price_multiplier }: AccountBody, reload: () => void): void {
  openDialog({
    title: "Set price multiplier",
    text: el("p", {}, "New calls of ", named(name), " are charged their cost times this multiplier."),
    fields: [
      {
        name: "price_multiplier",
        label: "Price multiplier",
        hint: "For example 1.25. 1 charges what calls cost.",
        input: el("input", { inputmode: "decimal", autocomplete: "off", value: price_multiplier }),
      },
    ],
    submit: "Set",
    async act(values) {
      await tell<AccountBody>("PATCH", `/accounts/${id}`, { price_multiplier: values.price_multiplier })
      reload()
      return null
    },
  })
}

function suspend({ id, name, suspended }: AccountBody, reload: () => void): void {
  openDialog({
    title: suspended ? "Resume account" : "Suspend account",
    text: suspended
      ? el("p", {}, "New calls of ", named(name), " are accepted again.")
      : el("p", {}, "All new calls of ", named(name), " are refused. Calls in progress continue."),
    submit: suspended ? "Resume" : "Suspend",
    is_dangerous: !suspended,
    async act() {
      await tell<AccountBody>("PATCH", `/accounts/${id}`, { suspended: !suspended })
      reload()
      return null
    },
  })
}

function spendingPart(visit: Visit, id: string): Part {
  let range: Range = "7d"
  let metric: Metric = "money"
  const made = part(visit, {
    title: "Spending by model",
    tools: el(
      "div",
      { class: "tools" },
      choice(
        "Metric",
        metrics.map((one) => [one, one] as const),
        metric,
        (chosen) => {
          metric = chosen
          void made.load()
        },
      ),
      choice(
        "Range",
        ranges.map((one) => [one, one] as const),
        range,
        (chosen) => {
          range = chosen
          void made.load()
        },
      ),
    ),
    content: async (signal) => {
      const query = new URLSearchParams({ ...spanOf(range, Date.now()), account: id })
      return plotOf(signal, await ask<TimelineBody>(`/timeline?${query}`, signal), metric)
    },
  })
  return made
}

function creditsPart(visit: Visit, id: string): Part {
  const rows = table<CreditBody>({
    label: "Credits",
    key: (credit) => credit.id,
    columns: [
      { title: "When", cell: ({ created_at }) => moment(created_at) },
      { title: "Amount", right: true, cell: ({ amount }) => usd(amount) },
      { title: "Reason", cell: ({ reason }) => (reason === null ? none() : named(reason)) },
    ],
    empty: "No credits yet.",
  })
  return part(visit, {
    title: "Credits",
    content: async (signal) => {
      const { data, next } = await ask<Listed<CreditBody>>(`/accounts/${id}/credits?limit=20`, signal)
      rows.show(data)
      return el(
        "div",
        {},
        rows.element,
        next === null ? null : el("p", { class: "quiet" }, "Only the newest 20 are shown."),
      )
    },
  })
}

function recentPart(visit: Visit, id: string): Part {
  const rows = table<CallBody>({
    label: "Recent calls",
    key: (call) => call.id,
    columns: callColumns.filter(({ title }) => title !== "Account"),
    empty: "No calls yet.",
  })
  return part(visit, {
    title: "Recent calls",
    tools: el("a", { class: "more", href: addressOf("calls", null, { account: id }) }, "All calls"),
    content: async (signal) => {
      rows.show((await ask<Listed<CallBody>>(`/calls?limit=${RECENT}&account=${id}`, signal)).data)
      return rows.element
    },
  })
}
