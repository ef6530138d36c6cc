import { Elysia } from "elysia"
import type { ReconciledRange, ReconciledSum } from "../../ledger/reports/reconciliation.ts"
import { printPrice } from "../../money.ts"
import { reconcile } from "../../reconciliation/reconcile.ts"
import { mapInTurns } from "../../turns.ts"
import {
  ComparedUsage,
  checkRange,
  NewReconciliation,
  ReconciledRow,
  ReconciledSums,
  ReconciliationBody,
  ReconciliationQuery,
  STEP_MS,
} from "../../wire/reconciliation.ts"
import { bodyOf } from "../../wire/record.ts"
import { printTime } from "../../wire/time.ts"
import { exampleOf } from "../reference/example.ts"
import { answer, shown } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** `/admin/reconciliation`: our sums, and a comparison of them with a provider's usage export (D98). */
export function reconciliationRoutes({ ledger, onReconciliation }: Operators) {
  return new Elysia({ name: "admin-reconciliation" })
    .get(
      "/reconciliation",
      async ({ query: { upstream, from, to, step = "hour" } }) => {
        checkRange(from, to)
        const sums = await ledger.reconciled({ upstream, from, to, step_ms: STEP_MS[step] })
        return { from: printTime(from), to: printTime(to), data: await mapInTurns(sums, sumsBody) }
      },
      ofLedger({
        query: ReconciliationQuery,
        response: {
          200: answer("The sums.", ReconciliationBody, {
            sums: {
              data: (["chat", "responses", "embeddings"] as const).map((operation) =>
                exampleOf(ReconciledSums, { operation, attempts: 1 }),
              ),
            },
          }),
        },
        operationId: "sumForReconciliation",
        summary: "Get sums to compare with a provider's report",
        description:
          "Shows what the calls to an upstream used and cost, by hour or day, model, operation and key of the upstream, with the calls and attempts that a provider may count in another way. `tollgate reconcile` compares them with the provider's usage export.",
        invalid: "from",
      }),
    )
    .post(
      "/reconciliation",
      async ({ body }) => {
        const now = new Date()
        const read = async (range: ReconciledRange) => mapInTurns(await ledger.reconciled(range), sumsBody)
        const compared = await reconcile(body, read, now.getTime())
        onReconciliation?.(body.provider, now, compared)
        return compared
      },
      ofLedger({
        body: shown(NewReconciliation, {
          "A page of OpenAI's usage": { provider: "openai", export: usageExport },
        }),
        response: {
          200: answer("The comparison.", ComparedUsage, { "The key is used elsewhere": { rows } }),
        },
        operationId: "compareUsage",
        summary: "Compare a provider's usage export with the journal",
        description:
          "Compares the pages of a provider's usage API, grouped by model, with our calls of the same time: by hour or day and model, and by key if `keys` are given. Says what can explain each difference. It only reads: charges never change, and no provider is asked. An export has at most 20,000 results of steps, models and keys; compare a longer one in parts.",
        invalid: "provider",
      }),
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

const usageExport = {
  object: "page",
  data: [
    {
      start_time: 1_795_165_200,
      end_time: 1_795_168_800,
      results: [
        {
          object: "organization.usage.completions.result",
          input_tokens: 52_400,
          input_cached_tokens: 12_000,
          output_tokens: 9_000,
          num_model_requests: 42,
          model: "gpt-5-mini-2025-08-07",
        },
      ],
    },
  ],
  has_more: false,
}

const theirs = {
  requests: 42,
  prompt_tokens: 52_400,
  cached_tokens: 12_000,
  completion_tokens: 9_000,
  cost: null,
}
const rows = [
  exampleOf(ReconciledRow, { model: "gpt-5-mini-2025-08-07", key: null, state: "not_sold", theirs }),
]
