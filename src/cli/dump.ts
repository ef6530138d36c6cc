import { createReadStream } from "node:fs"
import { open } from "node:fs/promises"
import { resolve } from "node:path"
import { createInterface } from "node:readline"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { createGunzip, createGzip } from "node:zlib"
import { type CheckedDump, checkDump } from "../ledger/archive/dump.ts"
import { DumpBody, MonthDone, type MonthsBody } from "../wire/ledger-checks.ts"
import { type AdminContext, partsOf } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { count } from "./screen.ts"

/** The dumps of sealed months (D75). */

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
