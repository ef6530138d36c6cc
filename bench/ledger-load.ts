import { type Static, Type } from "@sinclair/typebox"
import { nextId } from "../src/id.ts"
import { createAccount } from "../src/ledger/accounts/accounts.ts"
import { credit } from "../src/ledger/accounts/credits.ts"
import { createKey } from "../src/ledger/accounts/keys.ts"
import { audit } from "../src/ledger/archive/audit.ts"
import type { DatabaseConnection } from "../src/ledger/database/connection.ts"
import type { Database } from "../src/ledger/database/database.ts"
import type { End, Hold } from "../src/ledger/entries.ts"
import type { Ledger } from "../src/ledger/ledger.ts"
import { openLedger } from "../src/ledger/ledger.ts"
import { endBatch } from "../src/ledger/money/end.ts"
import { holdBatch } from "../src/ledger/money/hold.ts"
import { leaseOn } from "../src/ledger/money/lease.ts"
import { openShards } from "../src/ledger/shards.ts"
import { PRICE } from "./answer-spec.ts"
import type { Report } from "./job.ts"
import { type OwnPostgres, quietLog } from "./own-postgres.ts"
import { cpuTimes, postgresPids, spent } from "./process-status.ts"
import { Tally } from "./tally.ts"

export const LedgerQuestion = Type.Union([
  /** Hold and settle pairs as fast as they go, `in_flight` at a time. */
  Type.Object({
    what: Type.Literal("pairs"),
    /** `batch_queues`: as the gateway does; `single`: the same statements, one per call, over `SINGLE_CONNECTIONS`. */
    how: Type.Union([Type.Literal("batch_queues"), Type.Literal("single")]),
    /** As many in each question to one process. */
    shards: Type.Integer(),
    accounts: Type.Integer(),
    in_flight: Type.Integer(),
    duration_ms: Type.Number(),
  }),
  /** Audit every shard; the answer is the sum. */
  Type.Object({ what: Type.Literal("audit") }),
])
export type LedgerQuestion = Static<typeof LedgerQuestion>
export type Pairs = Extract<LedgerQuestion, { what: "pairs" }>

export const AuditAnswer = Type.Object({ violations: Type.Integer(), open_holds: Type.Integer() })

/** Connections for one statement per call, each with one call at a time. */
const SINGLE_CONNECTIONS = 16
const TIMEOUT_MS = 900
const CREDIT_NANO = 1_000_000_000_000_000n
const DAY_MS = 86_400_000

/** The same prices as in the scenarios. */
export const TERMS = { family: "chat", model: "bench", upstream: "bench", price: PRICE }

export interface Payer {
  readonly account_id: string
  readonly key_id: string
}

/** An account, and what a call of it is held with in its shard. */
interface ShardPayer extends Payer {
  readonly shard: number
  readonly terms_id: number
}

/** Holds and ends by a statement of their own, over connections to the first shard. */
interface Single {
  readonly connections: readonly DatabaseConnection[]
  readonly gateway_id: string
}

/**
 * The ledger without a gateway, in one shard or several, each on a Postgres of its own with the gateway's settings: the
 * reference for what billing costs. Accounts are spread evenly over the shards.
 */
export class LedgerLoad {
  readonly #databases: readonly Database[]
  readonly ledger: Ledger
  readonly #owns: readonly OwnPostgres[]
  readonly #terms_ids: readonly number[]
  readonly #payers: ShardPayer[] = []
  #single: Single | null = null

  static async open(owns: readonly OwnPostgres[]): Promise<LedgerLoad> {
    const addresses = owns.map(({ address }, shard) => ({ name: `shard-${shard}`, open: true, address }))
    const databases = await openShards(addresses)
    const ledger = await openLedger({
      databases,
      data_dir: owns[0]?.folder ?? "",
      lease: { renew_ms: 5_000, expire_ms: 20_000 },
      log: quietLog,
      checkpoints: () => [],
    })
    const terms_ids = (await ledger.terms([TERMS])).map(([terms_id = 0]) => terms_id)
    const opened = databases.map(({ database }) => database)
    return new LedgerLoad(owns, opened, ledger, terms_ids)
  }

  private constructor(
    owns: readonly OwnPostgres[],
    databases: readonly Database[],
    ledger: Ledger,
    terms_ids: readonly number[],
  ) {
    this.#owns = owns
    this.#databases = databases
    this.ledger = ledger
    this.#terms_ids = terms_ids
  }

  async answer(question: LedgerQuestion): Promise<object> {
    switch (question.what) {
      case "pairs":
        return this.pairs(question)
      case "audit": {
        const found = await Promise.all(this.#databases.map(({ operators }) => audit(operators)))
        return {
          violations: found.reduce((sum, { violations }) => sum + violations.length, 0),
          open_holds: found.reduce((sum, { open_holds }) => sum + open_holds, 0),
        }
      }
    }
  }

  async close(): Promise<void> {
    await this.ledger.stop()
    await Promise.all((this.#single?.connections ?? []).map((connection) => connection.end()))
    await Promise.all(this.#databases.map((database) => database.close()))
  }

  async pairs({ how, accounts, in_flight, duration_ms }: Omit<Pairs, "what" | "shards">): Promise<Report> {
    await this.payers(accounts)
    const pair = how === "single" ? await this.#statements() : this.#queued
    const workers = how === "single" ? Math.min(in_flight, SINGLE_CONNECTIONS) : in_flight
    const processes = {
      pid: process.pid,
      postgres_pids: this.#owns.flatMap(({ folder }) => postgresPids(folder)),
    }
    const tally = new Tally()
    const before = cpuTimes(processes)
    const from_ms = performance.now()
    tally.measure(from_ms)
    let begun = 0
    const work = async (worker: number) => {
      for (let start_ms = from_ms; start_ms < from_ms + duration_ms; start_ms = performance.now()) {
        const payer = this.#payers[begun++ % accounts]
        if (payer === undefined) throw new Error("there is no such account")
        const first_ms = await pair(payer, holdOf(payer, payer.terms_id), worker)
        tally.noteCall({ start_ms, first_ms, end_ms: performance.now(), failure: null })
      }
    }
    await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
    tally.stop(performance.now())
    return { ...tally.report(), cpu_ms: spent(before, cpuTimes(processes)), grown_bytes: 0 }
  }

  /** The first accounts; creates those that are missing. */
  async payers(count: number): Promise<readonly Payer[]> {
    const missing = Math.max(0, count - this.#payers.length)
    const made = Array.from({ length: missing }, async (_, at) => {
      const shard = (this.#payers.length + at) % this.#owns.length
      const { operators } = this.#databases[shard] ?? this.first
      return { ...(await makePayer(operators)), shard, terms_id: this.#terms_ids[shard] ?? 0 }
    })
    this.#payers.push(...(await Promise.all(made)))
    return this.#payers.slice(0, count)
  }

  get first(): Database {
    const [first] = this.#databases
    if (first === undefined) throw new Error("there is no shard")
    return first
  }

  /** Holds and settles as the gateway does; the time between. */
  readonly #queued = async ({ shard }: ShardPayer, hold: Hold): Promise<number> => {
    const ledger = this.ledger.shard(shard)
    const { outcome } = await ledger.hold(hold)
    if (outcome !== "held") throw new Error(`a hold was refused: ${outcome}`)
    const held_ms = performance.now()
    await ledger.end(endOf(hold))
    return held_ms
  }

  /** The same by statements of its own. The lease is never renewed. */
  async #statements() {
    if (this.#single === null) {
      const connections = Array.from({ length: SINGLE_CONNECTIONS }, () => this.first.connection())
      const lease = leaseOn(this.first.connection(), { renew_ms: DAY_MS, expire_ms: 3 * DAY_MS })
      await lease.acquire(nextId())
      this.#single = { connections, gateway_id: lease.gateway_id }
    }
    const { connections, gateway_id } = this.#single
    return async (_payer: ShardPayer, hold: Hold, worker: number): Promise<number> => {
      const connection = connections[worker]
      if (connection === undefined) throw new Error("there is no connection")
      const [held] = await holdBatch(connection, gateway_id, [hold], TIMEOUT_MS)
      if (held?.outcome !== "held") throw new Error(`a hold was refused: ${held?.outcome}`)
      const held_ms = performance.now()
      const [ended] = await endBatch(connection, [{ end: endOf(hold), hold }], TIMEOUT_MS)
      if (ended !== "applied") throw new Error(`an end changed nothing: ${ended}`)
      return held_ms
    }
  }
}

async function makePayer(database: Database["operators"]): Promise<Payer> {
  const account_id = nextId()
  await createAccount(database, { id: account_id, name: "bench" })
  await credit(database, { id: nextId(), account_id, amount_nano: CREDIT_NANO, reason: null })
  const key_id = nextId()
  await createKey(database, {
    id: key_id,
    account_id,
    name: null,
    hash: Bun.SHA256.hash(account_id, "hex"),
    prefix: "tg_live_none",
    models: null,
    expires_at: null,
    spending: null,
  })
  return { account_id, key_id }
}

function holdOf({ account_id, key_id }: Payer, terms_id: number): Hold {
  return {
    id: nextId(),
    account_id,
    key_id,
    amount_nano: 5_000_000n,
    terms_id,
    stream: false,
    idempotency: null,
  }
}

function endOf({ id }: Hold): End {
  return {
    id,
    outcome: "settled",
    charge_nano: 416_400n,
    basis: "usage",
    ending: "completed",
    failure: null,
    notes: [],
    usage: { prompt_tokens: 20, cached_tokens: 4, completion_tokens: 100 },
    terms_id: null,
    ttft_ms: 1,
    duration_ms: 2,
    freed_key_hash: null,
  }
}
