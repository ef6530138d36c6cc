import { ledgerTime } from "../id.ts"
import type { AccountStatement } from "../ledger/reports/statement.ts"
import type { Gateway } from "../service/gateway.ts"
import { query as queryOf } from "../wire/parameter.ts"
import { bodyOf } from "../wire/record.ts"
import {
  OwnStatementPath,
  StatedCharges,
  StatedCredits,
  StatedMonth,
  StatementBody,
  StatementQuery,
  statementRows,
} from "../wire/statement.ts"
import { statementHtml } from "../wire/statement-html.ts"
import { monthsSince, printTime } from "../wire/time.ts"
import { alsoAs } from "./list-formats.ts"
import { BUSY_REPORTS, readerRoutes, tooManySums } from "./receipts.ts"
import { answer, errorOf, notFound, page } from "./reference/operation.ts"
import { ofHolders } from "./reference/routes.ts"

/** `/v1/statements` and `/v1/statements/{month}`: the statements of the account of a key (D104, D106). */
export function ownStatements(gateway: Gateway) {
  const { reports } = gateway
  return readerRoutes(gateway, "own-statements")
    .get(
      "/v1/statements",
      async ({ reader }) => {
        const { account } = await reports.holder(reader)
        const months = monthsSince(account.created_at, ledgerTime())
        return { data: months.map((month, at) => ({ month, is_final: at > 0 })), next: null }
      },
      ofHolders({
        query: queryOf({}),
        response: {
          200: page("months", StatedMonth),
        },
        operationId: "listOwnStatements",
        summary: "List the months with a statement",
        description: `Lists the months of UTC since the account was made, the newest first.

${whose}`,
      }),
    )
    .get(
      "/v1/statements/:month",
      async ({ reader, params: { month } }) => {
        const span = begunPart(month)
        const { account } = await reports.holder(reader)
        const found = await reports.statement(account.id, span).catch(tooManySums)
        return statementBody(account, span, found)
      },
      ofHolders({
        params: OwnStatementPath,
        query: StatementQuery,
        response: { 200: answer("The statement.", StatementBody) },
        operationId: "getOwnStatement",
        summary: "Get a monthly statement of the account",
        description: `Shows the balance at the start and at the end of a month of UTC, and everything between them: credits by kind, charges by model, what expired
and was voided. It adds up exactly, and is the statement that the operator sees.

${whose}`,
        errors: [BUSY_REPORTS, NO_MONTH],
      }),
    )
}

/** The part of a month that has begun, and whether that is all of it. Throws `not_found` if none has. */
export function begunPart({ from, to }: { readonly from: Date; readonly to: Date }) {
  const now = ledgerTime()
  if (from > now) throw errorOf(NO_MONTH)
  const is_final = to <= now
  return { from, to: is_final ? to : now, is_final }
}

const NO_MONTH = notFound("This month has not begun.")

export const sumOf = (amounts: readonly bigint[]) => amounts.reduce((sum, nano) => sum + nano, 0n)

/** A statement, which is also a page that can be printed, and rows. */
export function statementBody(
  { id, name }: { readonly id: string; readonly name: string },
  span: ReturnType<typeof begunPart>,
  { credits, charges, ...sums }: AccountStatement,
): StatementBody {
  const statement = bodyOf(StatementBody, {
    ...span,
    ...sums,
    account_id: id,
    account_name: name,
    month: printTime(span.from).slice(0, "2026-11".length),
    credits: credits.map((line) => bodyOf(StatedCredits, line)),
    charges: charges.map((line) => bodyOf(StatedCharges, line)),
    credited_nano: sumOf(credits.map(({ amount_nano }) => amount_nano)),
    charged_nano: sumOf(charges.map(({ charge_nano }) => charge_nano)),
  })
  return alsoAs(statement, {
    rows: () => statementRows(statement),
    html: () => statementHtml(statement),
  })
}

const whose =
  "Any key of the account that is not revoked or expired can read it. No statement shows a price multiplier, an upstream or a cost of the operator."
