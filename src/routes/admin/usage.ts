import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import { sumUsage } from "../../ledger/reports/usage.ts"
import { operatorGroupings, parseOperatorUsageQuery } from "../../wire/usage-query.ts"
import { OperatorUsageReport } from "../../wire/usage-report.ts"
import { rangeParameters, usageExample } from "../docs/usage.ts"
import { operation } from "../openapi.ts"
import { usageReport } from "../usage-report.ts"
import { askLong } from "./books.ts"
import { answer, type Operators, queryOf } from "./operators.ts"
import { accountExample, ERRORS, fieldFault, filterParameter } from "./reference.ts"

/** `/admin/usage`: what all calls used and cost (D48). */
export function usageRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-usage" }).get(
    "/usage",
    async ({ request }) => {
      const query = parseOperatorUsageQuery(queryOf(request), ledgerTime())
      return answer(usageReport(query, await askLong(operators, sumUsage(database, query))))
    },
    { detail: summing },
  )
}

const summing = operation({
  operationId: "sumUsage",
  tag: "Books",
  summary: "Sum usage",
  description:
    "What the calls of a time used and cost, by model, key, account, day or hour, and as a whole. A call counts when it has ended, at the moment of its end; a correction counts at its own moment, with the difference to what was charged before, which may be below 0. So ranges that meet share nothing and miss nothing, and a range that is over does not change. Reads every call that ended in the range: a narrow one is cheap.",
  credentials: ["adminToken"],
  parameters: [
    ...rangeParameters(operatorGroupings),
    filterParameter("account", "Calls of this account.", { format: "uuid" }),
    filterParameter("key", "Calls with this key.", { format: "uuid" }),
    filterParameter("model", "Calls to this model, as the client named it."),
  ],
  answers: {
    200: {
      description: "The sums.",
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
