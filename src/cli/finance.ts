import { writeFile } from "node:fs/promises"
import {
  StatedCharges,
  StatedCredits,
  StatementBody,
  statementRows,
  TrialBalanceBody,
} from "../wire/statement.ts"
import { statementHtml } from "../wire/statement-html.ts"
import { ACCOUNT, accountId } from "./accounts.ts"
import { adminCommand } from "./admin-command.ts"
import { CliError, reasonOf } from "./cli-error.ts"
import { moment } from "./moment.ts"
import { card, columnsOf, linesOf, type Screen, table } from "./screen.ts"
import { timeOf } from "./typed-words.ts"

const creditColumn = columnsOf(StatedCredits)
const chargeColumn = columnsOf(StatedCharges)
const trialColumn = columnsOf(TrialBalanceBody.properties.data.items)

/** `tollgate statement`: what an account had, got and paid in a month (D106). */
export const statement = adminCommand({
  is_list: true,
  summary: "Show the monthly statement of an account",
  details: "Months are of UTC. A month that is not over reaches to now.",
  words: {
    ...ACCOUNT,
    "<month>": "the month, such as 2026-11",
    "--html <FILE>": "write a page that can be printed to this file",
  },
  examples: {
    "tollgate statement Acme 2026-11": "opening balance, credits, charges, closing balance",
    "tollgate statement Acme 2026-11 --html statement.html": "a page to print or to send",
    "tollgate statement Acme 2026-11 --csv": "its lines, which add up to the closing balance",
    "tollgate statement Acme 2026-11 --json": "as JSON, for scripts",
  },
  async run({ account, month, html }, context) {
    const id = await accountId(context, account)
    const found = await context.client.get(
      `/accounts/${id}/statements/${encodeURIComponent(month)}`,
      StatementBody,
    )
    if (html !== undefined) await write(html, statementHtml(found))
    context.show(found, () => statementText(found, context.screen), statementRows(found))
    if (html !== undefined) context.remark(`Wrote ${html}.`)
  },
})

async function write(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text)
  } catch (error) {
    throw new CliError(`${file} cannot be written: ${reasonOf(error)}`)
  }
}

function statementText(found: StatementBody, screen: Screen): string {
  const line = linesOf(StatementBody, found)
  const lines = card(
    [
      ...line.each("account_id", "account_name"),
      line("month", found.is_final ? found.month : `${found.month}, until ${moment(found.to)}`),
      ...line.each("opening", "credited", "charged", "expired", "voided", "closing"),
    ],
    screen,
  )
  const credits = [creditColumn("kind"), creditColumn("credits"), creditColumn("amount")]
  const charges = [
    chargeColumn("model", { least: 8 }),
    chargeColumn("calls"),
    chargeColumn("prompt_tokens", { spare: 2 }),
    chargeColumn("cached_tokens", { spare: 3 }),
    chargeColumn("completion_tokens", { spare: 1 }),
    chargeColumn("charge"),
  ]
  return [
    lines,
    ...(found.credits.length === 0 ? [] : [table(credits, found.credits, screen)]),
    ...(found.charges.length === 0 ? [] : [table(charges, found.charges, screen)]),
  ].join("\n\n")
}

/** `tollgate trial-balance`: all balances at a moment, and what they came from (D106). */
export const trialBalance = adminCommand({
  is_list: true,
  summary: "Show the sum of all balances at a time, with debits and credits",
  details: "The exit code is 1 if debits and credits are not equal.",
  words: { "--at <TIME>": "the time: 2026-12-01, an RFC 3339 time, or 24h (ago); default: now" },
  examples: {
    "tollgate trial-balance": "now",
    "tollgate trial-balance --at 2026-11-01": "at the end of October",
  },
  async run({ at }, context) {
    const query = { at: at && timeOf("--at", at) }
    const found = await context.client.get("/trial-balance", TrialBalanceBody, query)
    context.showTable(found, {
      rows: [...found.data, { line: "sum", debit: found.debit, credit: found.credit }],
      columns: [trialColumn("line"), trialColumn("debit"), trialColumn("credit")],
      empty: "",
    })
    context.remark(`${found.accounts} accounts at ${moment(found.at)}; open calls held ${found.held} USD.`)
    if (found.difference !== "0")
      throw new CliError('debits and credits differ: "tollgate audit" finds where')
  },
})
