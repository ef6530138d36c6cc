import type { RefusalBody, RefusalsBody } from "../../../wire/refusals.ts"
import { showCount } from "../../amount.ts"
import { addressOf } from "../../fragment.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { ago } from "../figures.ts"
import { table } from "../table.ts"
import { type Part, part, type Visit } from "../visit.ts"

/** The refused calls of an account, or of all (D80). */
export function refusalsPart(visit: Visit, account_id: string | null): Part {
  return part(visit, {
    title: "Refused calls, last 7 days",
    content: async (signal) => {
      const rows = table<RefusalBody>({
        label: "Refused calls",
        key: ({ key, code }) => `${key} ${code}`,
        columns: [
          { title: "Account", cell: ({ account, account_name }) => accountLink(account, account_name) },
          { title: "Key", cell: ({ key, key_name }) => named(key_name ?? key ?? "–") },
          { title: "Code", cell: ({ code }) => code },
          { title: "Requests", right: true, cell: ({ requests }) => showCount(requests) },
          { title: "Last", cell: ({ last_at }) => ago(last_at) },
        ],
        empty: "No refused calls in the last 7 days.",
      })
      const of = account_id === null ? "" : `?account=${account_id}`
      rows.show((await ask<RefusalsBody>(`/refusals${of}`, signal)).data)
      return rows.element
    },
  })
}

function accountLink(account: string | null, name: string | null): HTMLElement {
  if (account === null) return el("span", { class: "quiet" }, "unknown key")
  return el("a", { href: addressOf("accounts", account) }, named(name ?? account))
}
