import type { AuditBody } from "../../../wire/ledger-checks.ts"
import { lessUsd, showCount } from "../../amount.ts"
import { counted } from "../../words.ts"
import { ask } from "../admin-api.ts"
import { el } from "../element.ts"
import { accountLink, moment, usd } from "../figures.ts"
import { table } from "../table.ts"
import { type Part, part, type Visit } from "../visit.ts"

/** The result of the last audit on this page. */
let last: AuditBody | null = null

/** The ledger audit. */
export function audit(visit: Visit): HTMLElement {
  return el(
    "div",
    {},
    el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Audit")),
    el(
      "p",
      { class: "quiet lead" },
      "Recomputes every balance, held amount, spending limit and charge from the journal, and compares.",
    ),
    auditPart(visit).element,
  )
}

/** The last audit, and a button to run one. An audit reads all calls of open months, so it is never polled. */
export function auditPart(visit: Visit): Part {
  let wanted = false
  const button = el("button", { type: "button", click: () => void run() }, "Run audit")
  const made = part(visit, {
    title: "Last audit",
    tools: button,
    content: async (signal) => {
      if (wanted) last = await ask<AuditBody>("/audit", signal)
      return last === null ? notYet() : found(last)
    },
  })
  async function run(): Promise<void> {
    wanted = true
    button.disabled = true
    await made.load()
    button.disabled = false
    button.focus()
  }
  void made.load()
  return made
}

function notYet(): HTMLElement {
  return el("p", { class: "empty" }, "No audit was run on this page yet.")
}

type Violation = AuditBody["violations"][number]

function found({ checked_at, accounts, open_holds, violations }: AuditBody): HTMLElement {
  const clean = violations.length === 0
  const rows = table<Violation>({
    label: "Violations",
    key: ({ account_id, kind, id }) => `${account_id} ${kind} ${id}`,
    columns: [
      { title: "Account", cell: ({ account_id }) => accountLink(account_id) },
      { title: "What", cell: ({ kind }) => kind },
      { title: "Key or call", cell: ({ id }) => id ?? "" },
      {
        title: "Recorded",
        right: true,
        cell: ({ recorded }) => (recorded === null ? "no such account" : usd(recorded)),
      },
      {
        title: "Expected",
        right: true,
        cell: ({ expected }) => (expected === null ? "no entry" : usd(expected)),
      },
      {
        title: "Difference",
        right: true,
        cell: ({ recorded, expected }) => usd(lessUsd(recorded ?? "0", expected ?? "0")),
      },
    ],
    empty: "",
  })
  rows.show(violations)
  return el(
    "div",
    { class: clean ? "audit clean" : "audit violated", role: "status" },
    el(
      "p",
      { class: "verdict" },
      clean
        ? "The ledger matches its journal."
        : `The ledger does not match its journal: ${counted(violations.length, "violation")}.`,
    ),
    el(
      "p",
      { class: "quiet" },
      `${counted(accounts, "account", showCount(accounts))}, ${counted(open_holds, "open hold", showCount(open_holds))}; checked `,
      moment(checked_at),
    ),
    clean ? null : rows.element,
  )
}
