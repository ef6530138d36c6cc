import { type AuditBody, AuditLine } from "../wire/ledger-checks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { shardColumn } from "./journal.ts"
import { moment } from "./moment.ts"
import { type Column, count, type Screen, table, usd } from "./screen.ts"

/** How often the progress is shown. */
const REMARK_MS = 5_000

/** `tollgate audit`: checks the ledger against its journal. */
export const audit = adminCommand({
  summary: "Verify every balance, hold, spending limit and charge against the journal",
  details:
    "Uses 10 % of the time, so that calls are not slowed down. The exit code is 1 if anything does not match.",
  words: {
    "--full": "read the entries of sealed months too, instead of their seals",
    "--fast": "work all the time: for a ledger without calls",
  },
  examples: [
    ["tollgate audit", "one line if everything matches"],
    ["tollgate audit --full --fast", "reads every entry, as fast as the database can"],
    ["tollgate audit --json", "as JSON, for scripts"],
  ],
  async run({ full = false, fast = false }, context) {
    const found = await followed(context, `full=${full}&share=${fast ? 100 : 10}`)
    context.show(found, () => auditText(found, context.screen))
    const { length } = found.violations
    if (length > 0)
      throw new CliError(
        `the ledger does not match its journal in ${length === 1 ? "1 place" : `${length} places`}`,
      )
  },
})

/** Follows an audit to its end, and says every few seconds how far it has come. */
async function followed({ client, remark }: AdminContext, query: string): Promise<AuditBody> {
  let said_ms = performance.now()
  for await (const line of client.lines(`/audit/progress?${query}`, AuditLine)) {
    if ("audit" in line) return line.audit
    if ("error" in line) throw new CliError(line.error.message)
    if (performance.now() - said_ms < REMARK_MS) continue
    said_ms = performance.now()
    const where = line.shard === undefined ? "" : `${line.shard}: `
    remark(
      line.accounts > 0
        ? `${where}Compared ${count(line.accounts)} accounts.`
        : `${where}${line.month}: read ${count(line.calls)} calls so far.`,
    )
  }
  throw new CliError("the audit was cut off: run it again")
}

function auditText({ checked_at, accounts, open_holds, violations }: AuditBody, screen: Screen): string {
  const looked = `${count(accounts)} accounts, ${count(open_holds)} open holds, at ${moment(checked_at)}`
  if (violations.length === 0)
    return `${screen.paint("green", "✓")} The ledger matches its journal: ${looked}.`
  const columns: readonly Column<AuditBody["violations"][number]>[] = [
    ...shardColumn(violations),
    { title: "ACCOUNT", of: ({ account_id }) => account_id },
    { title: "KIND", of: ({ kind }) => kind },
    { title: "KEY OR CALL", of: ({ id }) => id ?? "" },
    {
      title: "RECORDED",
      of: ({ recorded }) => (recorded === null ? "no account" : usd(recorded)),
      as: "number",
    },
    {
      title: "EXPECTED",
      of: ({ expected }) => (expected === null ? "no entry" : usd(expected)),
      as: "number",
    },
  ]
  return `${table(columns, violations, screen)}\n\n${screen.paint("red", "✗")} Checked ${looked}.`
}
