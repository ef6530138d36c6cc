import { Elysia } from "elysia"
import { type Audit, audit } from "../../ledger/journal/audit.ts"
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
      const found = await ask({ deadline_ms: operators.audit_deadline_ms }, audit(operators.database))
      const unheld = operators.unheld?.() ?? []
      const audited = { ...found, violations: [...found.violations, ...unheld] }
      operators.onAudit?.(audited)
      return answer(auditBody(audited))
    },
    { detail: auditing },
  )
}

function auditBody({ checked_at, accounts, open_holds, violations }: Audit): AuditBody {
  return {
    checked_at: printTime(checked_at),
    accounts,
    open_reservations: open_holds,
    violations: violations.map(({ account_id, kind, id, recorded_nano, expected_nano }) => ({
      account_id,
      kind,
      id,
      recorded: recorded_nano === null ? null : printUsd(recorded_nano),
      expected: expected_nano === null ? null : printUsd(expected_nano),
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
    "Recomputes from the journal, in one snapshot: every account's balance and what is held on it, what every spending limit has counted, and the charge of every call from its tokens and prices. Names also the settlements of this gateway that have no hold and wait in its spool. Reads the whole journal, so ask for it now and then, not every second.",
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
              {
                account_id: accountExample.id,
                kind: "balance",
                id: null,
                recorded: "9.9871",
                expected: "9.987",
              },
            ],
          },
        },
      },
    },
  },
  errors: ERRORS,
})
