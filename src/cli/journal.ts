import { CheckedSealBody, MonthsBody } from "../wire/ledger-checks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CliError, UsageError } from "./cli-error.ts"
import { drop, dump } from "./dump.ts"
import { moment } from "./moment.ts"
import { type Column, count, table, usd } from "./screen.ts"

/** `tollgate journal`: the months of the journal and their seals, and whether sealed months are as they were sealed (D71). */
export const journal = adminCommand({
  summary: "List, verify and dump the months of the journal",
  details:
    "With --verify the exit code is 1 if a sealed month is not as it was sealed. A dump is compared with the seal before it counts.",
  words: {
    "--verify": "compute the hashes of all sealed months again, and compare",
    "--dump <MONTH>": "write the entries of a sealed month to a file",
    "--to <FILE>": "the new file of --dump, compressed with gzip",
    "--drop <MONTH>": "drop the entries of a detached month that was dumped",
    "--shard <NAME>": "the shard of --dump and --drop, if there are several",
    "--archive-note <TEXT>": "where the dump is kept (default: the path of the file)",
  },
  examples: [
    ["tollgate journal", "the months, latest first"],
    ["tollgate journal --verify", "reads every entry of every sealed month"],
    [
      'tollgate journal --dump 2024-10 --to 2024-10.gz --archive-note "s3://backups/2024-10.gz"',
      "writes a file and compares it with the seal",
    ],
    ["tollgate journal --drop 2024-10", "frees the space of a month that was dumped"],
    ["tollgate journal --json", "as JSON, for scripts"],
  ],
  async run({ verify, dump: dumped, to: file, drop: dropped, shard, "archive-note": note }, context) {
    const { data } = await context.client.get("/journal", MonthsBody)
    if ((dumped === undefined) !== (file === undefined))
      throw new UsageError("--dump MONTH and --to FILE belong together")
    if (dumped !== undefined && file !== undefined)
      return await dump(context, monthOf(data, dumped, shard), file, note)
    if (dropped !== undefined) return await drop(context, monthOf(data, dropped, shard), note)
    const months: Listed[] = []
    for (const one of data) {
      const is_checked = one.seal !== null && one.dropped_at === null && verify
      months.push({ ...one, differed: is_checked ? await differing(context, one) : null })
    }
    const columns: readonly Column<Listed>[] = [
      ...shardColumn(data),
      { title: "MONTH", of: ({ month }) => month },
      { title: "SEALED", of: ({ seal }) => (seal === null ? "" : moment(seal.sealed_at)) },
      { title: "CALLS", of: ({ seal }) => (seal === null ? "" : count(seal.calls)), as: "number" },
      { title: "CHARGE", of: ({ seal }) => (seal === null ? "" : usd(seal.charge)), as: "point" },
      { title: "SHA-256", of: ({ seal }) => seal?.hash ?? "", spare: 1 },
      { title: "", of: (one) => (one.seal === null ? "" : stateOf(one)) },
    ]
    context.show(verify ? { data: months } : { data }, () => table(columns, months, context.screen))
    const wrong = months.filter(({ differed }) => differed !== null && differed > 0)
    if (wrong.length > 0) throw new CliError(`not as they were sealed: ${wrong.map(nameOf).join(", ")}`)
  },
})

function monthOf(data: MonthsBody["data"], name: string, shard: string | undefined): Month {
  const found = data.filter((one) => one.month === name && (shard === undefined || one.shard === shard))
  const [only, ...others] = found
  if (only === undefined) throw new CliError(`there is no month ${name} in the journal`)
  if (others.length === 0) return only
  const names = found.map((one) => one.shard).join(", ")
  throw new UsageError(`--shard is required, because several shards have the month: ${names}`)
}

/** How many hours of a sealed month differ from its seal. */
async function differing({ client, remark }: AdminContext, listed: Month): Promise<number> {
  const { month, shard } = listed
  let [hours, differed] = [0, 0]
  for (let from: string | null | undefined; from !== null; ) {
    const asked = { month, ...(shard !== undefined && { shard }), ...(from !== undefined && { from }) }
    const found = await client.post("/journal/check", asked, CheckedSealBody)
    hours += 1
    if (!found.matches) differed += 1
    from = found.next
  }
  remark(`${nameOf(listed)}: ${count(hours)} hours checked, ${count(differed)} differ.`)
  return differed
}

type Month = MonthsBody["data"][number]
type Listed = Month & { readonly differed: number | null }

/** A month; with its shard, if there are several (D74). */
function nameOf({ month, shard }: Month): string {
  return shard === undefined ? month : `${month} of ${shard}`
}

/** A column for the shard, if there are several (D74). */
export function shardColumn<Row extends { readonly shard?: string | undefined }>(
  rows: readonly Row[],
): readonly Column<Row>[] {
  const is_several = rows.some(({ shard }) => shard !== undefined)
  return is_several ? [{ title: "SHARD", of: ({ shard }) => shard ?? "" }] : []
}

function stateOf({ differed, detached_at, dropped_at, archive }: Listed): string {
  if (differed !== null) return differed === 0 ? "unchanged" : "CHANGED"
  const state = dropped_at === null ? (detached_at === null ? "" : "detached") : "dropped"
  return [state, archive].filter((word) => word !== "" && word !== null).join(": ")
}
