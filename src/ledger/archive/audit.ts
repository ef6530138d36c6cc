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
import { type Ids, readLong, readSlice, slicesOf, WorkPace } from "./slices.ts"
import { type Violation, type ViolationRow, Violations } from "./violations.ts"

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
  /** Share of the time in which the audit works; it rests otherwise. Default: 1. */
  readonly share?: number
  readonly signal?: AbortSignal
  onProgress?(progress: AuditProgress): void
  /** Older entries are summed up slice by slice, younger ones in one snapshot. */
  readonly settle_ms?: number
}

/** Adds the audits of several shards (D74), with the time of the first. */
export function addAudits([first, ...others]: readonly Audit[]): Audit {
  if (first === undefined) throw new Error("there is no audit to add")
  return others.reduce(
    (sum, { checked_at, accounts, open_holds, violations }) => ({
      checked_at: new Date(Math.min(checked_at.getTime(), sum.checked_at.getTime())),
      accounts: sum.accounts + accounts,
      open_holds: sum.open_holds + open_holds,
      violations: [...sum.violations, ...violations],
    }),
    first,
  )
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
    const found = await new Auditing(database, options, parts).run()
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

class Auditing {
  readonly #database: Db
  readonly #options: AuditOptions
  readonly #parts: AuditParts
  readonly #pace: WorkPace
  /** Balance and held amount of each account, by the entries before the moment. */
  readonly #sums: SumsById = new Map()
  readonly #spent: SumsById = new Map()
  /** The spending and the holds of each counter of a budget, by the same entries. */
  readonly #budgets: SumsById = new Map()
  readonly #found = recordOf(["accounts", "grants", "keys", "budgets"], () => new Violations())
  readonly #of_calls = CHECKS_OF_CALLS.map((check) => ({ check, found: new Violations() }))
  #open = 0
  #has_limits = false
  #has_budgets = false
  #progress: AuditProgress

  constructor(database: Db, options: AuditOptions, parts: AuditParts) {
    this.#database = database
    this.#options = options
    this.#parts = parts
    this.#pace = new WorkPace(options.share ?? 1, () => options.signal?.aborted === true)
    this.#progress = { month: parts.open_month.slice(0, 7), calls: 0, accounts: 0 }
  }

  async run(): Promise<Audit> {
    const { ids } = this.#parts
    const started_at = ledgerTime()
    const moment = await this.#moment()
    this.#has_limits = (await this.#read(sql`SELECT FROM ${accounts} WHERE is_limited LIMIT 1`)).length > 0
    this.#has_budgets = (await this.#read(sql`SELECT FROM ${budgets} LIMIT 1`)).length > 0
    for await (const slice of slicesOf(this.#database, ids)) {
      const calls = await this.#readSlice({ ...slice, moment, side: "before" })
      await this.#pause({
        calls: this.#progress.calls + calls,
        month: monthOf(slice) ?? this.#progress.month,
      })
    }
    const hash = await hashOfEntries(this.#database, this.#sums)
    const since: checks.EntriesBeside = { ...ids, moment, side: "after" }
    await this.#compareCounters(since)
    for await (const range of this.#ranges()) await this.#compareAccounts(range, since)
    const [summary] = await this.#read<{ checked_at: string; accounts: number; open: number }>(
      checks.totals(since),
    )
    if (summary === undefined) throw new Error("the audit returned nothing")
    const found = [...Object.values(this.#found), ...this.#of_calls.map(({ found }) => found)]
    return {
      checked_at: new Date(summary.checked_at),
      accounts: summary.accounts,
      open_holds: this.#open + summary.open,
      violations: found.flatMap(({ list }) => list),
      evidence: { started_at, hash, entries_until: new Date(moment) },
    }
  }

  async #moment(): Promise<string> {
    const [row] = await this.#read<{ moment: string }>(
      checks.settledBefore(this.#options.settle_ms ?? SETTLE_MS),
    )
    if (row === undefined) throw new Error("the database did not return the time")
    return row.moment
  }

  /** Returns the number of its calls. */
  async #readSlice(slice: checks.EntriesBeside): Promise<number> {
    const sums = await readSlice<SumsOfAccount>(this.#database, checks.sumsOfEntries(slice))
    for (const { account_id, balance, held, open } of sums) {
      add(this.#sums, account_id, BigInt(balance), BigInt(held))
      this.#open += open
    }
    const { from_month } = this.#parts
    if (this.#has_limits) await this.#addTo(this.#spent, checks.spentBefore(slice, from_month))
    if (this.#has_budgets) await this.#addTo(this.#budgets, checks.budgetsIn(slice, from_month))
    for (const { check, found } of this.#of_calls) await this.#collect(found, check(slice), readSlice)
    return sums.reduce((total, { calls }) => total + calls, 0)
  }

  async #addTo(sums: SumsById, question: SQL): Promise<void> {
    const rows = await readSlice<{ id: string; spent: string; held?: string }>(this.#database, question)
    for (const { id, spent, held = "0" } of rows) add(sums, id, BigInt(spent), BigInt(held))
  }

  /** Compares keys and budgets. Recomputes those that differ, which may have changed since the slices were read. */
  async #compareCounters(since: checks.EntriesBeside): Promise<void> {
    const { from_month } = this.#parts
    const { keys, budgets } = this.#found
    const suspected = checks.keysThatMayDiffer(this.#spent, from_month, since)
    await this.#recompute(keys, suspected, (ids) => checks.keysThatDiffer(ids, from_month))
    if (!this.#has_budgets) return
    const suspects = checks.budgetsThatMayDiffer(this.#budgets, from_month, since)
    await this.#recompute(budgets, suspects, (ids) => checks.budgetsThatDiffer(ids, from_month))
  }

  async #recompute(into: Violations, question: SQL, differ: (ids: readonly string[]) => SQL): Promise<void> {
    const suspects = await this.#read<{ id: string }>(question)
    for (let at = 0; at < suspects.length; at += KEYS) {
      const ids = suspects.slice(at, at + KEYS).map(({ id }) => id)
      await this.#collect(into, differ(ids))
      await this.#pause({})
    }
  }

  async *#ranges(): AsyncGenerator<checks.AccountRange> {
    for (let from: string | null = null; ; ) {
      const next: readonly { id: string }[] = await this.#read<{ id: string }>(sql`
        SELECT id FROM ${accounts} WHERE ${from === null ? sql`true` : sql`id >= ${from}::uuid`}
        ORDER BY id OFFSET ${sql.raw(String(ACCOUNTS))} LIMIT 1`)
      const to = next[0]?.id ?? null
      yield { from, to }
      if (to === null) return
      from = to
    }
  }

  async #compareAccounts(range: checks.AccountRange, since: checks.EntriesBeside): Promise<void> {
    const { from, to } = range
    const inside = [...this.#sums].filter(([id]) => (from === null || id >= from) && (to === null || id < to))
    await this.#collect(
      this.#found.accounts,
      checks.accountsThatDiffer(range, new Map(inside), this.#parts.open_month, since),
    )
    await this.#collect(this.#found.grants, checks.grantsThatDiffer(range))
    await this.#pause({ accounts: this.#progress.accounts + inside.length })
  }

  async #collect(
    into: Violations,
    check: SQL,
    ask: typeof readSlice<ViolationRow> = readLong,
  ): Promise<void> {
    if (into.left > 0) into.add(await ask(this.#database, sql`${check} LIMIT ${into.left}`))
  }

  async #pause(progress: Partial<AuditProgress>): Promise<void> {
    this.#progress = { ...this.#progress, ...progress }
    this.#options.onProgress?.(this.#progress)
    await this.#pace.rest()
    this.#options.signal?.throwIfAborted()
  }

  #read<Found extends Record<string, unknown>>(question: SQL) {
    return readLong<Found>(this.#database, question)
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

/** Sums per account of the entries that an audit has read: balance and held amount. */
type SumsByAccount = ReadonlyMap<string, readonly [bigint, bigint]>

/** SHA-256 over the lines `month hash` of all seals and `account balance held` of the sums, in their order. */
export async function hashOfEntries(database: Db, sums: SumsByAccount): Promise<string> {
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
