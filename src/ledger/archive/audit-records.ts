import { desc, lt, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../../id.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { audits } from "../schema/audits.ts"
import { seals } from "../schema/sums.ts"
import type { Audit, AuditOptions } from "./audit.ts"

/** An audit that ended, with who asked for it (D107). */
export type AuditRecord = typeof audits.$inferSelect & {
  /** The name of the shard; absent where there is one (D74). */
  readonly shard?: string
}

/** Adds the record of an audit that an operator asked for. */
export async function recordAudit(
  database: PostgresJsDatabase,
  { violations, evidence, ...found }: Audit,
  { full = false, actor }: AuditOptions,
): Promise<void> {
  if (evidence === undefined || actor === undefined) return
  const record = { ...found, ...evidence, actor, is_full: full, violations: violations.length }
  await database.insert(audits).values({ id: nextId(), ...record })
}

/** Audits, newest first. */
export async function listAudits(database: PostgresJsDatabase, page: Page): Promise<PageOf<AuditRecord>> {
  const rows = await database
    .select()
    .from(audits)
    .where(page.after === null ? undefined : lt(audits.id, page.after))
    .orderBy(desc(audits.id))
    .limit(page.limit + 1)
  return paged(rows, page)
}

/** Sums per account of the entries that an audit has read: balance and held amount. */
type SumsByAccount = ReadonlyMap<string, readonly [bigint, bigint]>

/**
 * SHA-256 over the lines `month hash` of all seals, and `account balance held` of the sums, each in their order. The entries cannot
 * change (D55), so another audit of the same entries has the same hash.
 */
export async function hashOfEntries(database: PostgresJsDatabase, sums: SumsByAccount): Promise<string> {
  const sealed = await database
    .select({ month: seals.month, hash: seals.hash })
    .from(seals)
    .orderBy(sql`${seals.month}`)
  const hasher = new Bun.CryptoHasher("sha256")
  for (const { month, hash } of sealed) hasher.update(`${month} ${hash}\n`)
  for (const id of [...sums.keys()].sort()) {
    const [balance_nano, held_nano] = sums.get(id) ?? [0n, 0n]
    hasher.update(`${id} ${balance_nano} ${held_nano}\n`)
  }
  return hasher.digest("hex")
}
