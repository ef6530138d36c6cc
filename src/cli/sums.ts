import { CheckedSumsBody } from "../wire/ledger-checks.ts"
import { adminCommand } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { count } from "./screen.ts"

/** `tollgate sums`: compares the sums of hours and days with the journal's entries, and replaces what differs (D72). */
export const sums = adminCommand({
  summary: "Check the sums that usage and statistics read against the journal",
  details: "Checks every closed day and replaces sums that differ. The exit code is 1 if any sum differed.",
  words: {},
  examples: [
    ["tollgate sums", "one line if nothing differs"],
    ["tollgate sums --json", "as JSON, for scripts"],
  ],
  async run(_given, context) {
    const total = { days: 0, sums: 0, differed: 0 }
    for (let day: string | null | undefined; day !== null; ) {
      const found = await context.client.post(
        "/sums/check",
        day === undefined ? {} : { day },
        CheckedSumsBody,
      )
      if (found.day !== null) total.days += 1
      total.sums += found.sums
      total.differed += found.differed
      if (found.differed > 0)
        context.remark(`${found.day}: ${count(found.differed)} sums differed and were replaced.`)
      day = found.next
    }
    context.show(total, () =>
      total.days === 0
        ? "There are no sums yet: the first day has not ended."
        : `Checked ${count(total.sums)} sums of ${count(total.days)} days.`,
    )
    if (total.differed > 0) throw new CliError(`${count(total.differed)} sums differed from the journal`)
  },
})
