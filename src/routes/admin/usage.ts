import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import { sumUsage } from "../../ledger/reports/usage.ts"
import { operatorGroupings, parseOperatorUsageQuery } from "../../wire/usage-query.ts"
import { OperatorUsageReport } from "../../wire/usage-report.ts"
import { rangeParameters, usageExample } from "../docs/usage.ts"
import { operation } from "../openapi.ts"
import { usageReport } from "../usage-report.ts"
import { ask } from "./books.ts"
import { answer, type Operators, queryOf } from "./operators.ts"
import { accountExample, ERRORS, fieldFault, filterParameter } from "./reference.ts"

/** `/admin/usage`: what all calls used and cost (D48). */
export function usageRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-usage" }).get(
    "/usage",
    async ({ request }) => {
      const query = parseOperatorUsageQuery(queryOf(request), ledgerTime())
      return answer(usageReport(query, await ask(operators, sumUsage(database, query))))
    },
    { detail: summing },
  )
}

const summing = operation({
  operationId: "sumUsage",
  tag: "Ledger",
  summary: "Get usage",
  description:
    "Shows what the calls in a time range used and cost: by model, key, account, day or hour, and in total. A call counts at the time it ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges therefore never overlap or leave a gap, and past ranges do not change. The query reads every call that ended in the range, so short ranges are cheap.",
  credentials: ["adminToken"],
  parameters: [
    ...rangeParameters(operatorGroupings),
    filterParameter("account", "Only calls of this account.", { format: "uuid" }),
    filterParameter("key", "Only calls made with this key.", { format: "uuid" }),
    filterParameter("model", "Only calls to this model, by the name that clients use."),
  ],
  answers: {
    200: {
      description: "The usage.",
      json: {
        schema: OperatorUsageReport,
        examples: {
          "By day": usageExample,
          "By account": {
            ...usageExample,
            by: "account",
            data: [{ group: accountExample.id, name: accountExample.name, ...usageExample.total }],
          },
        },
      },
    },
  },
  errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
})
