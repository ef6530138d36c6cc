import { createReadStream } from "node:fs"
import { open } from "node:fs/promises"
import { resolve } from "node:path"
import { createInterface } from "node:readline"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { createGunzip, createGzip } from "node:zlib"
import { type CheckedDump, checkDump } from "../ledger/archive/dump.ts"
import {
  type AuditBody,
  AuditLine,
  AuditRecordBody,
  CheckedSealBody,
  CheckedSumsBody,
  DumpBody,
  MonthBody,
  MonthDone,
  MonthsBody,
  Violation,
} from "../wire/ledger-checks.ts"
import type { Query } from "./admin-client.ts"
import { type AdminContext, adminCommand, listCommand, partsOf } from "./admin-command.ts"
import { CliError, UsageError } from "./cli-error.ts"
import { moment } from "./moment.ts"
import { type Column, columnsOf, count, counted, type Screen, table, usd } from "./screen.ts"

const REMARK_MS = 5_000

export const audit = adminCommand({
  summary: "Verify every balance, hold, spending limit and charge against the journal",
  details:
    "Works 10 % of the time and pauses 90 %, so that calls are not slowed down. The exit code is 1 if anything does not match.",
  words: {
    "--full": "read the entries of sealed months too, instead of their seals",
    "--fast": "run without pauses, for a ledger without calls",
  },
  examples: {
    "tollgate audit": "one line if everything matches",
    "tollgate audit --full --fast": "reads every entry, as fast as the database can",
    "tollgate audit --json": "as JSON, for scripts",
  },
  async run({ full = false, fast = false }, context) {
    const found = await followed(context, { full: String(full), share: fast ? "100" : "10" })
    context.show(found, () => auditText(found, context.screen))
    const { length } = found.violations
    if (length > 0) throw new CliError(`the ledger does not match its journal in ${counted(length, "place")}`)
  },
})

/** Follows an audit to its end, and says every few seconds how far it has come. */
async function followed({ client, remark }: AdminContext, query: Query): Promise<AuditBody> {
  let printed_ms = performance.now()
  for await (const line of client.lines("/audit/progress", AuditLine, query)) {
    if ("audit" in line) return line.audit
    if ("error" in line) throw new CliError(line.error.message)
    if (performance.now() - printed_ms < REMARK_MS) continue
    printed_ms = performance.now()
    const where = line.shard === undefined ? "" : `${line.shard}: `
    remark(
      line.accounts > 0
        ? `${where}Compared ${count(line.accounts)} accounts.`
        : `${where}${line.month}: read ${count(line.calls)} calls so far.`,
    )
  }
  throw new CliError("the audit was cut off: run it again")
}

const violationColumn = columnsOf(Violation)
const monthColumn = columnsOf(MonthBody)

function auditText({ checked_at, accounts, open_holds, violations }: AuditBody, screen: Screen): string {
  const looked = `${counted(accounts, "account")}, ${counted(open_holds, "open hold")}, at ${moment(checked_at)}`
  if (violations.length === 0)
    return `${screen.paint("green", "✓")} The ledger matches its journal: ${looked}.`
  const columns = [
    ...(isSharded(violations) ? [violationColumn("shard")] : []),
    ...violationColumn.each("account_id", "kind"),
    violationColumn("id", { of: ({ id }) => id ?? "" }),
    violationColumn("recorded", {
      of: ({ recorded }) => (recorded === null ? "no account" : usd(recorded)),
      as: "number",
    }),
    violationColumn("expected", {
      of: ({ expected }) => (expected === null ? "no entry" : usd(expected)),
      as: "number",
    }),
  ]
  return `${table(columns, violations, screen)}\n\n${screen.paint("red", "✗")} Checked ${looked}.`
}

const auditColumn = columnsOf(AuditRecordBody)

/** `tollgate audits`: the audits that ended, and what they found (D107). */
export const audits = listCommand({
  summary: "List audits, newest first: when, by whom, the result and a hash",
  details:
    "Records cannot be changed. With several shards, an audit has a record in each. An audit of the scope open counts sealed months by their seals; one of the scope all has read their entries too. The hash covers the entries before ENTRIES UNTIL.",
  words: {},
  examples: {
    "tollgate audits": "the latest 20",
    "tollgate audits --all --json": "all of them with their whole hashes, as JSON",
  },
  entry: AuditRecordBody,
  columns: [
    auditColumn("checked_at"),
    auditColumn("actor", { least: 8 }),
    auditColumn("scope", { spare: 3, of: ({ scope }) => (scope === "open" ? "open (seals)" : scope) }),
    auditColumn("accounts", { spare: 2 }),
    auditColumn("open_holds", { spare: 4 }),
    auditColumn("violations"),
    auditColumn("shard", { of: ({ shard }) => shard ?? "", spare: 5 }),
    auditColumn("entries_until", { spare: 2 }),
    auditColumn("hash", { spare: 1 }),
  ],
  empty: "No audit has ended yet. Run one: tollgate audit",
  path: async () => ["/audits"],
})

/** `tollgate sums`: compares the sums of hours and days with the journal's entries, and replaces what differs (D72). */
export const sums = adminCommand({
  summary: "Check the sums that usage and statistics read against the journal",
  details: "Checks every closed day and replaces sums that differ. The exit code is 1 if any sum differed.",
  words: {},
  examples: {
    "tollgate sums": "one line if nothing differs",
    "tollgate sums --json": "as JSON, for scripts",
  },
  async run(_given, context) {
    const total = { days: 0, sums: 0, differed: 0 }
    for await (const found of partsOf((day) =>
      context.client.post("/sums/check", { day }, CheckedSumsBody),
    )) {
      if (found.day !== null) total.days += 1
      total.sums += found.sums
      total.differed += found.differed
      if (found.differed > 0)
        context.remark(`${found.day}: ${count(found.differed)} sums differed and were replaced.`)
    }
    context.show(total, () =>
      total.days === 0
        ? "There are no sums yet: the first day has not ended."
        : `Checked ${count(total.sums)} sums of ${count(total.days)} days.`,
    )
    if (total.differed > 0) throw new CliError(`${count(total.differed)} sums differed from the journal`)
  },
})

/** `tollgate journal`: the months of the journal and their seals, and whether sealed months are as they were sealed (D71). */
export const journal = adminCommand({
  is_list: true,
  summary: "List, verify and dump the months of the journal",
  details:
    "With --verify the exit code is 1 if a sealed month has changed. A dump is compared with the seal before it is recorded.",
  words: {
    "--verify": "compute the hashes of all sealed months again, and compare",
    "--dump <MONTH>": "write the entries of a sealed month to a file",
    "--to <FILE>": "file that --dump creates, compressed with gzip",
    "--drop <MONTH>": "drop the entries of a detached month that was dumped",
    "--shard <NAME>": "the shard of --dump and --drop, if there are several",
    "--archive-note <TEXT>": "where the dump is kept (default: the path of the file)",
  },
  examples: {
    "tollgate journal": "the months, latest first",
    "tollgate journal --verify": "reads every entry of every sealed month",
    'tollgate journal --dump 2024-10 --to 2024-10.gz --archive-note "s3://backups/2024-10.gz"':
      "writes a file and compares it with the seal",
    "tollgate journal --drop 2024-10": "frees the space of a month that was dumped",
    "tollgate journal --json": "as JSON, for scripts",
  },
  async run({ verify, dump: dumped, to: file, drop: dropped, shard, "archive-note": note }, context) {
    const { data } = await context.client.get("/journal", MonthsBody)
    if ((dumped === undefined) !== (file === undefined))
      throw new UsageError("--dump MONTH and --to FILE belong together")
    if (dumped !== undefined && file !== undefined)
      return await dump(context, monthOf(data, dumped, shard), file, note)
    if (dropped !== undefined) return await drop(context, monthOf(data, dropped, shard), note)
    const months: CheckedMonth[] = []
    for (const one of data) {
      const is_checked = one.seal !== null && one.dropped_at === null && verify
      months.push({ ...one, differed: is_checked ? await differing(context, one) : null })
    }
    const columns: readonly Column<CheckedMonth>[] = [
      ...(isSharded(data) ? [monthColumn("shard")] : []),
      ...monthColumn.each("month", "seal.sealed_at", "seal.calls", "seal.charge"),
      monthColumn("seal.hash", { spare: 1 }),
      { title: "", of: (one) => (one.seal === null ? "" : stateOf(one)) },
    ]
    context.show(verify ? { data: months } : { data }, () => table(columns, months, context.screen))
    if (verify && !months.some(({ differed }) => differed !== null)) context.remark(NOTHING_SEALED)
    const wrong = months.filter(({ differed }) => differed !== null && differed > 0)
    if (wrong.length > 0)
      throw new CliError(`changed since they were sealed: ${wrong.map(nameOf).join(", ")}`)
  },
})

function monthOf(data: MonthsBody["data"], name: string, shard: string | undefined): MonthBody {
  const found = data.filter((one) => one.month === name && (shard === undefined || one.shard === shard))
  const [only, ...others] = found
  if (only === undefined) throw new CliError(`there is no month ${name} in the journal`)
  if (others.length === 0) return only
  const names = found.map((one) => one.shard).join(", ")
  throw new UsageError(`--shard is required, because several shards have the month: ${names}`)
}

const NOTHING_SEALED = "Nothing was verified: no month is sealed yet. A month is sealed a week after its end."

async function differing({ client, remark }: AdminContext, listed: MonthBody): Promise<number> {
  const { month, shard } = listed
  let [hours, differed] = [0, 0]
  for await (const { matches } of partsOf((from) =>
    client.post("/journal/check", { month, shard, from }, CheckedSealBody),
  )) {
    hours += 1
    if (!matches) differed += 1
  }
  remark(`${nameOf(listed)}: ${count(hours)} hours checked, ${count(differed)} differ.`)
  return differed
}

type CheckedMonth = MonthBody & { readonly differed: number | null }

/** A month; with its shard, if there are several (D74). */
function nameOf({ month, shard }: MonthBody): string {
  return shard === undefined ? month : `${month} of ${shard}`
}

/** True if the rows are of several shards (D74). */
function isSharded(rows: readonly { readonly shard?: string | undefined }[]): boolean {
  return rows.some(({ shard }) => shard !== undefined)
}

function stateOf({ differed, detached_at, dropped_at, archive }: CheckedMonth): string {
  if (differed !== null) return differed === 0 ? "unchanged" : "CHANGED"
  const state = dropped_at === null ? (detached_at === null ? "" : "detached") : "dropped"
  return [state, archive].filter((word) => word !== "" && word !== null).join(": ")
}

/** Writes the dump of a month to a new file, computes its seal from that file, and notes where it is. */
export async function dump(
  context: AdminContext,
  { month, shard, seal }: MonthsBody["data"][number],
  file: string,
  note: string | undefined,
): Promise<void> {
  if (seal === null) throw new CliError(`${month} is not sealed yet`)
  const month_of_shard = { month, shard }
  await write(context, month_of_shard, file)
  const found = await checkFile(file)
  const fault = found.hash === seal.hash ? found.fault : "its hash is not that of the seal"
  if (fault !== null) throw new CliError(`${file} is not the month ${month} as it was sealed: ${fault}`)
  const archive = note ?? resolve(file)
  await context.client.post("/journal/dumped", { ...month_of_shard, hash: found.hash, archive }, MonthDone)
  context.show(
    { ...month_of_shard, file, entries: found.entries, hash: found.hash, archive },
    () => `Dumped ${count(found.entries)} entries of ${month} to ${file}, and compared them with the seal.`,
  )
}

/** Drops the tables of a month, whose dump was compared with its seal. */
export async function drop(
  context: AdminContext,
  { month, shard, seal }: MonthsBody["data"][number],
  note: string | undefined,
): Promise<void> {
  const month_of_shard = { month, shard }
  if (note !== undefined && seal !== null)
    await context.client.post(
      "/journal/dumped",
      { ...month_of_shard, hash: seal.hash, archive: note },
      MonthDone,
    )
  await context.client.post("/journal/drop", month_of_shard, MonthDone)
  context.show(month_of_shard, () => `Dropped the entries of ${month}. Its seal and its sums stay.`)
}

async function write({ client }: AdminContext, month_of_shard: object, file: string): Promise<void> {
  const target = await open(file, "wx", 0o600).catch(() => {
    throw new CliError(`cannot create ${file}: it exists already, or its folder does not`)
  })
  const parts = partsOf((from) => client.post("/journal/dump", { ...month_of_shard, from }, DumpBody))
  const lines = async function* () {
    for await (const part of parts) if (part.lines.length > 0) yield `${part.lines.join("\n")}\n`
  }
  await pipeline(Readable.from(lines()), createGzip(), target.createWriteStream({ flush: true }))
}

async function checkFile(file: string): Promise<CheckedDump> {
  const unpacked = createGunzip()
  const reading = pipeline(createReadStream(file), unpacked)
  const [found] = await Promise.all([checkDump(createInterface({ input: unpacked })), reading])
  return found
}
