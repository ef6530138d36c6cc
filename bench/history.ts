import { sql } from "drizzle-orm"
import { nextId } from "../src/id.ts"
import { audit } from "../src/ledger/archive/audit.ts"
import { sealMonth } from "../src/ledger/archive/seals.ts"
import { type Database, openDatabase } from "../src/ledger/database/database.ts"
import { DatabaseLedger } from "../src/ledger/database-ledger.ts"
import { balanceAt } from "../src/ledger/reports/balance.ts"
import { getCall, listCalls } from "../src/ledger/reports/calls.ts"
import { latencies } from "../src/ledger/reports/latency.ts"
import { outcomes } from "../src/ledger/reports/outcomes.ts"
import { sumHours } from "../src/ledger/reports/sum-hours.ts"
import { timeline } from "../src/ledger/reports/timeline.ts"
import { sumUsage } from "../src/ledger/reports/usage-sums.ts"
import { beginMonths, fill, SPAN_DAYS } from "./history-fill.ts"
import { endOf, holdOf, makePayer, type Payer, TERMS } from "./ledger-load.ts"
import { type RunFacts, runFacts } from "./machine.ts"
import { type OwnPostgres, quietLog } from "./own-postgres.ts"
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
  const database = await openDatabase(own.address)
  const run = new History(database, own.folder, calls, progress)
  try {
    await run.run()
  } finally {
    await run.close()
    await database.close()
  }
  const { rows, faults } = run
  return {
    kind: "history",
    ...runFacts(started),
    calls,
    rows,
    faults,
  }
}

class History {
  readonly rows: HistoryRow[] = []
  readonly faults: string[] = []
  readonly #database: Database
  readonly #folder: string
  readonly #calls: number
  readonly #progress: Progress
  /** Before the present hour, so that its sums are complete. */
  readonly #until_ms = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - HOUR_MS
  #ledger: DatabaseLedger | null = null
  #payers: Payer[] = []
  #terms_ids: readonly number[] = []

  constructor(database: Database, folder: string, calls: number, progress: Progress) {
    this.#database = database
    this.#folder = folder
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
    await this.#load()
  }

  async close(): Promise<void> {
    await this.#ledger?.stop()
  }

  get #db() {
    return this.#database.operators
  }

  async #fill(): Promise<void> {
    this.#progress.step("fill")
    await beginMonths(this.#database.upkeep, this.#until_ms)
    const ledger = await DatabaseLedger.open({
      database: this.#database,
      data_dir: this.#folder,
      lease: { renew_ms: 5_000, expire_ms: 20_000 },
      log: quietLog,
      checkpoints: () => [],
    })
    this.#ledger = ledger
    const models = Array.from({ length: MODELS }, (_, at) => ({ ...TERMS, model: `bench-${at}` }))
    this.#terms_ids = (await ledger.terms(models))[0]
    this.#payers = await Promise.all(Array.from({ length: ACCOUNTS }, () => makePayer(this.#db)))
    const took = await timed(() =>
      fill(
        this.#db,
        {
          payers: this.#payers,
          terms_ids: this.#terms_ids,
          gateway_id: nextId(),
          calls: this.#calls,
          until_ms: this.#until_ms,
        },
        (calls) => this.#progress.say(`fill: ${calls} calls`),
      ),
    )
    await this.#db.execute("VACUUM (ANALYZE) tollgate.holds, tollgate.ends, tollgate.accounts")
    this.#say("fill by SQL", `${rate(this.#calls, took)} calls/s`)
  }

  async #sum(): Promise<void> {
    this.#progress.step("sums of hours and days")
    const took = await timed(() => sumHours(this.#database.upkeep, never))
    this.#say("sums of hours and days", `${rate(this.#calls, took)} calls/s`)
  }

  async #seal(): Promise<void> {
    this.#progress.step("seals")
    let [entries, took_ms] = [0, 0]
    for (;;) {
      const started_ms = performance.now()
      const found = await sealMonth(this.#database.upkeep, never, undefined, 1)
      if (found === null) break
      took_ms += performance.now() - started_ms
      if (found.sealed !== "sealed") throw new Error(`a month was not sealed: ${found.sealed}`)
      this.#progress.say(`sealed ${found.month}`)
    }
    const [row] = await this.#db.execute<{ entries: string }>(
      sql`SELECT coalesce(sum(entries), 0)::text AS entries FROM tollgate.seals`,
    )
    entries = Number(row?.entries)
    this.#say("seals, working all the time", `${rate(entries, took_ms)} entries/s`)
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
    for (const by of ["model", "operation", "key", "account", "day"] as const)
      await this.#within(QUESTION_MS, `usage by ${by}`, () => sumUsage(this.#db, { from, to, by }))
    await this.#within(QUESTION_MS, "usage of an account by day", () =>
      sumUsage(this.#db, { from, to, by: "day", account_ids: [account_id] }),
    )
    await this.#within(QUESTION_MS, "usage by hour, 30 days", () =>
      sumUsage(this.#db, { ...month, by: "hour" }),
    )
    for (const split of ["model", "key", "account"] as const)
      await this.#within(QUESTION_MS, `timeline by ${split}`, () =>
        timeline(this.#db, { from, to }, split, 5),
      )
    await this.#within(QUESTION_MS, "latency", () => latencies(this.#db, { from, to }))
    await this.#within(QUESTION_MS, "outcomes", () => outcomes(this.#db, { from, to }))
    await this.#within(QUESTION_MS, `balance ${SPAN_DAYS} days ago`, () =>
      balanceAt(this.#db, account_id, from),
    )
  }

  async #lists(): Promise<void> {
    this.#progress.step("lists and receipts")
    const page = { limit: 100, after: null }
    const [payer] = this.#payers
    const { data } = await listCalls(this.#db, {}, page)
    const old = await listCalls(this.#db, { to: new Date(this.#until_ms - 80 * DAY_MS) }, page)
    await this.#within(LIST_MS, "list of all calls", () => listCalls(this.#db, {}, page))
    await this.#within(LIST_MS, "list of an account", () =>
      listCalls(this.#db, { account_id: payer?.account_id ?? "" }, page),
    )
    await this.#within(LIST_MS, "list of a model", () => listCalls(this.#db, { model: "bench-1" }, page))
    await this.#within(LIST_MS, "list of open calls", () => listCalls(this.#db, { state: "open" }, page))
    for (const [what, list] of [
      ["receipt of a new call", data],
      ["receipt of an old call", old.data],
    ] as const)
      await this.#within(LIST_MS, what, () => getCall(this.#db, list[0]?.id ?? nextId()))
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
  async #load(): Promise<void> {
    this.#progress.step("throughput")
    await this.#pairs(LOAD_MS)
    const [alone, ratios]: [number[], number[]] = [[], []]
    for (let round = 0; round < ROUNDS; round++) {
      this.#progress.say(`throughput: round ${round + 1} of ${ROUNDS}`)
      const before = await this.#pairs(LOAD_MS)
      const controller = new AbortController()
      const { signal } = controller
      const auditing = audit(this.#db, { full: true, share: 0.1, signal }).catch(() => null)
      const beside = await this.#pairs(LOAD_MS)
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

  /** Holds and ends calls for so long; how many per second. */
  async #pairs(duration_ms: number): Promise<number> {
    const ledger = this.#ledger
    if (ledger === null) throw new Error("the ledger is not open")
    const started_ms = performance.now()
    let pairs = 0
    const work = async (worker: number) => {
      while (performance.now() < started_ms + duration_ms) {
        const payer = this.#payers[(worker + pairs) % this.#payers.length]
        const terms_id = this.#terms_ids[0]
        if (payer === undefined || terms_id === undefined) throw new Error("nobody pays")
        const hold = holdOf(payer, terms_id)
        const { outcome } = await ledger.hold(hold)
        if (outcome !== "held") throw new Error(`a hold was refused: ${outcome}`)
        await ledger.end(endOf(hold))
        pairs += 1
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, (_, worker) => work(worker)))
    return (pairs * 1000) / (performance.now() - started_ms)
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
