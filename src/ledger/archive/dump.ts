import { sql } from "drizzle-orm"
import { NIL_ID } from "../../id.ts"
import { isObject } from "../../wire/usage.ts"
import type { Db } from "../database/statement.ts"
import { months, seal_hours, seal_sums, seals } from "../schema/sums.ts"
import { partitionOf } from "./months.ts"
import { ENTRY_KINDS, ENTRY_ORDER, entriesIn, readEntries, textOf } from "./seals.ts"

/**
 * The dump of a sealed month (D75): lines of JSON, each an object with one key. `seal`, `hour` and `sum` are the rows of
 * the seal, and after them come `hold`, `end`, `correction` and `attempt`, in the order of their calls. The text of each value is the
 * one that is hashed (D71), so that the file proves itself.
 */

const PART_CALLS = 5_000

const lineOf = (kind: string, text: string) => `{"${kind}":${text}}`

/** A part of a dump, from the call `from_id` on, or from the beginning; `next` is null after the last. Null without a seal. */
export async function dumpPart(
  database: Db,
  month: string,
  from_id: string | null,
): Promise<{ readonly lines: readonly string[]; readonly next: string | null } | null> {
  return readEntries(database, async (transaction) => {
    const [bounds] = await transaction.execute<{ from_id: string; to_id: string; seal: string }>(sql`
        SELECT coalesce(m.from_id, ${NIL_ID}) AS from_id, m.to_id, ${textOf("s")} AS seal
        FROM ${months} m JOIN ${seals} s ON s.month = m.month WHERE m.month = ${month}::date AND m.dropped_at IS NULL`)
    if (bounds === undefined) return null
    const from = from_id ?? bounds.from_id
    const [next] = await transaction.execute<{ id: string }>(sql`
        SELECT id FROM ${sql.raw(partitionOf("holds", month))} WHERE id >= ${from}::uuid ORDER BY id
        OFFSET ${sql.raw(String(PART_CALLS))} LIMIT 1`)
    const ids = { from_id: from, to_id: next?.id ?? bounds.to_id }
    const entries = await transaction.execute<{ kind: number; entry: string }>(
      sql`SELECT x.kind, x.entry FROM (${entriesIn(month, ids)}) x ORDER BY ${ENTRY_ORDER}`,
    )
    const head =
      from_id === null ? [lineOf("seal", bounds.seal), ...(await sealLines(transaction, month))] : []
    const body = entries.map(({ kind, entry }) => lineOf(ENTRY_KINDS[kind] ?? "", entry))
    return { lines: [...head, ...body], next: next?.id ?? null }
  })
}

async function sealLines(transaction: Db, month: string): Promise<string[]> {
  const rows = await transaction.execute<{ kind: string; text: string }>(sql`
    SELECT 'hour' AS kind, ${textOf("s")} AS text, s.from_id AS at FROM ${seal_hours} s WHERE s.month = ${month}::date
    UNION ALL SELECT 'sum', ${textOf("s")}, NULL FROM ${seal_sums} s WHERE s.month = ${month}::date ORDER BY kind, at`)
  return rows.map(({ kind, text }) => lineOf(kind, text))
}

/** Result of a dump's check. `fault` is null if the dump has every hash that its seal names. */
export interface CheckedDump {
  readonly month: string
  readonly hash: string
  readonly entries: number
  readonly fault: string | null
}

interface Hour {
  readonly from_id: string
  readonly entries: number
  readonly hash: string
}

export async function checkDump(lines: AsyncIterable<string>): Promise<CheckedDump> {
  const texts: Readonly<Record<"hour" | "sum", Buffer[]>> = { hour: [], sum: [] }
  const hours: Hour[] = []
  let seal: Pick<CheckedDump, "month" | "hash" | "entries"> | null = null
  let fault: string | null = null
  let hour = 0
  let digest = new Bun.CryptoHasher("sha256")
  let [of_hour, entries] = [0, 0]
  const endHour = () => {
    const sealed = hours[hour]
    if (sealed === undefined) throw new Error("the dump has an entry outside its hours")
    if (digest.digest("hex") !== sealed.hash || of_hour !== sealed.entries)
      fault ??= `the entries of the hour from ${sealed.from_id} on are not those of its seal`
    digest = new Bun.CryptoHasher("sha256")
    of_hour = 0
    hour += 1
  }
  for await (const line of lines) {
    if (line === "") continue
    const kind = /^\{"([a-z]+)":/.exec(line)?.[1] ?? ""
    const text = line.slice(kind.length + 4, -1)
    const value: unknown = JSON.parse(text)
    if (!isObject(value)) throw new Error("the dump has a line that is no entry")
    const counted = () => ({ entries: Number(value.entries), hash: word(value.hash) })
    if (kind === "hour" || kind === "sum") texts[kind].push(Buffer.from(text))
    if (kind === "seal") seal = { month: word(value.month), ...counted() }
    else if (kind === "hour") hours.push({ from_id: word(value.from_id), ...counted() })
    else if (kind !== "sum") {
      const id = word(value.id)
      while (id >= (hours[hour + 1]?.from_id ?? LAST)) endHour()
      digest.update(sha256(text))
      of_hour += 1
      entries += 1
    }
  }
  if (seal === null) throw new Error("the file is no dump of a month")
  while (hour < hours.length) endHour()
  if (entries !== seal.entries) fault ??= "it has another number of entries than its seal"
  const whole = new Bun.CryptoHasher("sha256")
  for (const text of [texts.hour, texts.sum].flatMap((each) => each.sort(Buffer.compare)))
    whole.update(sha256(text))
  if (whole.digest("hex") !== seal.hash) fault ??= "its hours and sums are not those of its seal"
  return { month: seal.month, hash: seal.hash, entries, fault }
}

/** Comes after every id. */
const LAST = "g"

const sha256 = (text: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(text).digest()

function word(value: unknown): string {
  if (typeof value !== "string") throw new Error("the dump has a line without its id, month or hash")
  return value
}
