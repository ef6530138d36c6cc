import { Elysia } from "elysia"
import { ledgerTime } from "../../id.ts"
import type { TrialBalance } from "../../ledger/reports/statement.ts"
import { checkPast } from "../../wire/admin-query.ts"
import { bodyOf } from "../../wire/record.ts"
import {
  StatementBody,
  StatementPath,
  StatementQuery,
  TrialBalanceBody,
  TrialBalanceQuery,
} from "../../wire/statement.ts"
import { answer, found } from "../reference/operation.ts"
import { NO_ACCOUNT, ofAccounts, ofLedger } from "../reference/routes.ts"
import { begunPart, statementBody, sumOf } from "../statements.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/statements/{month}` and `/admin/trial-balance` (D106). */
export function statementRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-statements" })
    .get(
      "/accounts/:id/statements/:month",
      async ({ params: { id, month } }) => {
        const span = begunPart(month)
        const account = found(await ledger.getAccount(id), NO_ACCOUNT)
        return statementBody(account, span, found(await ledger.statement(id, span), NO_ACCOUNT))
      },
      ofAccounts({
        params: StatementPath,
        query: StatementQuery,
        response: { 200: answer("The statement.", StatementBody) },
        operationId: "getStatement",
        summary: "Get a monthly statement",
        description:
          "Shows the balance of an account at the start and at the end of a month of UTC, and everything between them: credits by kind, charges by model, what expired and was voided. It adds up exactly. For a month that is not over, it reaches to now.",
        errors: [NO_ACCOUNT],
      }),
    )
    .get(
      "/trial-balance",
      async ({ query }) => {
        const now = ledgerTime()
        const { at = now } = query
        checkPast(at, now)
        return trialBalanceBody(at, await ledger.trialBalance(at))
      },
      ofLedger({
        query: TrialBalanceQuery,
        response: {
          200: answer("The trial balance.", TrialBalanceBody, {
            balance: {
              data: [
                ...["payment", "promotion"].map((line) => ({ line, debit: "10", credit: "0" })),
                ...["charges", "expired", "voided", "balances"].map((line) => ({
                  line,
                  debit: "0",
                  credit: "5",
                })),
                { line: "debts", debit: "0", credit: "0" },
              ],
              debit: "20",
              credit: "20",
              balance: "5",
            },
          }),
        },
        operationId: "getTrialBalance",
        summary: "Get the trial balance",
        description:
          "Shows the sum of all balances at a time, and all money that came and went before it. Balances are computed back from the current ones; what came and went is summed from the beginning. Both sides are equal if the ledger matches its journal.",
        invalid: "at",
      }),
    )
}

/**
 * The lines of a trial balance. Money that came in is a debit. Money that went out, or is left in the balances, is a
 * credit. An amount below 0 is on the other side.
 */
function trialBalanceBody(at: Date, trial: TrialBalance): TrialBalanceBody {
  const amounts: readonly (readonly [line: string, nano: bigint])[] = [
    ...trial.credits.map(({ kind, amount_nano }) => [kind, amount_nano] as const),
    ["charges", -trial.charged_nano],
    ["expired", -trial.expired_nano],
    ["voided", -trial.voided_nano],
    ["balances", -trial.positive_nano],
    ["debts", -trial.negative_nano],
  ]
  const lines = amounts.map(([line, nano]) =>
    nano > 0n ? { line, debit_nano: nano, credit_nano: 0n } : { line, debit_nano: 0n, credit_nano: -nano },
  )
  const debit_nano = sumOf(lines.map((line) => line.debit_nano))
  const credit_nano = sumOf(lines.map((line) => line.credit_nano))
  return bodyOf(TrialBalanceBody, {
    ...trial,
    at,
    data: lines.map((line) => bodyOf(TrialBalanceBody.properties.data.items, line)),
    debit_nano,
    credit_nano,
    balance_nano: trial.positive_nano + trial.negative_nano,
    difference_nano: debit_nano - credit_nano,
  })
}
