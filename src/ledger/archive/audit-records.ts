import { desc } from "drizzle-orm"
import { nextId } from "../../id.ts"
import type { Db } from "../database/db.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import type { OfShard } from "../entries.ts"
import { audits } from "../schema/audits.ts"
import type { Audit, AuditOptions } from "./audit.ts"

/** An audit that ended, with who asked for it (D107). */
export type AuditRecord = typeof audits.$inferSelect & OfShard

/** Adds the record of an audit that an operator asked for. */
export async function recordAudit(
  database: Db,
  { violations, evidence, ...found }: Audit,
  { full = false, actor }: AuditOptions,
): Promise<void> {
  if (evidence === undefined || actor === undefined) return
  const record = { ...found, ...evidence, actor, is_full: full, violations: violations.length }
  await database.insert(audits).values({ id: nextId(), ...record })
}

export function listAudits(database: Db, page: Page): Promise<PageOf<AuditRecord>> {
  const found = database.select().from(audits).where(isAfter(page, audits.id))
  return pageOf(page, found.orderBy(desc(audits.id)))
}
