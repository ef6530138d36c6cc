import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import { type AttemptBody, AttemptsBody, AttemptsQuery } from "../../wire/attempts.ts"
import { bodyOf } from "../../wire/record.ts"
import { refusalSpan } from "../../wire/refusals.ts"
import { ofLedger } from "../reference/examples.ts"
import { answer } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

/** `/admin/attempts`: attempts at providers that did not become the answer of their call (D93). */
export function attemptRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-attempts" }).get(
    "/attempts",
    async ({ query: { account, upstream, model, ...period } }) => {
      const span = refusalSpan(period, ledgerTime())
      const data = await ledger.attempts({ ...span, account_id: account, upstream, model })
      return bodyOf(AttemptsBody, { ...span, data })
    },
    ofLedger({
      query: AttemptsQuery,
      response: {
        200: answer("The attempts.", AttemptsBody, {
          attempts: {
            from: "2026-11-14T12:00:00.000Z",
            to: "2026-11-21T12:00:00.000Z",
            data: [example, { ...example, status: null, failure: "timeout", attempts: 2 }],
          },
        }),
      },
      operationId: "listAttempts",
      summary: "List attempts that did not answer",
      description:
        "Counts the attempts that may have reached a provider but did not become the answer of their call, by upstream, key, model and outcome. The provider may bill them. Each is an entry of the journal, and `GET /admin/calls/{id}` shows those of a call. Attempts of calls before version 0.3 are shown with their calls only.",
      invalid: "from",
    }),
  )
}

const example: AttemptBody = {
  upstream: "openai",
  upstream_key: null,
  model: "gpt-5-mini",
  status: 503,
  failure: null,
  attempts: 31,
  last_at: "2026-11-21T11:58:00.000Z",
}
