import { type AuditBody, type AuditRecordBody, Violation } from "../../../wire/ledger-checks.ts"
import { lessUsd, showCount } from "../../amount.ts"
import { counted } from "../../words.ts"
import { ask, type ListBody } from "../admin-api.ts"
import { button, type Child, el } from "../element.ts"
import { accountLink, moment, usd } from "../formats.ts"
import { part, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, table } from "../table.ts"

/** Records among which the last one of each shard is. */
const RECORDS = 50

/** The result of the last audit on this page, until another one has begun elsewhere. */
let last: AuditBody | null = null

const MEANING =
  "Recomputes every balance, held amount, spending limit and charge from the journal, and compares."

export function audit(visit: Visit): HTMLElement {
  return view("Audit", null, el("p.quiet.lead", MEANING), auditPart(visit).element)
}

/** The last audit, and a button to run one. An audit reads all calls of open months, so it is never polled. */
export function auditPart(visit: Visit): ViewPart {
  let wanted = false
  const run = button("Run audit", async () => {
    wanted = true
    run.disabled = true
    await made.load()
    run.disabled = false
    run.focus()
  })
  const made = part(visit, {
    title: "Last audit",
    tools: run,
    async content(signal) {
      if (wanted) last = await ask<AuditBody>("/audit", signal)
      wanted = false
      const { data } = await ask<ListBody<AuditRecordBody>>(`/audits?limit=${RECORDS}`, signal)
      const [newest] = data
      if (last !== null && newest !== undefined && newest.started_at > last.checked_at) last = null
      return last === null ? recorded(data) : found(last)
    },
  })
  return made
}

/** The result of the last audit by any operator: with several shards, of the last one in each. */
function recorded(records: readonly AuditRecordBody[]): HTMLElement {
  const [first] = records
  if (first === undefined) return el("p.empty", "No audit has ended yet.")
  const latest = [...Map.groupBy(records, ({ shard }) => shard).values()].flatMap(([record]) => record ?? [])
  const sum = (of: (record: AuditRecordBody) => number) => latest.reduce((total, one) => total + of(one), 0)
  const sums = {
    accounts: sum(({ accounts }) => accounts),
    open_holds: sum(({ open_holds }) => open_holds),
    violations: sum(({ violations }) => violations),
  }
  const hash = el("p.quiet", "SHA-256 ", el("code", first.hash))
  return verdict(sums, [moment(first.checked_at), ` by ${first.actor}`], hash)
}

/** The result of an audit, and when it was. */
function verdict(
  { accounts, open_holds, violations }: Pick<AuditRecordBody, "accounts" | "open_holds" | "violations">,
  checked: readonly Child[],
  more: Child,
): HTMLElement {
  const looked = [
    counted(accounts, "account", showCount(accounts)),
    counted(open_holds, "open hold", showCount(open_holds)),
  ]
  const words =
    violations === 0
      ? "The ledger matches its journal."
      : `The ledger does not match its journal: ${counted(violations, "violation")}.`
  return el(
    violations === 0 ? "div.audit.clean" : "div.audit.violated",
    { role: "status" },
    el("p.verdict", words),
    el("p.quiet", `${looked.join(", ")}; checked `, ...checked),
    more,
  )
}

function found({ checked_at, accounts, open_holds, violations }: AuditBody): HTMLElement {
  const column = columnsOf(Violation)
  const rows = table<AuditBody["violations"][number]>({
    label: "Violations",
    columns: [
      column("account_id", ({ account_id }) => accountLink(account_id)),
      column("kind"),
      column("id", ({ id }) => id ?? ""),
      column("recorded", ({ recorded }) => (recorded === null ? "no such account" : usd(recorded))),
      column("expected", ({ expected }) => (expected === null ? "no entry" : usd(expected))),
      ["Difference", ({ recorded, expected }) => usd(lessUsd(recorded ?? "0", expected ?? "0")), "right"],
    ],
    empty: "",
  })
  rows.show(violations)
  const sums = { accounts, open_holds, violations: violations.length }
  return verdict(sums, [moment(checked_at)], violations.length > 0 && rows.element)
}
