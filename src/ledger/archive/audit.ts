import { desc, type SQL, sql } from "drizzle-orm"
import { ledgerTime, madeMs, NIL_ID, nextId } from "../../id.ts"
import { recordOf } from "../../kinds.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import type { Db } from "../database/statement.ts"
import type { OfShard } from "../entries.ts"
import { audits } from "../schema/audits.ts"
import { budgets } from "../schema/budgets.ts"
import { months, seals } from "../schema/sums.ts"
import { accounts } from "../schema/tables.ts"
import * as checks from "./audit-checks.ts"
import { type Ids, paceOf, readLong, readSlice, slicesOf } from "./slices.ts"
import { MAX_VIOLATIONS, type Violation, type ViolationRow, violationOf } from "./violations.ts"

export interface Audit {
  readonly checked_at: Date
  readonly accounts: number
  readonly open_holds: number
  readonly violations: readonly Violation[]
  /** Of one shard; absent in the sum of several. */
  readonly evidence?: AuditEvidence
}

/** Proof of the entries that an audit read, for its record (D107). */
interface AuditEvidence {
  readonly started_at: Date
  /** Of the entries before this moment, which are final. */
  readonly hash: string
  readonly entries_until: Date
}

/** Progress of an audit: first it reads calls, then it compares accounts. */
export interface AuditProgress extends OfShard {
  /** The month of the calls that were read last, such as `2026-11`. */
  readonly month: string
  readonly calls: number
  readonly accounts: number
}

export interface AuditOptions {
  /** The name of the operator who asks for it, for its record (D107). */
  readonly actor?: string
  /** Reads the sealed months too, as far as they are attached, instead of their seals. */
  readonly full?: boolean
  /** Share of the time that the audit may use; it pauses otherwise. Default: 1. */
  readonly share?: number
  readonly signal?: AbortSignal
  onProgress?(progress: AuditProgress): void
  /** Older entries are summed up slice by slice, younger ones in one snapshot. */
  readonly settle_ms?: number
}

/** Adds the audits of several shards (D74), with the time of the first. */
export function addAudits(audits: readonly Audit[]): Audit {
  return audits.reduce((sum, { checked_at, accounts, open_holds, violations }) => ({
    checked_at: new Date(Math.min(checked_at.getTime(), sum.checked_at.getTime())),
    accounts: sum.accounts + accounts,
    open_holds: sum.open_holds + open_holds,
    violations: [...sum.violations, ...violations],
  }))
}

/** As for sums of hours, because the clock of a standby may be behind. */
const SETTLE_MS = 60_000
const ACCOUNTS = 10_000
const KEYS = 1_000

/**
 * Recomputes every account, key and call. Sealed months count by the sums of their seals, and the rest by their entries (D71).
 * Old entries are final, so they are summed up slice by slice, each in a short transaction. Then every account is compared in
 * one snapshot with these sums and the newer entries. So the audit is exact while calls are held and settled, and does not
 * delay vacuuming.
 */
export async function audit(database: Db, options: AuditOptions = {}): Promise<Audit> {
  for (;;) {
    const parts = await partsOf(database, options.full === true)
    const found = await auditParts(database, options, parts)
    if (found.violations.length === 0 || !(await hasLost(database, parts))) return found
  }
}

/** True if a month of the audit was detached meanwhile (D75), so that its entries seem to be missing. */
async function hasLost(database: Db, { open_month }: AuditParts): Promise<boolean> {
  const lost = await database.execute(
    sql`SELECT FROM ${months} WHERE month >= ${open_month}::date AND detached_at IS NOT NULL LIMIT 1`,
  )
  return lost.length > 0
}

/** True if the entries of these calls fit their holds and their terms. */
export async function areRight(database: Db, ids: Ids): Promise<boolean> {
  for (const check of [checks.entriesWithoutHold, checks.attemptsWithoutHold, checks.charges])
    if ((await readSlice(database, sql`${check(ids)} LIMIT 1`)).length > 0) return false
  return true
}

/** The parts of the journal that an audit reads: the calls in `ids`, and the seals of the months before `open_month`. */
interface AuditParts {
  readonly ids: Ids
  readonly open_month: string
  /** Null if the ids have no beginning. */
  readonly from_month: string | null
}

async function partsOf(database: Db, full: boolean): Promise<AuditParts> {
  const [row] = await database.execute<{ month: string; from_id: string | null; to_id: string }>(sql`
    SELECT m.month::text AS month, m.from_id, (SELECT max(l.to_id::text) FROM ${months} l) AS to_id
    FROM ${months} m WHERE ${full ? sql`m.detached_at IS NULL` : sql`NOT EXISTS (SELECT FROM ${seals} s WHERE s.month = m.month)`}
    ORDER BY m.month LIMIT 1`)
  if (row === undefined) throw new Error("the journal has no open month")
  const { month, from_id, to_id } = row
  return {
    ids: { from_id: from_id ?? NIL_ID, to_id },
    open_month: month,
    from_month: from_id === null ? null : month,
  }
}

const CHECKS_OF_CALLS = [
  checks.entriesWithoutHold,
  checks.charges,
  checks.abandoned,
  checks.attemptsWithoutHold,
  checks.withoutLabels,
  checks.atOtherPrices,
] as const

async function auditParts(database: Db, options: AuditOptions, parts: AuditParts): Promise<Audit> {
  const { ids, open_month, from_month } = parts
  const pace = paceOf(options.share ?? 1, () => options.signal?.aborted === true)
  let progress: AuditProgress = { month: open_month.slice(0, 7), calls: 0, accounts: 0 }
  /** Balance and held amount of each account, by the entries before the moment. */
  const sums: SumsById = new Map()
  const spent: SumsById = new Map()
  /** The spending and the holds of each counter of a budget, by the same entries. */
  const counters: SumsById = new Map()
  const none = (): Violation[] => []
  const found = recordOf(["accounts", "grants", "keys", "budgets"], none)
  const of_calls = CHECKS_OF_CALLS.map((check) => ({ check, found: none() }))
  let open_holds = 0

  const read = <Found extends Record<string, unknown>>(question: SQL) => readLong<Found>(database, question)

  async function collect(into: Violation[], check: SQL, ask: typeof readSlice<ViolationRow> = readLong) {
    const left = MAX_VIOLATIONS - into.length
    if (left > 0) into.push(...(await ask(database, sql`${check} LIMIT ${left}`)).map(violationOf))
  }

  async function pause(changed: Partial<AuditProgress>) {
    progress = { ...progress, ...changed }
    options.onProgress?.(progress)
    await pace.rest()
    options.signal?.throwIfAborted()
  }

  async function addTo(sums: SumsById, question: SQL) {
    const rows = await readSlice<{ id: string; spent: string; held?: string }>(database, question)
    for (const { id, spent, held = "0" } of rows) add(sums, id, BigInt(spent), BigInt(held))
  }

  /** Returns the number of its calls. */
  async function readCalls(slice: checks.EntriesBeside): Promise<number> {
    const rows = await readSlice<SumsOfAccount>(database, checks.sumsOfEntries(slice))
    for (const { account_id, balance, held, open } of rows) {
      add(sums, account_id, BigInt(balance), BigInt(held))
      open_holds += open
    }
    if (has_limits) await addTo(spent, checks.spentBefore(slice, from_month))
    if (has_budgets) await addTo(counters, checks.budgetsIn(slice, from_month))
    for (const { check, found } of of_calls) await collect(found, check(slice), readSlice)
    return rows.reduce((total, { calls }) => total + calls, 0)
  }

  /** Recomputes keys or budgets that differ, which may have changed since the slices were read. */
  async function recompute(into: Violation[], question: SQL, differ: (ids: readonly string[]) => SQL) {
    const suspects = await read<{ id: string }>(question)
    for (let at = 0; at < suspects.length; at += KEYS) {
      const ids = suspects.slice(at, at + KEYS).map(({ id }) => id)
      await collect(into, differ(ids))
      await pause({})
    }
  }

  async function compareAccounts(range: checks.AccountRange, since: checks.EntriesBeside) {
    const { from, to } = range
    const inside = [...sums].filter(([id]) => (from === null || id >= from) && (to === null || id < to))
    await collect(found.accounts, checks.accountsThatDiffer(range, new Map(inside), open_month, since))
    await collect(found.grants, checks.grantsThatDiffer(range))
    await pause({ accounts: progress.accounts + inside.length })
  }

  const started_at = ledgerTime()
  const [now] = await read<{ moment: string }>(checks.settledBefore(options.settle_ms ?? SETTLE_MS))
  if (now === undefined) throw new Error("the database did not return the time")
  const { moment } = now
  const has_limits = (await read(sql`SELECT FROM ${accounts} WHERE is_limited LIMIT 1`)).length > 0
  const has_budgets = (await read(sql`SELECT FROM ${budgets} LIMIT 1`)).length > 0
  for await (const slice of slicesOf(database, ids)) {
    const calls = await readCalls({ ...slice, moment, side: "before" })
    await pause({ calls: progress.calls + calls, month: monthOf(slice) ?? progress.month })
  }
  const hash = await hashOfEntries(database, sums)
  const since: checks.EntriesBeside = { ...ids, moment, side: "after" }
  const keysThatDiffer = (ids: readonly string[]) => checks.keysThatDiffer(ids, from_month)
  await recompute(found.keys, checks.keysThatMayDiffer(spent, from_month, since), keysThatDiffer)
  if (has_budgets) {
    const budgetsThatDiffer = (ids: readonly string[]) => checks.budgetsThatDiffer(ids, from_month)
    const suspected = checks.budgetsThatMayDiffer(counters, from_month, since)
    await recompute(found.budgets, suspected, budgetsThatDiffer)
  }
  for await (const range of accountRanges(database)) await compareAccounts(range, since)
  const [summary] = await read<{ checked_at: string; accounts: number; open: number }>(checks.totals(since))
  if (summary === undefined) throw new Error("the audit returned nothing")
  const all = [...Object.values(found), ...of_calls.map(({ found }) => found)]
  return {
    checked_at: new Date(summary.checked_at),
    accounts: summary.accounts,
    open_holds: open_holds + summary.open,
    violations: all.flat(),
    evidence: { started_at, hash, entries_until: new Date(moment) },
  }
}

async function* accountRanges(database: Db): AsyncGenerator<checks.AccountRange> {
  for (let from: string | null = null; ; ) {
    const next: readonly { id: string }[] = await readLong<{ id: string }>(
      database,
      sql`SELECT id FROM ${accounts} WHERE ${from === null ? sql`true` : sql`id >= ${from}::uuid`}
        ORDER BY id OFFSET ${sql.raw(String(ACCOUNTS))} LIMIT 1`,
    )
    const to = next[0]?.id ?? null
    yield { from, to }
    if (to === null) return
    from = to
  }
}

type SumsById = Map<string, [bigint, bigint]>

function add(sums: SumsById, id: string, one: bigint, other: bigint): void {
  const sum = sums.get(id)
  if (sum === undefined) sums.set(id, [one, other])
  else {
    sum[0] += one
    sum[1] += other
  }
}

/** The month in which the first call of a slice began; null for ids that have no time. */
function monthOf({ from_id }: Ids): string | null {
  const made_ms = madeMs(from_id)
  return made_ms === 0 ? null : new Date(made_ms).toISOString().slice(0, 7)
}

interface SumsOfAccount extends Record<string, unknown> {
  readonly account_id: string
  readonly balance: string
  readonly held: string
  readonly open: number
  readonly calls: number
}

/** SHA-256 over the lines `month hash` of all seals and `account balance held` of the sums, in their order. */
export async function hashOfEntries(database: Db, sums: checks.FoundSums): Promise<string> {
  const sealed = await database
    .select({ month: seals.month, hash: seals.hash })
    .from(seals)
    .orderBy(seals.month)
  const hasher = new Bun.CryptoHasher("sha256")
  for (const { month, hash } of sealed) hasher.update(`${month} ${hash}\n`)
  for (const id of [...sums.keys()].sort()) {
    const [balance_nano, held_nano] = sums.get(id) ?? [0n, 0n]
    hasher.update(`${id} ${balance_nano} ${held_nano}\n`)
  }
  return hasher.digest("hex")
}

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
