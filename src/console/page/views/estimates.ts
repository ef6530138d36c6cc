import { EstimateBody, type EstimatesBody } from "../../../wire/estimates.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { modelLink } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"

/** Proposed estimates of each model (D92). */
export function estimates(visit: Visit): ViewPart {
  const column = columnsOf(EstimateBody)
  return list(visit, {
    title: "Estimates, last 7 days",
    label: "Estimates",
    columns: [
      column("model", ({ model }) => modelLink(model)),
      ...column.each("operation", "calls", "seen.bytes_per_token", "configured.bytes_per_token"),
      ...column.each("seen.prompt_bytes_per_token", "seen.hidden_output", "configured.hidden_output"),
      ...column.each("error_percent.output", "error_percent.prompt"),
    ],
    empty: "No calls with usage in the last 7 days.",
    load: (signal) => ask<EstimatesBody>("/estimates", signal),
    below: ({ data }) => el("div", ...data.map(suggestionOf)),
  })
}

function suggestionOf({ model, operation, suggestion }: EstimateBody): HTMLElement | null {
  return suggestion === null ? null : el("p.quiet", named(model), `, ${operation}: ${suggestion}`)
}
