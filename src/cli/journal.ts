import { CheckedSealBody, MonthsBody } from "../wire/ledger-checks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { moment } from "./moment.ts"
import { count, table, usd } from "./screen.ts"

/** `tollgate journal`: the months of the journal and their seals, and whether sealed months are as they were sealed (D71). */
export const journal = adminCommand({
  summary: "List the months of the journal and their seals",
  details: "With --verify the exit code is 1 if a sealed month is not as it was sealed.",
  args: {
    verify: { type: "boolean", description: "compute the hashes of all sealed months again, and compare" },
  },
  examples: [
    ["tollgate journal", "the months, latest first"],
    ["tollgate journal --verify", "reads every entry of every sealed month"],
    ["tollgate journal --json", "as JSON, for scripts"],
  ],
  async run(given, context) {
    const { data } = await context.client.get("/journal", MonthsBody)
    const months: Listed[] = []
    for (const { month, seal } of data) {
      const differed = seal !== null && given.has("verify") ? await differing(context, month) : null
      months.push({ month, seal, differed })
    }
    context.show(given.has("verify") ? { data: months } : { data }, () => monthsTable(months, context))
    const wrong = months.filter(({ differed }) => differed !== null && differed > 0)
    if (wrong.length > 0)
      throw new CliError(`not as they were sealed: ${wrong.map(({ month }) => month).join(", ")}`)
  },
})

/** How many hours of a sealed month differ from its seal. */
async function differing({ client, remark }: AdminContext, month: string): Promise<number> {
  let [hours, differed] = [0, 0]
  for (let from: string | null | undefined; from !== null; ) {
    const asked = from === undefined ? { month } : { month, from }
    const found = await client.post("/journal/check", asked, CheckedSealBody)
    hours += 1
    if (!found.matches) differed += 1
    from = found.next
  }
  remark(`${month}: ${count(hours)} hours checked, ${count(differed)} differ.`)
  return differed
}

type Listed = MonthsBody["data"][number] & { readonly differed: number | null }

function monthsTable(months: readonly Listed[], { screen }: AdminContext): string {
  const rows = months.map(({ month, seal, differed }) =>
    seal === null
      ? [month, "", "", "", "", ""]
      : [month, moment(seal.sealed_at), count(seal.calls), usd(seal.charge), seal.hash, verdict(differed)],
  )
  const columns = [
    { title: "MONTH" },
    { title: "SEALED" },
    { title: "CALLS", align: "right" },
    { title: "CHARGE", align: "point" },
    { title: "SHA-256", spare: 1 },
    { title: "" },
  ] as const
  return table(columns, rows, screen.width, screen.paint)
}

function verdict(differed: number | null): string {
  if (differed === null) return ""
  return differed === 0 ? "unchanged" : "CHANGED"
}
