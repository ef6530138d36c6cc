import { RefusalBody, type RefusalsBody } from "../../../wire/refusals.ts"
import { addressOf, withQuery } from "../../fragment.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { ago } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

/** The refused calls of an account, or of all if its id is empty (D80). */
export function refusals(visit: Visit, account: string): ViewPart {
  const column = columnsOf(RefusalBody)
  return list(visit, {
    title: "Refused calls, last 7 days",
    label: "Refused calls",
    columns: [
      column("account_name", accountLink),
      column("key_name", ({ key, key_name }) => named(key_name ?? key ?? "–")),
      ...column.each("code", "requests"),
      column("last_at", ({ last_at }) => ago(last_at)),
    ],
    empty: "No refused calls in the last 7 days.",
    load: (signal) => ask<RefusalsBody>(withQuery("/refusals", { account }), signal),
  })
}

function accountLink({ account, account_name }: RefusalBody): HTMLElement {
  if (account === null) return el("span.quiet", "unknown key")
  return el("a", { href: addressOf("accounts", account) }, named(account_name ?? account))
}
