import { AuditBody } from "../wire/ledger-checks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { moment } from "./moment.ts"
import { count, table, usd } from "./screen.ts"

/** `tollgate audit`: checks the ledger against its journal. */
export const audit = adminCommand({
  summary: "Verify every balance, hold, spending limit and charge against the journal",
  details: "The exit code is 1 if anything does not match.",
  args: {},
  examples: [
    ["tollgate audit", "one line if everything matches"],
    ["tollgate audit --json", "as JSON, for scripts"],
  ],
  async run(_given, context) {
    const found = await context.client.get("/audit", AuditBody)
    context.show(found, () => auditText(found, context))
    const { length } = found.violations
    if (length > 0)
      throw new CliError(
        `the ledger does not match its journal in ${length === 1 ? "1 place" : `${length} places`}`,
      )
  },
})

function auditText(
  { checked_at, accounts, open_holds, violations }: AuditBody,
  { screen }: AdminContext,
): string {
  const looked = `${count(accounts)} accounts, ${count(open_holds)} open holds, at ${moment(checked_at)}`
  if (violations.length === 0)
    return `${screen.paint("green", "✓")} The ledger matches its journal: ${looked}.`
  const rows = violations.map(({ account_id, kind, id, recorded, expected }) => [
    account_id,
    kind,
    id ?? "",
    recorded === null ? "no account" : usd(recorded),
    expected === null ? "no entry" : usd(expected),
  ])
  const columns = [
    { title: "ACCOUNT" },
    { title: "KIND" },
    { title: "KEY OR CALL" },
    { title: "RECORDED", align: "right" },
    { title: "EXPECTED", align: "right" },
  ] as const
  return `${table(columns, rows, screen.width, screen.paint)}\n\n${screen.paint("red", "✗")} Checked ${looked}.`
}
