import type { EstimateBody, EstimatesBody } from "../../../wire/estimates.ts"
import { showCount } from "../../amount.ts"
import { addressOf } from "../../fragment.ts"
import { ask } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { table } from "../table.ts"
import { type Part, part, type Visit } from "../visit.ts"

/** What the estimates of each model should be (D92). */
export function estimatesPart(visit: Visit): Part {
  return part(visit, {
    title: "Estimates, last 7 days",
    content: async (signal) => {
      const rows = table<EstimateBody>({
        label: "Estimates",
        key: ({ model, operation }) => `${operation} ${model}`,
        columns: [
          { title: "Model", cell: ({ model }) => modelLink(model) },
          { title: "Operation", cell: ({ operation }) => operation },
          { title: "Calls", right: true, cell: ({ calls }) => showCount(calls) },
          {
            title: "Bytes per token (configured)",
            right: true,
            cell: ({ seen, configured }) => `${seen.bytes_per_token ?? "–"} (${configured.bytes_per_token})`,
          },
          {
            title: "In prompts",
            right: true,
            cell: ({ seen }) => String(seen.prompt_bytes_per_token ?? "–"),
          },
          {
            title: "Hidden tokens per call (configured)",
            right: true,
            cell: ({ seen, configured }) =>
              `${showCount(seen.hidden_output)} (${showCount(configured.hidden_output)})`,
          },
          { title: "Output off", right: true, cell: ({ error_percent }) => percent(error_percent.output) },
          { title: "Prompt off", right: true, cell: ({ error_percent }) => percent(error_percent.prompt) },
        ],
        empty: "No calls with usage in the last 7 days.",
      })
      const { data } = await ask<EstimatesBody>("/estimates", signal)
      rows.show(data)
      return el("div", {}, rows.element, ...data.map(suggestionOf))
    },
  })
}

function suggestionOf({ model, operation, suggestion }: EstimateBody): HTMLElement | null {
  return suggestion === null
    ? null
    : el("p", { class: "quiet" }, named(model), `, ${operation}: ${suggestion}`)
}

function percent(value: number | null): string {
  if (value === null) return "–"
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value)}%`
}

function modelLink(model: string): HTMLElement {
  return el("a", { href: addressOf("calls", null, { model }) }, named(model))
}
