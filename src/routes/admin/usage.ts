import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import { sumUsage } from "../../ledger/reports/usage-sums.ts"
import { OperatorUsageQuery, usageRange } from "../../wire/usage-query.ts"
import { OperatorUsageReport } from "../../wire/usage-report.ts"
import { accountExample, ERRORS, fieldFault } from "../docs/examples.ts"
import { operatorUsageExample } from "../docs/usage-example.ts"
import { askLong } from "../ledger-deadline.ts"
import { answer, operation } from "../openapi.ts"
import { operatorUsageReport } from "../record-bodies.ts"
import type { Operators } from "./operators.ts"

/** `/admin/usage`: what all calls used and cost (D48). */
export function usageRoutes(operators: Operators) {
  const [{ database }] = operators.shards
  return new Elysia({ name: "admin-usage" }).get(
    "/usage",
    async ({ query: { account, key, model, ...asked } }) => {
      const range = usageRange(asked, ledgerTime())
      const sums = sumUsage(database, { ...range, account_id: account, key_id: key, model })
      return operatorUsageReport(range, await askLong(operators, sums))
    },
    summing,
  )
}

const summing = {
  query: OperatorUsageQuery,
  response: {
    200: answer("The usage.", OperatorUsageReport, {
      "By day": operatorUsageExample,
      "By account": {
        ...operatorUsageExample,
        by: "account",
        data: [{ group: accountExample.id, name: accountExample.name, ...operatorUsageExample.total }],
      },
    }),
  },
  detail: operation({
    operationId: "sumUsage",
    tag: "Ledger",
    summary: "Get usage",
    description:
      "Shows what the calls in a time range used and cost: by model, key, account, day or hour, and in total. `cost` is without the margins of the accounts, `profit` is the rest of the charge. A call counts at the time it ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges therefore never overlap or leave a gap, and past ranges do not change.",
    credentials: ["adminToken"],
    errors: [fieldFault("from", "an RFC 3339 time or a day such as 2026-11-21"), ...ERRORS],
  }),
}
