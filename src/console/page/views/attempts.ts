import { AttemptBody, type AttemptsBody } from "../../../wire/attempts.ts"
import { ask } from "../admin-api.ts"
import { ago, modelLink } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

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
