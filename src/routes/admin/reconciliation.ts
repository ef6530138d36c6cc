import { Elysia } from "elysia"
import type { ReconciledSum } from "../../ledger/reports/reconciliation.ts"
import { printPrice } from "../../money.ts"
import {
  checkRange,
  ReconciledSums,
  ReconciliationBody,
  ReconciliationQuery,
  STEP_MS,
} from "../../wire/reconciliation.ts"
import { bodyOf } from "../../wire/record.ts"
import { ofOperators } from "../reference/examples.ts"
import { answer } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/reconciliation`: sums to compare with a provider's usage report (D98). */
export function reconciliationRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-reconciliation" }).get(
    "/reconciliation",
    async ({ query: { upstream, from, to, step = "hour" } }) => {
      checkRange(from, to)
      const sums = await ledger.reconciled({ upstream, from, to, step_ms: STEP_MS[step] })
      return bodyOf(ReconciliationBody, { from, to, data: sums.map(sumsBody) })
    },
    showing,
  )
}

function sumsBody(sums: ReconciledSum): ReconciledSums {
  const prices = {
    input: printPrice(sums.input_pico),
    cached_input: printPrice(sums.cached_input_pico),
    output: printPrice(sums.output_pico),
  }
  return bodyOf(ReconciledSums, { ...sums, prices })
}

const example: ReconciledSums = {
  from: "2026-11-20T09:00:00.000Z",
  model: "gpt-5-mini",
  operation: "chat",
  upstream_key: null,
  calls: 41,
  prompt_tokens: 52000,
  cached_tokens: 12000,
  completion_tokens: 9000,
  cost: "0.0283",
  prices: { input: "0.25", cached_input: "0.025", output: "2" },
  attempts: 1,
  estimated: { calls: 1, prompt_tokens: 900, completion_tokens: 120 },
  cut: { calls: 0, prompt_tokens: 0, completion_tokens: 0 },
  boundary: { calls: 2, prompt_tokens: 2100, completion_tokens: 300 },
}
const examples: ReconciledSums[] = [
  example,
  { ...example, operation: "responses" },
  { ...example, model: "text-embedding-3-small", operation: "embeddings" },
]

const showing = ofOperators({
  query: ReconciliationQuery,
  response: {
    200: answer("The sums.", ReconciliationBody, {
      sums: { from: "2026-11-20T09:00:00.000Z", to: "2026-11-20T10:00:00.000Z", data: examples },
    }),
  },

  operationId: "sumForReconciliation",
  tag: "Ledger",
  summary: "Get sums to compare with a provider's report",
  description:
    "Shows what the calls to an upstream used and cost, by hour or day, model, operation and key of the upstream, with the calls and attempts that a provider may count in another way. `tollgate reconcile` compares them with the provider's usage export.",
  invalid: "from",
})
