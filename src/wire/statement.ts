import { type Static, Type } from "@sinclair/typebox"
import { Count, Id, Money, Time } from "./admin.ts"
import { recordedKinds } from "./credits.ts"
import { choice, resource, titled } from "./field.ts"
import { id, moment, month, query, word } from "./parameter.ts"

/** Statements of accounts, and the trial balance (D106). */

export const StatementPath = Type.Object({
  id: id("The account's id."),
  month: month("A month of UTC that has begun, such as `2026-11`."),
})

export const OwnStatementPath = Type.Object({ month: StatementPath.properties.month })

const STATEMENT_FORMATS = ["json", "html", "csv", "ndjson"] as const

/** Read by the route itself. */
export const StatementQuery = query({
  format: word(
    STATEMENT_FORMATS,
    "`html`: a page that can be printed. `csv` and `ndjson`: its lines, whose amounts add up to the closing balance. Default: by `Accept`.",
    { default: "json" },
  ),
})

export const StatedMonth = resource({
  month: Type.String({ pattern: "^\\d{4}-\\d{2}$" }),
  is_final: Type.Boolean({ description: "Whether the month is over." }),
})
export type StatedMonth = Static<typeof StatedMonth>

export const TrialBalanceQuery = query({
  at: moment(
    "The time, by the clock of the ledger: an RFC 3339 time, or a day, which means midnight UTC. Default: now.",
    {
      examples: ["2026-12-01"],
    },
  ),
})

const moneyOf = (title: string, description: string) => titled(title, Type.String({ ...Money, description }))

export const StatedCredits = resource({
  kind: choice(recordedKinds),
  credits: Count,
  amount: Money,
})

export const StatedCharges = resource({
  model: Type.String(),
  calls: Type.Integer({ minimum: 0 }),
  prompt_tokens: titled("Prompt", Type.Integer()),
  cached_tokens: titled("Cached", Type.Integer()),
  completion_tokens: titled("Output", Type.Integer()),
  charge: Money,
})

export const StatementBody = resource({
  account_id: titled("Account", Id),
  account_name: titled("Name", Type.String()),
  month: Type.String({ pattern: "^\\d{4}-\\d{2}$" }),
  from: Time,
  to: titled("To", Type.String({ ...Time }), "The end of the month, or now if the month is not over."),
  is_final: Type.Boolean({
    description: "Whether the month is over, so that the statement no longer changes.",
  }),
  opening: moneyOf("Opening balance", "The balance at `from`."),
  credits: Type.Array(StatedCredits, {
    description:
      "Credits by kind; a credit that begins later counts at its start. `refund` gives money back, `correction` can be negative.",
  }),
  charges: Type.Array(StatedCharges, {
    description:
      "Charges of the calls that ended, by model, the highest first. A correction of an earlier charge counts with its difference.",
  }),
  credited: moneyOf("Credits", "The sum of `credits`."),
  charged: moneyOf("Charges", "The sum of `charges`."),
  expired: moneyOf("Expired", "Credit that expired."),
  voided: moneyOf("Voided", "Credit that was taken back."),
  closing: moneyOf(
    "Closing balance",
    "The balance at `to`: `opening` + `credited` - `charged` - `expired` - `voided`, exactly.",
  ),
})
export type StatementBody = Static<typeof StatementBody>

/** The lines of a statement. The amounts of all but the last add up to that of the last, the closing balance. */
export function statementRows(statement: StatementBody): readonly object[] {
  const { account_id, account_name, month, opening, credits, charges, expired, voided, closing } = statement
  const row = (line: string, of: string | null, amount: string, counts: object = {}) => ({
    account_id,
    account_name,
    month,
    line,
    of,
    amount,
    currency: "USD",
    ...counts,
  })
  return [
    row("opening", null, opening),
    ...credits.map(({ kind, amount, credits: count }) => row("credit", kind, amount, { count })),
    ...charges.map(({ model, charge, calls, ...tokens }) =>
      row("charge", model, less(charge), { count: calls, ...tokens }),
    ),
    row("expired", null, less(expired)),
    row("voided", null, less(voided)),
    row("closing", null, closing),
  ]
}

/** An amount to be subtracted. */
export const less = (amount: string) =>
  amount.startsWith("-") ? amount.slice(1) : amount === "0" ? "0" : `-${amount}`

const TrialLine = resource({
  line: Type.String(),
  debit: Money,
  credit: Money,
})

export const TrialBalanceBody = resource({
  at: Time,
  accounts: Count,
  held: moneyOf("Held", "The sum of what open calls held."),
  data: Type.Array(TrialLine, {
    description:
      "Debits: credits by kind, and `debts`, the sum of the balances below 0. Credits: what was charged, has expired or was voided, and `balances`, the sum of the balances above 0. All from the beginning of the ledger to `at`.",
  }),
  debit: moneyOf("Debits", "The sum of the debits."),
  credit: moneyOf("Credits", "The sum of the credits."),
  balance: moneyOf("Balance", "The sum of all balances: what the seller owes to its customers."),
  difference: moneyOf("Difference", "Debits less credits: 0 in a ledger that matches its journal."),
})
export type TrialBalanceBody = Static<typeof TrialBalanceBody>
