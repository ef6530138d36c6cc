import { Elysia } from "elysia"
import { checkDay } from "../../ledger/reports/sum-hours.ts"
import { CheckedSumsBody, SumsCheck } from "../../wire/sums.ts"
import { BODY_ERRORS, ERRORS, fieldFault } from "../docs/examples.ts"
import { ask } from "../ledger-deadline.ts"
import { answer, operation, shown } from "../openapi.ts"
import type { Operators } from "./operators.ts"

/** `/admin/sums`: whether the sums of hours and days are those of the journal's entries (D72). */
export function sumsRoutes(operators: Operators) {
  return new Elysia({ name: "admin-sums" }).post(
    "/sums/check",
    async ({ body: { day = null } }) => {
      const found = await ask(
        { deadline_ms: operators.audit_deadline_ms },
        checkDay(operators.shards[0].database, day),
      )
      if (found === null) return { day: null, sums: 0, differed: 0, next: null }
      const { sums, differed, next } = found
      return { day: dayOf(found.day), sums, differed, next: next === null ? null : dayOf(next) }
    },
    checking,
  )
}

const dayOf = (moment: Date) => moment.toISOString().slice(0, 10)

const checking = {
  body: shown(SumsCheck, { first: {}, day: { day: "2026-11-20" } }),
  response: {
    200: answer("What was found.", CheckedSumsBody, {
      replaced: { day: "2026-11-20", sums: 1, differed: 1, next: null },
      unsummed: { day: null, sums: 0, differed: 0, next: null },
    }),
  },
  detail: operation({
    operationId: "checkSums",
    tag: "Ledger",
    summary: "Check the sums of a day",
    description:
      "Sums up the journal's entries of one UTC day again, by default the first day that has sums, and replaces the sums that differ. Usage, statistics and past balances read these sums. Follow `next` to check all days. A busy day takes some seconds.",
    credentials: ["adminToken"],
    errors: [...BODY_ERRORS, fieldFault("day", "a day such as 2026-11-21"), ...ERRORS],
  }),
}
