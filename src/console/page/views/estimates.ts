import type { EstimateBody, EstimatesBody } from "../../../wire/estimates.ts"
import { showCount } from "../../amount.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { count, modelLink } from "../formats.ts"
import type { Part, Visit } from "../part.ts"
import { list } from "../table.ts"

/** Proposed estimates of each model (D92). */
export function estimates(visit: Visit): Part {
  return list(visit, {
    title: "Estimates, last 7 days",
    label: "Estimates",
    columns: [
      ["Model", ({ model }: EstimateBody) => modelLink(model)],
      ["Operation", ({ operation }) => operation],
      ["Calls", ({ calls }) => count(calls), "right"],
      ["Bytes per token (configured)", bytesPerToken, "right"],
      ["In prompts", ({ seen }) => String(seen.prompt_bytes_per_token ?? "–"), "right"],
      ["Hidden tokens per call (configured)", hiddenOutput, "right"],
      ["Output off", ({ error_percent }) => percent(error_percent.output), "right"],
      ["Prompt off", ({ error_percent }) => percent(error_percent.prompt), "right"],
    ],
    empty: "No calls with usage in the last 7 days.",
    load: (signal) => ask<EstimatesBody>("/estimates", signal),
    below: ({ data }) => el("div", ...data.map(suggestionOf)),
  })
}

function bytesPerToken({ seen, configured }: EstimateBody): string {
  return `${seen.bytes_per_token ?? "–"} (${configured.bytes_per_token})`
}

function hiddenOutput({ seen, configured }: EstimateBody): string {
  return `${showCount(seen.hidden_output)} (${showCount(configured.hidden_output)})`
}

function suggestionOf({ model, operation, suggestion }: EstimateBody): HTMLElement | null {
  return suggestion === null ? null : el("p.quiet", named(model), `, ${operation}: ${suggestion}`)
}

function percent(value: number | null): HTMLElement | string {
  if (value === null) return "–"
  const sign = value > 0 ? "+" : value < 0 ? "−" : ""
  return el("data", { value }, `${sign}${Math.abs(value)}%`)
}
