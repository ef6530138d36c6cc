import { AuditBody } from "../wire/admin.ts"
import { count, usd } from "./amount.ts"
import { Complaint } from "./complaint.ts"
import { type Desk, deskLeaf } from "./desk.ts"
import { moment } from "./moment.ts"
import { table } from "./table.ts"

/** `tollgate audit`: whether the books agree with their journal. */
export const audit = deskLeaf({
  tells: "Recompute every balance, hold, spending limit and charge from the journal",
  details: "Exit code 1 when the books disagree with it.",
  args: {},
  examples: [
    ["tollgate audit", "one line when all is well"],
    ["tollgate audit --json", "for a script; the exit code tells too"],
  ],
  async run(_given, desk) {
    const found = await desk.office.get("/audit", AuditBody)
    desk.show(found, () => auditText(found, desk))
    const { length } = found.violations
    if (length > 0)
      throw new Complaint(
        `the books disagree with their journal in ${length === 1 ? "one place" : `${length} places`}`,
      )
  },
})

function auditText(
  { checked_at, accounts, open_reservations, violations }: AuditBody,
  { screen }: Desk,
): string {
  const looked = `${count(accounts)} accounts, ${count(open_reservations)} open reservations, at ${moment(checked_at)}`
  if (violations.length === 0)
    return `${screen.paint("green", "✓")} The books agree with their journal: ${looked}.`
  const rows = violations.map(({ account_id, kind, id, recorded, expected }) => [
    account_id,
    kind,
    id ?? "",
    recorded === null ? "no account" : usd(recorded),
    expected === null ? "no entry" : usd(expected),
  ])
  const columns = [
    { title: "ACCOUNT" },
    { title: "WHAT" },
    { title: "KEY OR CALL" },
    { title: "RECORDED", align: "right" },
    { title: "EXPECTED", align: "right" },
  ] as const
  return `${table(columns, rows, screen.width, screen.paint)}\n\n${screen.paint("red", "✗")} Looked at ${looked}.`
}
