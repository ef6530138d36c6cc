import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { NIL_ID } from "../../id.ts"
import { isObject } from "../../wire/usage.ts"
import { months, seal_hours, seal_sums, seals } from "../schema/sums.ts"
import { ENTRY_KINDS, ENTRY_ORDER, entriesIn, textOf } from "./entry-text.ts"
import { partitionOf } from "./months.ts"
import { readEntries } from "./seals.ts"

/**
 * The dump of a sealed month (D75): lines of JSON, each an object with one key. `seal`, `hour` and `sum` are the rows of
 * the seal, and after them come `hold`, `end`, `correction` and `attempt`, in the order of their calls. The text of each value is the
 * one that is hashed (D71), so that the file proves itself.
 */

const PART_CALLS = 5_000

const lineOf = (kind: string, text: string) => `{"${kind}":${text}}`

/** A part of a dump, from the call `from_id` on, or from the beginning; `next` is null after the last. Null without a seal. */
export async function dumpPart(
  database: PostgresJsDatabase,
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

async function sealLines(transaction: Pick<PostgresJsDatabase, "execute">, month: string): Promise<string[]> {
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

export async function checkDump(lines: AsyncIterable<string>): Promise<CheckedDump> {
  const check = new DumpCheck()
  for await (const line of lines) if (line !== "") check.add(line)
  return check.end()
}

interface Hour {
  readonly from_id: string
  readonly entries: number
  readonly hash: string
}

class DumpCheck {
  #seal: { month: string; hash: string; entries: number } | null = null
  readonly #texts = { hour: [] as string[], sum: [] as string[] }
  readonly #hours: Hour[] = []
  #hour = 0
  #digest = new Bun.CryptoHasher("sha256")
  #of_hour = 0
  #entries = 0
  #fault: string | null = null

  add(line: string): void {
    const kind = /^\{"([a-z]+)":/.exec(line)?.[1] ?? ""
    const text = line.slice(kind.length + 4, -1)
    const value: unknown = JSON.parse(text)
    if (!isObject(value)) throw new Error("the dump has a line that is no entry")
    if (kind === "seal")
      this.#seal = { month: word(value.month), hash: word(value.hash), entries: Number(value.entries) }
    else if (kind === "hour" || kind === "sum") {
      this.#texts[kind].push(text)
      if (kind === "hour")
        this.#hours.push({
          from_id: word(value.from_id),
          entries: Number(value.entries),
          hash: word(value.hash),
        })
    } else this.#addEntry(word(value.id), text)
  }

  end(): CheckedDump {
    if (this.#seal === null) throw new Error("the file is no dump of a month")
    while (this.#hour < this.#hours.length) this.#endHour()
    const { month, hash, entries } = this.#seal
    if (entries !== this.#entries) this.#fault ??= "it has another number of entries than its seal"
    const seal = new Bun.CryptoHasher("sha256")
    for (const texts of [this.#texts.hour, this.#texts.sum])
      for (const text of texts.map((one) => Buffer.from(one)).sort(Buffer.compare)) seal.update(sha256(text))
    if (seal.digest("hex") !== hash) this.#fault ??= "its hours and sums are not those of its seal"
    return { month, hash, entries: this.#entries, fault: this.#fault }
  }

  #addEntry(id: string, text: string): void {
    for (let next = this.#hours[this.#hour + 1]; next !== undefined && id >= next.from_id; ) {
      this.#endHour()
      next = this.#hours[this.#hour + 1]
    }
    this.#digest.update(sha256(text))
    this.#of_hour += 1
    this.#entries += 1
  }

  #endHour(): void {
    const hour = this.#hours[this.#hour]
    if (hour === undefined) throw new Error("the dump has an entry outside its hours")
    if (this.#digest.digest("hex") !== hour.hash || this.#of_hour !== hour.entries)
      this.#fault ??= `the entries of the hour from ${hour.from_id} on are not those of its seal`
    this.#digest = new Bun.CryptoHasher("sha256")
    this.#of_hour = 0
    this.#hour += 1
  }
}

const sha256 = (text: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(text).digest()

function word(value: unknown): string {
  if (typeof value !== "string") throw new Error("the dump has a line without its id, month or hash")
  return value
}
