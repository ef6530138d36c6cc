import type { AccountBody } from "../../../wire/admin.ts"
import { monthsSince } from "../../../wire/time.ts"
import { addressOf } from "../../fragment.ts"
import { ask } from "../admin-api.ts"
import { el } from "../element.ts"
import type { ViewPart, Visit } from "../part.ts"
import { list } from "../table.ts"

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
