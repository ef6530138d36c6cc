import type { ComparedUsage, ReconciledRow } from "../../../wire/reconciliation.ts"
import { type ComparedState, causes, exportIn, providers } from "../../../wire/reconciliation-words.ts"
import { showUsd } from "../../amount.ts"
import { faultWords, tell } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { choices, form } from "../form.ts"
import { brief, count, usd } from "../formats.ts"
import { table } from "../table.ts"

const WHY: Readonly<Record<ComparedState, string>> = {
  compared: "",
  no_data: "no data in the export",
  too_young: "ended less than 24 hours ago",
  not_sold: "no calls to this model",
}

const tokensOf = (tokens: ReconciledRow["theirs"] | ReconciledRow["ours"]) =>
  tokens && tokens.prompt_tokens + tokens.completion_tokens

/** A provider's usage export, as a file, beside the journal (D98). */
export function reconciliation(): HTMLElement {
  const file = el("input", { id: "field-export", type: "file" })
  const { rows, values } = form([
    { name: "provider", label: "Provider", kind: choices(providers) },
    { name: "upstreams", label: "Upstreams", hint: "Default: the one with the provider's name." },
  ])
  const go = el("button.primary", { type: "submit" }, "Compare")
  const found = el("div", { role: "status" })
  const differing = table<ReconciledRow>({
    label: "Differences",
    columns: [
      ["From", ({ from }) => brief(from)],
      ["Model", ({ model }) => named(model)],
      ["Their calls", ({ theirs }) => count(theirs?.requests ?? null), "right"],
      ["Our calls", ({ ours }) => count(ours?.calls ?? null), "right"],
      ["Their tokens", ({ theirs }) => count(tokensOf(theirs)), "right"],
      ["Our tokens", ({ ours }) => count(tokensOf(ours)), "right"],
      ["Difference", ({ difference }) => usd(difference), "right"],
      ["Unexplained", ({ unexplained }) => usd(unexplained), "right"],
      ["Explained by", explanation],
    ],
    empty: "Every step agrees.",
  })

  async function compare(event: Event): Promise<void> {
    event.preventDefault()
    go.disabled = true
    try {
      const { provider, upstreams } = values()
      const text = (await file.files?.[0]?.text()) ?? ""
      const body = {
        provider,
        export: exportIn(text),
        ...(upstreams && { upstreams: upstreams.split(/[ ,]+/) }),
      }
      const compared = await tell<ComparedUsage>("POST", "/reconciliation", body)
      differing.show(
        compared.rows.filter(({ state, difference }) => state !== "compared" || difference !== "0"),
      )
      found.replaceChildren(el("p", summaryOf(compared)), differing.element)
    } catch (error) {
      found.replaceChildren(el("p.fault", { role: "alert" }, faultWords(error)))
    }
    go.disabled = false
  }
  return el(
    "section.card",
    { "aria-label": "The provider's usage" },
    el("div.heading", el("h2", "The provider's usage")),
    el(
      "p.quiet",
      "Compares a file of the provider's usage API, grouped by model, with the journal. Charges never change.",
    ),
    el(
      "form.filters",
      { submit: (event) => void compare(event) },
      ...rows,
      el("div.field", el("label", { for: file.id }, "Export"), file),
      el("div.actions", go),
    ),
    found,
  )
}

function summaryOf({ rows, theirs, ours, unexplained, explained, has_more }: ComparedUsage): string {
  const compared = rows.filter(({ state }) => state === "compared").length
  const [one, other, rest, elsewhere] = [theirs, ours, unexplained, explained.elsewhere].map(showUsd)
  return `Compared ${compared} of ${rows.length} sums: theirs ${one}, ours ${other}, unexplained ${rest}, from elsewhere ${elsewhere}.${has_more ? " The export has more pages, which are not in the file." : ""}`
}

function explanation({ state, explained }: ReconciledRow): string {
  if (explained === null) return WHY[state]
  return causes
    .flatMap((cause) => (explained[cause] === "0" ? [] : `${cause} ${showUsd(explained[cause])}`))
    .join(", ")
}
