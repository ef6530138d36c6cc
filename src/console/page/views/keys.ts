import type { CreatedKeyBody, KeyBody } from "../../../wire/admin.ts"
import type { UpstreamBody } from "../../../wire/statistics.ts"
import type { OperatorUsageReport } from "../../../wire/usage-report.ts"
import { showUsd } from "../../amount.ts"
import { addressOf } from "../../fragment.ts"
import { keyState } from "../../words.ts"
import { ask, type Listed, ownId, tell } from "../admin-api.ts"
import { type Field, openDialog, select } from "../dialog.ts"
import { type Child, el, named } from "../element.ts"
import { ago, chip, copyable, none } from "../figures.ts"
import { table } from "../table.ts"
import { type Part, part, type Visit } from "../visit.ts"

const MEANINGS = {
  active: "Its calls are accepted.",
  suspended: "Its new calls are refused until it is resumed.",
  expired: "It has expired.",
  revoked: "It can no longer be used.",
} as const

/** For a retried request whose first response was lost. */
const LOST =
  "This key was already created and cannot be shown again. Revoke it in the list, and create another one."

/** The keys of an account. */
export function keysPart(visit: Visit, account_id: string): Part {
  const reload = () => void made.load()
  const left = new Map<string, number>()
  const rows = table<KeyBody>({
    label: "Keys",
    key: ({ id }) => id,
    columns: [
      { title: "Key", cell: keyName },
      { title: "State", cell: stateOf },
      {
        title: "Models",
        cell: ({ models }) =>
          models === null ? "all" : el("span", { class: "names" }, ...models.map(named)),
      },
      { title: "Spending limit", right: true, cell: limitOf },
      { title: "Abandoned calls, 30 days", right: true, cell: ({ id }) => String(left.get(id) ?? 0) },
      { title: "Last used", cell: ({ last_used_at }) => ago(last_used_at) },
      { title: "Expires", cell: ({ expires_at }) => ago(expires_at) },
      { title: "Actions", right: true, cell: (key) => actions(key, reload) },
    ],
    empty: "No keys yet. The account needs a key to make calls.",
  })
  const made = part(visit, {
    title: "Keys",
    tools: el("button", { type: "button", click: () => void makeKey(account_id, reload) }, "New key"),
    content: async (signal) => {
      const [keys, usage] = await Promise.all([
        ask<Listed<KeyBody>>(`/accounts/${account_id}/keys?limit=1000`, signal),
        ask<OperatorUsageReport>(`/usage?account=${account_id}&by=key`, signal),
      ])
      for (const { group, abandoned } of usage.data) left.set(group, abandoned)
      rows.show(keys.data)
      return rows.element
    },
  })
  return made
}

function keyName({ id, name, prefix }: KeyBody): Child {
  const shown = el("code", {}, `${prefix}…`)
  const href = addressOf("calls", null, { key: id })
  return el("a", { href, title: "Show its calls" }, ...(name === null ? [shown] : [named(name), " ", shown]))
}

function stateOf(key: KeyBody): HTMLElement {
  const state = keyState(key, Date.now())
  return chip(state, MEANINGS[state])
}

function limitOf({ spending_limit, spent }: KeyBody): Child {
  if (spending_limit === null) return none()
  const { amount, per } = spending_limit
  return `${showUsd(spent ?? "0")} of ${showUsd(amount)} per ${per}`
}

function actions(key: KeyBody, reload: () => void): HTMLElement {
  const state = keyState(key, Date.now())
  if (state === "revoked") return el("span")
  const called = key.name ?? key.prefix
  const button = (label: string, act: () => void) =>
    el("button", { type: "button", class: "small", "aria-label": `${label} ${called}`, click: act }, label)
  return el(
    "div",
    { class: "actions" },
    button(key.suspended ? "Resume" : "Suspend", () => suspend(key, reload)),
    button("Limit", () => limit(key, reload)),
    button("Revoke", () => revoke(key, reload)),
  )
}

async function makeKey(account_id: string, reload: () => void): Promise<void> {
  const id = ownId()
  const models = await modelNames()
  openDialog({
    title: "New key",
    fields: [
      {
        name: "name",
        label: "Name",
        hint: "Optional.",
        input: el("input", { maxlength: 200, autocomplete: "off" }),
      },
      {
        name: "models",
        label: "Models",
        hint: `One per line. Empty: all models. ${models.length === 0 ? "" : `Configured: ${models.join(", ")}.`}`,
        input: el("textarea", { rows: 3, spellcheck: "false" }),
      },
      {
        name: "expires_at",
        label: "Expires",
        hint: "Optional. In your time zone.",
        input: el("input", { type: "datetime-local" }),
      },
      ...limitFields(null),
    ],
    submit: "Create key",
    async act(values) {
      const { name = "", models: listed = "", expires_at = "" } = values
      const names = listed
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== "")
      const created = await tell<CreatedKeyBody>("POST", `/accounts/${account_id}/keys`, {
        id,
        ...(name === "" ? {} : { name }),
        ...(names.length === 0 ? {} : { models: names }),
        ...(expires_at === "" ? {} : { expires_at: new Date(expires_at).toISOString() }),
        ...(limitIn(values) === null ? {} : { spending_limit: limitIn(values) }),
      })
      reload()
      if (!("key" in created)) return el("p", { class: "fault", role: "alert" }, LOST)
      return el(
        "div",
        {},
        el("p", {}, "Copy the key now. It is shown only once: the database stores only its hash."),
        copyable(created.key, "The new key"),
      )
    },
  })
}

/** The configured model names, as suggestions. Empty if they cannot be loaded. */
async function modelNames(): Promise<readonly string[]> {
  const upstreams = await ask<{ data: UpstreamBody[] }>("/upstreams").catch(() => ({ data: [] }))
  return [...new Set(upstreams.data.flatMap(({ models }) => models))]
}

function limitFields(limit: KeyBody["spending_limit"]): readonly Field[] {
  return [
    {
      name: "spending_limit",
      label: "Spending limit in USD",
      hint: "The most that its calls can cost per day or month (UTC). Empty: no limit.",
      input: el("input", { inputmode: "decimal", autocomplete: "off", value: limit?.amount ?? "" }),
    },
    {
      name: "per",
      label: "Period",
      input: select(
        [
          ["day", "a day"],
          ["month", "a month"],
        ],
        limit?.per ?? "month",
      ),
    },
  ]
}

function limitIn({ spending_limit = "", per = "" }: Readonly<Record<string, string>>): object | null {
  return spending_limit === "" ? null : { amount: spending_limit, per }
}

function limit(key: KeyBody, reload: () => void): void {
  openDialog({
    title: "Spending limit",
    text: el(
      "p",
      {},
      "The most that calls with ",
      named(key.name ?? key.prefix),
      " can cost. Calls that could exceed it are refused.",
    ),
    fields: limitFields(key.spending_limit),
    submit: "Set",
    async act(values) {
      await tell<KeyBody>("PATCH", `/keys/${key.id}`, { spending_limit: limitIn(values) })
      reload()
      return null
    },
  })
}

function suspend(key: KeyBody, reload: () => void): void {
  const { id, name, prefix, suspended } = key
  openDialog({
    title: suspended ? "Resume key" : "Suspend key",
    text: suspended
      ? el("p", {}, "New calls with ", named(name ?? prefix), " are accepted again.")
      : el(
          "p",
          {},
          "All new calls with ",
          named(name ?? prefix),
          " are refused until it is resumed. Calls in progress continue.",
        ),
    submit: suspended ? "Resume" : "Suspend",
    is_dangerous: !suspended,
    async act() {
      await tell<KeyBody>("PATCH", `/keys/${id}`, { suspended: !suspended })
      reload()
      return null
    },
  })
}

function revoke({ id, name, prefix }: KeyBody, reload: () => void): void {
  openDialog({
    title: "Revoke key",
    text: el(
      "p",
      {},
      named(name ?? prefix),
      " can never be used again. Its users need a new key. Calls in progress continue.",
    ),
    submit: "Revoke",
    is_dangerous: true,
    async act() {
      await tell<null>("DELETE", `/keys/${id}`)
      reload()
      return null
    },
  })
}
