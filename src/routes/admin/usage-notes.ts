import { Elysia } from "elysia"
import { DEFAULT_NOTE_DAYS, UsageNotesBody, UsageNotesQuery } from "../../wire/usage-notes.ts"
import { ofLedger } from "../reference/examples.ts"
import { answer } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/usage-notes`: models whose usage was noted, or was charged below the provider's cost (D87, D90). */
export function usageNoteRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-usage-notes" }).get(
    "/usage-notes",
    async ({ query: { days = DEFAULT_NOTE_DAYS } }) => {
      const found = await ledger.notedUsage(days)
      return { days, data: found.map((noted) => ({ ...noted, unread: [...noted.unread] })) }
    },
    ofLedger({
      query: UsageNotesQuery,
      response: { 200: answer("The models.", UsageNotesBody, { noted: { days: 7, data: [example] } }) },
      operationId: "listUsageNotes",
      summary: "List models whose usage was noted",
      description:
        "Lists the models and upstreams whose recent calls may be charged other than the provider bills them: numbers in the usage that Tollgate does not know, totals that do not add up, implausible usage, kinds without a price, and charges below the provider's own cost.",
      invalid: "days",
    }),
  )
}

const example: UsageNotesBody["data"][number] = {
  model: "sonar-pro",
  upstream: "perplexity",
  calls: 41,
  notes: { usage_unread: 41, total_unexplained: 0, usage_implausible: 0, unpriced: 0 },
  below_cost_calls: 12,
  unread: ["citation_tokens"],
}
