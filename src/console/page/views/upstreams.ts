import { AttemptBody, type AttemptsBody } from "../../../wire/attempts.ts"
import type { ComparedUsage, ReconciledRow } from "../../../wire/reconciliation.ts"
import { type ComparedState, causes, exportIn, providers } from "../../../wire/reconciliation-words.ts"
import { UpstreamBody } from "../../../wire/statistics.ts"
import { showUsd } from "../../amount.ts"
import { showDuration } from "../../times.ts"
import { ask, faultWords, tell } from "../admin-api.ts"
import { type Child, el, named } from "../element.ts"
import { choices, form } from "../form.ts"
import { ago, brief, chip, count, modelLink, names, none, usd } from "../formats.ts"
import { poll, type ViewPart, type Visit, view } from "../part.ts"
import { columnsOf, list, table } from "../table.ts"

const LOOK_MS = 3_000

const MEANINGS: Readonly<Record<string, string>> = {
  ready: "It receives calls.",
  open: "It failed five times in a row, for two accounts or because it cannot be connected to, and is skipped for 10 seconds.",
  trying: "One call is testing whether it works again.",
}

const BREAKERS =
  "After five consecutive failures an upstream's circuit breaker opens for 10 seconds. Then one call tests it. Failures of one account's calls after they were sent open it for that account only. A key that the provider limits or refuses rests, and is asked only if no other is ready. Each process has its own breakers. Other gateways that share this database are not included."

export function upstreams(visit: Visit): HTMLElement {
  const column = columnsOf(UpstreamBody)
  const all = list(visit, {
    label: "Upstreams",
    key: ({ name, worker }: UpstreamBody) => `${worker} ${name}`,
    columns: [
      ...column.each("name", "family"),
      column("worker", ({ worker }) => (worker === null ? "this gateway" : `worker ${worker}`)),
      column("state", ({ state }) => chip(state, MEANINGS[state] ?? state)),
      column("failures"),
      column("tries_in_ms", nextTry),
      column("accounts_skipped"),
      column("keys", restingKeys),
      column("models", ({ models }) => names(models.map(modelLink))),
    ],
    empty: "No upstreams are configured.",
    load: (signal) => ask<{ data: UpstreamBody[] }>("/upstreams", signal),
  })
  poll(visit, LOOK_MS, all.load)
  return view(
    "Upstreams",
    null,
    all.element,
    el("p.quiet", BREAKERS),
    attempts(visit).element,
    reconciliation(),
  )
}

function restingKeys({ keys }: UpstreamBody): Child {
  const resting = keys.filter(({ state }) => state !== "ready")
  if (resting.length === 0) return none()
  const shown = resting.map(({ name, state, rests_ms }) => {
    const what = `${name || "the key"}: ${state === "refused" ? "refused" : "rate limited"}`
    return rests_ms === null ? what : `${what}, ${wholeSeconds(rests_ms)}`
  })
  return shown.join("; ")
}

function nextTry({ tries_in_ms }: UpstreamBody): Child {
  if (tries_in_ms === null) return none()
  return tries_in_ms === 0 ? "with the next call" : `in ${wholeSeconds(tries_in_ms)}`
}

function wholeSeconds(ms: number): string {
  return showDuration(Math.ceil(ms / 1_000) * 1_000)
}

/** Attempts at providers that did not become the answer of their call (D93). */
export function attempts(visit: Visit): ViewPart {
  const column = columnsOf(AttemptBody)
  return list(visit, {
    title: "Attempts that failed or gave no answer, last 7 days",
    label: "Attempts that failed or gave no answer",
    columns: [
      ...column.each("upstream", "upstream_key"),
      column("model", ({ model }) => modelLink(model)),
      column("failure", ({ status, failure }) => failure ?? String(status)),
      column("attempts"),
      column("last_at", ({ last_at }) => ago(last_at)),
    ],
    empty: "No such attempts in the last 7 days.",
    load: (signal) => ask<AttemptsBody>("/attempts", signal),
  })
}

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
