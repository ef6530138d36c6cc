import { CheckedSealBody, MonthsBody } from "../wire/ledger-checks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { CliError, UsageError } from "./cli-error.ts"
import { drop, dump } from "./dump.ts"
import { moment } from "./moment.ts"
import { count, table, usd } from "./screen.ts"

/** `tollgate journal`: the months of the journal and their seals, and whether sealed months are as they were sealed (D71). */
export const journal = adminCommand({
  summary: "List, verify and dump the months of the journal",
  details:
    "With --verify the exit code is 1 if a sealed month is not as it was sealed. A dump is compared with the seal before it counts.",
  args: {
    verify: { type: "boolean", description: "compute the hashes of all sealed months again, and compare" },
    dump: {
      type: "string",
      valueHint: "MONTH",
      description: "write the entries of a sealed month to a file",
    },
    to: { type: "string", valueHint: "FILE", description: "the new file of --dump, compressed with gzip" },
    drop: {
      type: "string",
      valueHint: "MONTH",
      description: "drop the entries of a detached month that was dumped",
    },
    shard: {
      type: "string",
      valueHint: "NAME",
      description: "the shard of --dump and --drop, if there are several",
    },
    "archive-note": {
      type: "string",
      valueHint: "TEXT",
      description: "where the dump is kept (default: the path of the file)",
    },
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
  async run(given, context) {
    const { data } = await context.client.get("/journal", MonthsBody)
    const [dumped, dropped, note] = [given.text("dump"), given.text("drop"), given.text("archive-note")]
    const file = given.text("to")
    if ((dumped === null) !== (file === null))
      throw new UsageError("--dump MONTH and --to FILE belong together")
    const shard = given.text("shard")
    if (dumped !== null && file !== null) return await dump(context, monthOf(data, dumped, shard), file, note)
    if (dropped !== null) return await drop(context, monthOf(data, dropped, shard), note)
    const months: Listed[] = []
    for (const one of data) {
      const is_checked = one.seal !== null && one.dropped_at === null && given.has("verify")
      months.push({ ...one, differed: is_checked ? await differing(context, one) : null })
    }
    context.show(given.has("verify") ? { data: months } : { data }, () => monthsTable(months, context))
    const wrong = months.filter(({ differed }) => differed !== null && differed > 0)
    if (wrong.length > 0) throw new CliError(`not as they were sealed: ${wrong.map(nameOf).join(", ")}`)
  },
})

function monthOf(data: MonthsBody["data"], name: string, shard: string | null): Month {
  const found = data.filter((one) => one.month === name && (shard === null || one.shard === shard))
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

function monthsTable(months: readonly Listed[], { screen }: AdminContext): string {
  const is_several = months.some(({ shard }) => shard !== undefined)
  const rows = months.map((one) => [
    ...(is_several ? [one.shard ?? ""] : []),
    ...(one.seal === null
      ? [one.month, "", "", "", "", ""]
      : [
          one.month,
          moment(one.seal.sealed_at),
          count(one.seal.calls),
          usd(one.seal.charge),
          one.seal.hash,
          stateOf(one),
        ]),
  ])
  const columns = [
    ...(is_several ? [{ title: "SHARD" }] : []),
    { title: "MONTH" },
    { title: "SEALED" },
    { title: "CALLS", align: "right" },
    { title: "CHARGE", align: "point" },
    { title: "SHA-256", spare: 1 },
    { title: "" },
  ] as const
  return table(columns, rows, screen.width, screen.paint)
}

function stateOf({ differed, detached_at, dropped_at, archive }: Listed): string {
  if (differed !== null) return differed === 0 ? "unchanged" : "CHANGED"
  const state = dropped_at === null ? (detached_at === null ? "" : "detached") : "dropped"
  return [state, archive].filter((word) => word !== "" && word !== null).join(": ")
}
