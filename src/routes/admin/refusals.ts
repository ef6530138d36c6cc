import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import { bodyOf } from "../../wire/record.ts"
import { RefusalBody, RefusalsBody, RefusalsQuery, refusalSpan } from "../../wire/refusals.ts"
import { accountExample, keyExample, ofLedger } from "../reference/examples.ts"
import { answer } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/refusals`: which calls were refused, and why (D80). */
export function refusalRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-refusals" }).get(
    "/refusals",
    async ({ query: { account, key, code, ...period } }) => {
      const span = refusalSpan(period, ledgerTime())
      const sums = await ledger.refusals({ ...span, account_id: account, key_id: key, code })
      const data = sums.map((sum) =>
        bodyOf(RefusalBody, { ...sum, account: sum.account_id, key: sum.key_id }),
      )
      return bodyOf(RefusalsBody, { ...span, data })
    },
    ofLedger({
      query: RefusalsQuery,
      response: {
        200: answer("The refused calls.", RefusalsBody, {
          refusals: { from: "2026-11-14T12:00:00.000Z", to: "2026-11-21T12:00:00.000Z", data: [example] },
        }),
      },
      operationId: "listRefusals",
      summary: "List refused calls",
      description:
        "Shows how many calls were refused before anything was held or sent to a provider, by account, key and error code. Each process adds its refusals once a minute. Hours are kept for 30 days.",
      invalid: "from",
    }),
  )
}

const example: RefusalBody = {
  account: accountExample.id,
  account_name: accountExample.name,
  key: keyExample.id,
  key_name: keyExample.name,
  code: "insufficient_balance",
  requests: 222,
  last_at: "2026-11-21T11:58:00.000Z",
}
