import { Elysia } from "elysia"
import { type Audit, audit } from "../../ledger/audit.ts"
import { printUsd } from "../../money.ts"
import { AuditBody } from "../../wire/admin.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { ask } from "./books.ts"
import { answer, type Operators } from "./operators.ts"
import { accountExample, ERRORS } from "./reference.ts"

/** `/admin/audit`: whether the books agree with their journal. */
export function auditRoutes(operators: Operators) {
  return new Elysia({ name: "admin-audit" }).get(
    "/audit",
    async () => {
      const audited = await ask(operators, audit(operators.database))
      operators.onAudit?.(audited)
      return answer(auditBody(audited))
    },
    { detail: auditing },
  )
}

function auditBody({ checked_at, accounts, open_reservations, violations }: Audit): AuditBody {
  return {
    checked_at: printTime(checked_at),
    accounts,
    open_reservations,
    violations: violations.map(({ account_id, kind, recorded_nano, expected_nano }) => ({
      account_id,
      kind,
      recorded: recorded_nano === null ? null : printUsd(recorded_nano),
      expected: printUsd(expected_nano),
    })),
  }
}

const clean = {
  checked_at: "2026-11-21T09:40:00.000Z",
  accounts: 3,
  open_reservations: 12,
  violations: [],
}

const auditing = operation({
  operationId: "audit",
  tag: "Books",
  summary: "Audit the books",
  description:
    "Recomputes every account from the journal in one snapshot: `balance` is the credits less the charges, `held` the open reservations. Reads the whole journal, so ask for it now and then, not every second.",
  credentials: ["adminToken"],
  answers: {
    200: {
      description: "What was found; `violations` is empty when the books agree.",
      json: {
        schema: AuditBody,
        examples: {
          clean,
          violated: {
            ...clean,
            violations: [
              { account_id: accountExample.id, kind: "balance", recorded: "9.9871", expected: "9.987" },
            ],
          },
        },
      },
    },
  },
  errors: ERRORS,
})
