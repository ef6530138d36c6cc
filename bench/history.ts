import { sql } from "drizzle-orm"
import { nextId } from "../src/id.ts"
import { audit } from "../src/ledger/archive/audit.ts"
import { sealMonth } from "../src/ledger/archive/seals.ts"
import { balanceAt } from "../src/ledger/reports/balance.ts"
import { getCall, listCalls } from "../src/ledger/reports/calls.ts"
import { latencies } from "../src/ledger/reports/latency.ts"
import { outcomes } from "../src/ledger/reports/outcomes.ts"
import { sumHours } from "../src/ledger/reports/sum-hours.ts"
import { timelineCells } from "../src/ledger/reports/timeline.ts"
import { type GroupedSpan, MAX_GROUPS, readUsage } from "../src/ledger/reports/usage-sums.ts"
import { beginMonths, fill, SPAN_DAYS } from "./history-fill.ts"
import { LedgerLoad, type Payer, TERMS } from "./ledger-load.ts"
import { type RunFacts, runFacts } from "./machine.ts"
import type { OwnPostgres } from "./own-postgres.ts"
import type { Progress } from "./progress.ts"
import { median } from "./statistics.ts"

/** A long history: what it takes to keep it, and to ask about it. */
export interface HistoryResults extends RunFacts {
  readonly kind: "history"
  readonly calls: number
  readonly rows: readonly HistoryRow[]
  readonly faults: readonly string[]
}

/** What was measured, and the result, both in words. */
export type HistoryRow = readonly [what: string, result: string]

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const ACCOUNTS = 100
const MODELS = 5
/** How often each question is asked; the slowest answer counts. */
const TIMES = 5
const IN_FLIGHT = 64
const ROUNDS = 9
const LOAD_MS = 3_000
/** The goals: any question over 92 days, and lists and receipts. */
const QUESTION_MS = 1_000
const LIST_MS = 100

export const HISTORY_STEPS = 8

const never = () => false

/** Fills a database and measures. */
export async function history(own: OwnPostgres, calls: number, progress: Progress): Promise<HistoryResults> {
  const started = new Date()
  const load = await LedgerLoad.open([own])
  const run = new History(load, calls, progress)
  try {
    await run.run()
  } finally {
    await load.close()
  }
  const { rows, faults } = run
  return { kind: "history", ...runFacts(started), calls, rows, faults }
}

class History {
  readonly rows: HistoryRow[] = []
  readonly faults: string[] = []
  readonly #load: LedgerLoad
  readonly #calls: number
  readonly #progress: Progress
  /** Before the current hour, so that its sums are complete. */
  readonly #until_ms = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - HOUR_MS
  #payers: readonly Payer[] = []

  constructor(load: LedgerLoad, calls: number, progress: Progress) {
    this.#load = load
    this.#calls = calls
    this.#progress = progress
  }

  async run(): Promise<void> {
    await this.#fill()
    await this.#sum()
    await this.#seal()
    await this.#size()
    await this.#questions()
    await this.#lists()
    await this.#audits()
    await this.#beside()
  }

  get #db() {
    return this.#load.first.operators
  }

  async #fill(): Promise<void> {
    this.#progress.step("fill")
    await beginMonths(this.#load.first.upkeep, this.#until_ms)
    const models = Array.from({ length: MODELS }, (_, at) => ({ ...TERMS, model: `bench-${at}` }))
    const [terms_ids = []] = await this.#load.ledger.terms(models)
    this.#payers = await this.#load.payers(ACCOUNTS)
    const what = {
      payers: this.#payers,
      terms_ids,
      gateway_id: nextId(),
      calls: this.#calls,
      until_ms: this.#until_ms,
    }
    const say = (calls: number) => this.#progress.say(`fill: ${calls} calls`)
    const took = await timed(() => fill(this.#db, what, say))
    await this.#db.execute("VACUUM (ANALYZE) tollgate.holds, tollgate.ends, tollgate.accounts")
    this.#say("fill by SQL", `${rate(this.#calls, took)} calls/s`)
  }

  async #sum(): Promise<void> {
    this.#progress.step("sums of hours and days")
    const took = await timed(() => sumHours(this.#load.first.upkeep, never))
    this.#say("sums of hours and days", `${rate(this.#calls, took)} calls/s`)
  }

  async #seal(): Promise<void> {
    this.#progress.step("seals")
    let took_ms = 0
    for (;;) {
      const started_ms = performance.now()
      const found = await sealMonth(this.#load.first.upkeep, never, undefined, 1)
      if (found === null) break
      took_ms += performance.now() - started_ms
      if (found.sealed !== "sealed") throw new Error(`a month was not sealed: ${found.sealed}`)
      this.#progress.say(`sealed ${found.month}`)
    }
    const [row] = await this.#db.execute<{ entries: string }>(
      sql`SELECT coalesce(sum(entries), 0)::text AS entries FROM tollgate.seals`,
    )
    this.#say("seals, working all the time", `${rate(Number(row?.entries), took_ms)} entries/s`)
  }

  async #size(): Promise<void> {
    this.#progress.step("sizes")
    const bytesOf = async (pattern: string, size: string) => {
      const [row] = await this.#db.execute<{ bytes: string }>(sql`
        SELECT coalesce(sum(${sql.raw(size)}(c.oid)), 0)::text AS bytes FROM pg_class c
        WHERE c.relnamespace = 'tollgate'::regnamespace AND c.relkind = 'r' AND c.relname ~ ${pattern}`)
      return Number(row?.bytes)
    }
    const per = (bytes: number) => `${(bytes / this.#calls).toFixed(1)} bytes per call`
    const journal = "^(holds|ends|corrections)_"
    const heap = await bytesOf(journal, "pg_table_size")
    const indexes = await bytesOf(journal, "pg_indexes_size")
    const sums = await bytesOf("^(hours|days|hour_latencies|day_latencies)$", "pg_total_relation_size")
    const seals = await bytesOf("^seal", "pg_total_relation_size")
    this.#say("journal: rows", per(heap))
    this.#say("journal: indexes", per(indexes))
    this.#say(`sums of ${SPAN_DAYS} days, ${ACCOUNTS} keys`, `${mib(sums)}, ${per(sums)}`)
    this.#say("seals", `${mib(seals)}, ${per(seals)}`)
    this.#say("a billion calls", `${Math.round(heap / this.#calls + indexes / this.#calls)} GB`)
  }

  async #questions(): Promise<void> {
    this.#progress.step(`questions over ${SPAN_DAYS} days`)
    const to = new Date()
    const from = new Date(Math.floor((this.#until_ms - SPAN_DAYS * DAY_MS) / DAY_MS) * DAY_MS + DAY_MS)
    const month = { from: new Date(to.getTime() - 30 * DAY_MS), to }
    const [payer] = this.#payers
    const account_id = payer?.account_id ?? ""
    const ask = (what: string, question: () => Promise<unknown>) => this.#within(QUESTION_MS, what, question)
    const sumOf = (range: GroupedSpan) => readUsage(this.#db, range, MAX_GROUPS, async () => {})
    for (const by of ["model", "operation", "key", "account", "day"] as const)
      await ask(`usage by ${by}`, () => sumOf({ from, to, by }))
    const own = { from, to, by: "day", account_ids: [account_id] } as const
    await ask("usage of an account by day", () => sumOf(own))
    await ask("usage by hour, 30 days", () => sumOf({ ...month, by: "hour" }))
    for (const split of ["model", "key", "account"] as const)
      await ask(`timeline by ${split}`, () => timelineCells(this.#db, { from, to }, split, []))
    await ask("latency", () => latencies(this.#db, { from, to }))
    await ask("outcomes", () => outcomes(this.#db, { from, to }))
    await ask(`balance ${SPAN_DAYS} days ago`, () => balanceAt(this.#db, account_id, from))
  }

  async #lists(): Promise<void> {
    this.#progress.step("lists and receipts")
    const list = (filter: Parameters<typeof listCalls>[1]) =>
      listCalls(this.#db, filter, { limit: 100, after: null })
    const ask = (what: string, question: () => Promise<unknown>) => this.#within(LIST_MS, what, question)
    const [payer] = this.#payers
    const recent = await list({})
    const old = await list({ to: new Date(this.#until_ms - 80 * DAY_MS) })
    await ask("list of all calls", () => list({}))
    await ask("list of an account", () => list({ account_id: payer?.account_id ?? "" }))
    await ask("list of a model", () => list({ model: "bench-1" }))
    await ask("list of open calls", () => list({ state: "open" }))
    await ask("receipt of a new call", () => getCall(this.#db, recent.data[0]?.id ?? nextId()))
    await ask("receipt of an old call", () => getCall(this.#db, old.data[0]?.id ?? nextId()))
  }

  async #audits(): Promise<void> {
    this.#progress.step("audits")
    for (const full of [false, true]) {
      let read = 0
      const onProgress = ({ calls }: { readonly calls: number }) => {
        read = calls
      }
      const started_ms = performance.now()
      const { violations } = await audit(this.#db, { full, onProgress })
      const took_ms = performance.now() - started_ms
      if (violations.length > 0) this.faults.push(`the audit found ${violations.length} violations`)
      this.#say(
        full ? "audit of all months" : "audit of open months and seals",
        `${seconds(took_ms)}, ${read} calls, ${rate(read, took_ms)} calls/s`,
      )
    }
  }

  /** Alternately without an audit and beside one that works a tenth of the time. */
  async #beside(): Promise<void> {
    this.#progress.step("throughput")
    const pairs = async () => {
      const load = { how: "batch_queues", accounts: ACCOUNTS, in_flight: IN_FLIGHT } as const
      const { calls, measured_ms } = await this.#load.pairs({ ...load, duration_ms: LOAD_MS })
      return (calls * 1000) / measured_ms
    }
    await pairs()
    const [alone, ratios]: [number[], number[]] = [[], []]
    for (let round = 0; round < ROUNDS; round++) {
      this.#progress.say(`throughput: round ${round + 1} of ${ROUNDS}`)
      const before = await pairs()
      const controller = new AbortController()
      const { signal } = controller
      const auditing = audit(this.#db, { full: true, share: 0.1, signal }).catch(() => null)
      const beside = await pairs()
      controller.abort()
      await auditing
      alone.push(before)
      ratios.push(beside / before)
    }
    this.#say("throughput", `${median(alone).toFixed(0)} calls/s`)
    this.#say(
      "throughput beside an audit",
      `${(median(ratios) * 100).toFixed(1)} %, median of ${ROUNDS} pairs`,
    )
  }

  async #within(goal_ms: number, what: string, ask: () => Promise<unknown>): Promise<void> {
    let slowest_ms = 0
    for (let times = 0; times < TIMES; times++) slowest_ms = Math.max(slowest_ms, await timed(ask))
    const is_slow = slowest_ms > goal_ms
    if (is_slow) this.faults.push(`${what}: ${slowest_ms.toFixed(0)} ms, more than ${goal_ms} ms`)
    this.#say(what, `${slowest_ms.toFixed(1)} ms${is_slow ? ", TOO SLOW" : ""}`)
  }

  #say(what: string, result: string): void {
    this.rows.push([what, result])
    this.#progress.say(`${what}: ${result}`)
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started_ms = performance.now()
  await work()
  return performance.now() - started_ms
}

const rate = (count: number, took_ms: number) => Math.round((count * 1000) / took_ms).toString()
const seconds = (took_ms: number) => `${(took_ms / 1000).toFixed(1)} s`
const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`
