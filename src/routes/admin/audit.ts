import { Elysia } from "elysia"
import { type Audit, audit } from "../../ledger/journal/audit.ts"
import { printUsd } from "../../money.ts"
import { AuditBody } from "../../wire/audit.ts"
import { printTime } from "../../wire/time.ts"
import { accountExample, ERRORS } from "../docs/examples.ts"
import { ask } from "../ledger-deadline.ts"
import { answer, operation } from "../openapi.ts"
import type { Operators } from "./operators.ts"

/** `/admin/audit`: whether the balances agree with the journal. */
export function auditRoutes(operators: Operators) {
  return new Elysia({ name: "admin-audit" }).get(
    "/audit",
    async () => {
      const found = await ask(
        { deadline_ms: operators.audit_deadline_ms },
        audit(operators.shards[0].database),
      )
      const unheld = (await operators.unheld?.()) ?? []
      const audited = { ...found, violations: [...found.violations, ...unheld] }
      operators.onAudit?.(audited)
      return auditBody(audited)
    },
    auditing,
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

const auditing = {
  response: {
    200: answer("The result. `violations` is empty if the ledger is consistent.", AuditBody, {
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
    }),
  },
  detail: operation({
    operationId: "audit",
    tag: "Ledger",
    summary: "Audit the ledger",
    description:
      "Recomputes from the journal, in one snapshot: the balance and the held amount of every account, what every spending limit has counted, and the charge of every call from its tokens and prices. It reads the whole journal, so run it occasionally, not every second.",
    credentials: ["adminToken"],
    errors: ERRORS,
  }),
}
