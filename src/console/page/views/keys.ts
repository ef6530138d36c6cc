import { type CreatedKeyBody, KeyBody } from "../../../wire/admin.ts"
import { keyState } from "../../../wire/key-state.ts"
import type { UpstreamBody } from "../../../wire/statistics.ts"
import type { OperatorUsageReport } from "../../../wire/usage-report.ts"
import { ask, type ListBody, ownId, tell } from "../admin-api.ts"
import { button, type Child, el, named } from "../element.ts"
import {
  type Action,
  type FormField,
  type FormValues,
  fieldsOf,
  filled,
  linesIn,
  openDialog,
  rowActions,
} from "../form.ts"
import { ago, callsLink, chip, copyable, count, names, none, usd } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

/** Hours for which a replaced secret works. */
const GRACE = [
  ["24", "a day"],
  ["1", "an hour"],
  ["168", "a week"],
  ["0", "no longer"],
] as const

const MEANINGS = {
  active: "Its calls are accepted.",
  suspended: "Its new calls are refused until it is resumed.",
  expired: "It has expired.",
  revoked: "It can no longer be used.",
} as const

/** For a retried request whose first response was lost. */
const LOST =
  "This key was already created and cannot be shown again. Revoke it in the list, and create another one."

/** A key, and the calls with it that their clients left in 30 days. */
type KeyRow = KeyBody & { readonly abandoned: number }

export function keys(visit: Visit, account_id: string): ViewPart {
  const reload = () => void made.load()
  const column = columnsOf(KeyBody)
  const made = list(visit, {
    title: "Keys",
    tools: button("New key", () => void createKey(account_id, reload)),
    columns: [
      column("name", keyLink),
      column("suspended", stateOf),
      column("models", ({ models }) => (models === null ? "all" : names(models.map(named)))),
      column("spending_limit", limitOf),
      column("group"),
      column("labels", ({ labels }) => names(Object.entries(labels).map((tag) => named(tag.join("="))))),
      ["Abandoned calls, 30 days", ({ abandoned }: KeyRow) => count(abandoned), "right"],
      column("last_used_at", ({ last_used_at }) => ago(last_used_at)),
      column("expires_at", ({ expires_at }) => ago(expires_at)),
      ["Actions", (key) => actions(key, reload), "right"],
    ],
    empty: "No keys yet. The account needs a key to make calls.",
    async load(signal) {
      const [{ data }, usage] = await Promise.all([
        ask<ListBody<KeyBody>>(`/accounts/${account_id}/keys?limit=1000`, signal),
        ask<OperatorUsageReport>(`/usage?account=${account_id}&by=key`, signal),
      ])
      const left = new Map(usage.data.map(({ group, abandoned }) => [group, abandoned]))
      return { data: data.map((key) => ({ ...key, abandoned: left.get(key.id) ?? 0 })) }
    },
  })
  return made
}

function keyLink({ id, name, prefix }: KeyBody): Child {
  const shown = el("code", `${prefix}…`)
  return callsLink({ key: id }, ...(name === null ? [shown] : [named(name), " ", shown]))
}

export function stateOf(key: KeyBody): HTMLElement {
  const state = keyState(key, Date.now())
  return chip(state, MEANINGS[state])
}

export function limitOf({ spending_limit, spent }: KeyBody): Child {
  if (spending_limit === null) return none()
  const { amount, per } = spending_limit
  return el("span", usd(spent ?? "0"), " of ", usd(amount), ` per ${per}`)
}

function actions(key: KeyBody, done: () => void): Child {
  if (keyState(key, Date.now()) === "revoked") return none()
  const { id, prefix, suspended, spending_limit } = key
  const name = key.name ?? prefix
  const path = `/keys/${id}`
  const buttons = rowActions(name, done, {
    [suspended ? "Resume" : "Suspend"]: () => suspending("key", path, name, suspended),
    Limit: () => ({
      title: "Spending limit",
      text: el(
        "p",
        "The most that calls with ",
        named(name),
        " can cost. Calls that could exceed it are refused.",
      ),
      fields: limitFields(spending_limit),
      submit: "Set",
      act: (values) => tell("PATCH", path, { spending_limit: limitIn(values) }),
    }),
    Tags: () => ({
      title: "Group and tags",
      text: el("p", "They apply to new calls with ", named(name), "."),
      fields: tagFields(key),
      submit: "Set",
      act: (values) => tell("PATCH", path, tagRules(values)),
    }),
    Rotate: () => rotation(name, (body) => tell("POST", `${path}/rotate`, body)),
    Revoke: () => revocation(name, "Its users need a new key. ", () => tell("DELETE", path)),
  })
  return el("div.actions", ...buttons)
}

async function createKey(account_id: string, done: () => void): Promise<void> {
  const known = await modelNames()
  const hint = `One per line. Empty: all models. ${known.length === 0 ? "" : `Configured: ${known.join(", ")}.`}`
  const models: FormField = { name: "models", label: "Models", hint, kind: "lines" }
  openKeyDialog(null, [models], (body) => tell("POST", `/accounts/${account_id}/keys`, body), done)
}

/** Asks for the settings of a new key, also in `more`, and shows the key once. */
export function openKeyDialog(
  text: string | null,
  more: readonly FormField[],
  make: (body: object) => Promise<KeyBody | CreatedKeyBody>,
  done: () => void,
): void {
  const id = ownId()
  openDialog({
    title: "New key",
    text,
    fields: [
      { name: "name", label: "Name", hint: "Optional." },
      ...more,
      { name: "expires_at", label: "Expires", hint: "Optional. In UTC.", kind: "time" },
      ...limitFields(null),
    ],
    submit: "Create key",
    async act({ name = "", models: lines, expires_at = "", ...limit }) {
      const models = linesIn(lines)
      const settings = { ...filled({ name, expires_at }), ...(models.length > 0 && { models }) }
      return newKey(await make({ id, ...settings, spending_limit: limitIn(limit) }))
    },
    done,
  })
}

/** Suspends what is at `path` of the admin API, or resumes it. */
export function suspending(
  kind: "account" | "key",
  path: string,
  name: string,
  is_suspended: boolean,
): Action {
  const calls = `New calls ${kind === "key" ? "with" : "of"} `
  const submit = is_suspended ? "Resume" : "Suspend"
  return {
    title: `${submit} ${kind}`,
    text: is_suspended
      ? el("p", calls, named(name), " are accepted again.")
      : el("p", calls, named(name), " are refused until it is resumed. Calls in progress continue."),
    submit,
    is_dangerous: !is_suspended,
    act: () => tell("PATCH", path, { suspended: !is_suspended }),
  }
}

/** Gives a key a new secret, and shows it. */
export function rotation(name: string, rotate: (body: object) => Promise<CreatedKeyBody>): Action {
  return {
    title: "Rotate key",
    text: el("p", named(name), " gets a new secret. Its limit, its budgets and its usage stay."),
    fields: [{ name: "keep_hours", label: "The secret that it has now works for", kind: GRACE }],
    act: async ({ keep_hours }) => newKey(await rotate({ keep_hours: Number(keep_hours) })),
  }
}

export function revocation(name: string, effect: string, revoke: () => Promise<unknown>): Action {
  return {
    title: "Revoke key",
    text: el("p", named(name), ` can never be used again. ${effect}Calls in progress continue.`),
    is_dangerous: true,
    act: revoke,
  }
}

/** Shows a key once, in place of the form that made it. */
function newKey(made: KeyBody | CreatedKeyBody): HTMLElement {
  if (!("key" in made)) return el("p.fault", { role: "alert" }, LOST)
  const text = "Copy the key now. It is shown only once: the database stores only its hash."
  return el("div", el("p", text), copyable(made.key, "The new key"))
}

/** The configured model names, as suggestions. Empty if they cannot be loaded. */
async function modelNames(): Promise<readonly string[]> {
  const upstreams = await ask<{ data: UpstreamBody[] }>("/upstreams").catch(() => ({ data: [] }))
  return [...new Set(upstreams.data.flatMap(({ models }) => models))]
}

function limitFields(limit: KeyBody["spending_limit"]): readonly FormField[] {
  return [
    {
      name: "spending_limit",
      label: "Spending limit in USD",
      hint: "The most that its calls can cost per day or month (UTC). Empty: no limit.",
      kind: "usd",
      value: limit?.amount ?? "",
    },
    {
      name: "per",
      label: "Period",
      kind: [
        ["day", "a day"],
        ["month", "a month"],
      ],
      value: limit?.per ?? "month",
    },
  ]
}

/** The group of a key, and the tags of its calls (D94). */
function tagFields(key: KeyBody): readonly FormField[] {
  const field = fieldsOf(KeyBody, key)
  return [
    field("group", "For budgets: a path such as acme/search."),
    {
      ...field(
        "labels",
        "Tags of all its calls, one per line, such as team=search. No client can change them.",
        "lines",
      ),
      value: Object.entries(key.labels)
        .map((tag) => tag.join("="))
        .join("\n"),
    },
    {
      ...field("required_tags", "Names, one per line. A call without one of them is refused.", "lines"),
      value: key.required_tags.join("\n"),
    },
    {
      ...field("client_tags", undefined, [
        ["accepted", "recorded"],
        ["ignored", "ignored"],
      ]),
      label: "Tags and end users of clients",
    },
  ]
}

/** The gateway refuses a label without a value. */
function tagRules({ group, labels, required_tags, client_tags }: FormValues): object {
  const given = linesIn(labels).map((line): [string, string] => {
    const [name = "", ...value] = line.split("=")
    return [name.trim(), value.join("=").trim()]
  })
  const required = linesIn(required_tags)
  return {
    group: group || null,
    labels: given.length === 0 ? null : Object.fromEntries(given),
    required_tags: required.length === 0 ? null : required,
    client_tags,
  }
}

function limitIn({ spending_limit, per }: FormValues): object | null {
  return spending_limit ? { amount: spending_limit, per } : null
}
