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
import { endBatch } from "../src/ledger/money/end.ts"
import { holdBatch } from "../src/ledger/money/hold.ts"
import { Lease } from "../src/ledger/money/lease.ts"
import { openLedger } from "../src/ledger/sharded-ledger.ts"
import { openShards } from "../src/ledger/shards.ts"
import { Latencies } from "./latencies.ts"
import { OwnPostgres, quietLog } from "./own-postgres.ts"
import { cpuTimes, postgresPid, spent } from "./process-status.ts"

export const LedgerQuestion = Type.Union([
  /** The first question to a ledger with several shards. */
  Type.Object({ what: Type.Literal("open"), shards: Type.Integer() }),
  /** Time the hold and the settlement of one call at a time, with no other load. */
  Type.Object({ what: Type.Literal("alone"), samples: Type.Integer() }),
  /** Hold and settle pairs as fast as they go, `in_flight` at a time. */
  Type.Object({
    what: Type.Literal("pairs"),
    /** `batch_queues`: as the gateway does; `single`: the same statements, one per call, over `SINGLE_CONNECTIONS`. */
    how: Type.Union([Type.Literal("batch_queues"), Type.Literal("single")]),
    accounts: Type.Integer(),
    in_flight: Type.Integer(),
    duration_ms: Type.Number(),
  }),
  /** Audit every shard; the answer is the sum. */
  Type.Object({ what: Type.Literal("audit") }),
])
export type LedgerQuestion = Static<typeof LedgerQuestion>

export const OpenAnswer = Type.Object({ shards: Type.Integer() })
export const AloneAnswer = Type.Object({ hold: Type.String(), settle: Type.String() })
export const PairsAnswer = Type.Object({
  pairs: Type.Integer(),
  duration_ms: Type.Number(),
  /** CPU of the process that holds and settles, and of each Postgres that it uses. */
  cpu_ms: Type.Object({ process: Type.Number(), postgres: Type.Array(Type.Number()) }),
})
export const AuditAnswer = Type.Object({ violations: Type.Integer(), open_holds: Type.Integer() })

/** Connections for one statement per call. */
const SINGLE_CONNECTIONS = 16
const TIMEOUT_MS = 900
const CREDIT_NANO = 1_000_000_000_000_000n
const DAY_MS = 86_400_000

/** The same prices as in the scenarios. */
export const TERMS = {
  family: "chat",
  model: "bench",
  upstream: "bench",
  price: {
    input_pico: 1_000_000n,
    cached_input_pico: 100_000n,
    output_pico: 4_000_000n,
    per_call_nano: 0n,
  },
}

export interface Payer {
  readonly account_id: string
  readonly key_id: string
}

/** An account, and what a call of it is held with in its shard. */
interface ShardPayer extends Payer {
  readonly shard: number
  readonly terms_id: number
}

/**
 * The ledger without a gateway, in one shard or several, each on a Postgres of its own with the gateway's settings: the
 * reference for what billing costs. Accounts are spread evenly over the shards.
 */
export class LedgerLoad {
  readonly #owns: readonly OwnPostgres[]
  readonly #databases: readonly Database[]
  readonly #ledger: Ledger
  readonly #terms_ids: readonly number[]
  /** Of the first shard. */
  readonly #connections: readonly DatabaseConnection[]
  readonly #gateway_id: string
  /** What each connection runs last. */
  readonly #turns: Promise<unknown>[] = []
  readonly #payers: ShardPayer[] = []

  static async open(shards: number): Promise<LedgerLoad> {
    const owns = Array.from({ length: shards }, () => new OwnPostgres())
    try {
      for (const own of owns) await own.start()
      const addresses = owns.map(({ address }, shard) => ({ name: `shard-${shard}`, open: true, address }))
      const shard_databases = await openShards(addresses)
      const ledger = await openLedger({
        databases: shard_databases,
        data_dir: owns[0]?.folder ?? "",
        lease: { renew_ms: 5_000, expire_ms: 20_000 },
        log: quietLog,
        checkpoints: () => [],
      })
      const [{ database }] = shard_databases
      const connections = Array.from({ length: SINGLE_CONNECTIONS }, () => database.connection())
      // This lease is never renewed.
      const lease = new Lease(database.connection(), { renew_ms: DAY_MS, expire_ms: 3 * DAY_MS })
      await lease.acquire(nextId())
      const terms_ids = (await ledger.terms([TERMS])).map(([terms_id = 0]) => terms_id)
      const databases = shard_databases.map((shard) => shard.database)
      return new LedgerLoad(owns, databases, ledger, terms_ids, connections, lease.gateway_id)
    } catch (error) {
      await Promise.all(owns.map((own) => own.stop()))
      throw error
    }
  }

  private constructor(
    owns: readonly OwnPostgres[],
    databases: readonly Database[],
    ledger: Ledger,
    terms_ids: readonly number[],
    connections: readonly DatabaseConnection[],
    gateway_id: string,
  ) {
    this.#owns = owns
    this.#databases = databases
    this.#ledger = ledger
    this.#terms_ids = terms_ids
    this.#connections = connections
    this.#gateway_id = gateway_id
  }

  async answer(question: LedgerQuestion): Promise<object> {
    switch (question.what) {
      case "open":
        return { shards: this.#owns.length }
      case "alone":
        return this.#alone(question.samples)
      case "pairs":
        return this.#pairs(question)
      case "audit": {
        const found = await Promise.all(this.#databases.map(({ operators }) => audit(operators)))
        return {
          violations: found.reduce((sum, { violations }) => sum + violations.length, 0),
          open_holds: found.reduce((sum, { open_holds }) => sum + open_holds, 0),
        }
      }
    }
  }

  async end(): Promise<void> {
    await this.#ledger.stop()
    await Promise.all(this.#connections.map((connection) => connection.end()))
    await Promise.all(this.#databases.map((database) => database.close()))
    await Promise.all(this.#owns.map((own) => own.stop()))
  }

  async #alone(samples: number) {
    const payer = await this.#payer(0)
    const holds = new Latencies()
    const settlements = new Latencies()
    for (let sample = 0; sample < samples; sample++) {
      const hold = holdOf(payer, payer.terms_id)
      const started_ms = performance.now()
      await this.#holdOne(0, hold)
      const held_ms = performance.now()
      await this.#endOne(0, hold)
      holds.record(held_ms - started_ms)
      settlements.record(performance.now() - held_ms)
    }
    return { hold: holds.encoded, settle: settlements.encoded }
  }

  async #pairs({ how, accounts, in_flight, duration_ms }: Extract<LedgerQuestion, { what: "pairs" }>) {
    await this.#payer(accounts - 1)
    const pids = this.#owns.map(({ folder }) => postgresPid(folder))
    const before = pids.map((postgres_pid) => cpuTimes({ pid: null, postgres_pid }))
    const started_ms = performance.now()
    const until_ms = started_ms + duration_ms
    let begun = 0
    let pairs = 0
    const work = async (worker: number) => {
      while (performance.now() < until_ms) {
        const payer = await this.#payer(begun++ % accounts)
        const hold = holdOf(payer, payer.terms_id)
        if (how === "batch_queues") {
          const { outcome } = await this.#ledger.shard(payer.shard).hold(hold)
          if (outcome !== "held") throw new Error(`a hold was refused: ${outcome}`)
          await this.#ledger.shard(payer.shard).end(endOf(hold))
        } else {
          await this.#holdOne(worker, hold)
          await this.#endOne(worker, hold)
        }
        pairs += 1
      }
    }
    await Promise.all(Array.from({ length: in_flight }, (_, worker) => work(worker)))
    const used = before.map((times, shard) =>
      spent(times, cpuTimes({ pid: null, postgres_pid: pids[shard] ?? null })),
    )
    return {
      pairs,
      duration_ms: performance.now() - started_ms,
      cpu_ms: { process: used[0]?.load ?? 0, postgres: used.map(({ postgres }) => postgres) },
    }
  }

  async #holdOne(worker: number, hold: Hold): Promise<void> {
    const [held] = await this.#inTurn(worker, (connection) =>
      holdBatch(connection, this.#gateway_id, [hold], TIMEOUT_MS),
    )
    if (held?.outcome !== "held") throw new Error(`a hold was refused: ${held?.outcome}`)
  }

  async #endOne(worker: number, hold: Hold): Promise<void> {
    const [ended] = await this.#inTurn(worker, (connection) =>
      endBatch(connection, [{ end: endOf(hold), hold }], TIMEOUT_MS),
    )
    if (ended !== "applied") throw new Error(`an end changed nothing: ${ended}`)
  }

  /** One statement at a time for each connection, so that a statement's time limit does not count those before it. */
  #inTurn<Result>(worker: number, run: (connection: DatabaseConnection) => Promise<Result>): Promise<Result> {
    const place = worker % this.#connections.length
    const connection = this.#connections[place]
    if (connection === undefined) throw new Error("there is no connection")
    const turn = (this.#turns[place] ?? Promise.resolve()).then(() => run(connection))
    this.#turns[place] = turn.catch(() => {})
    return turn
  }

  #operators(shard: number): Database["operators"] {
    const database = this.#databases[shard]
    if (database === undefined) throw new Error("there is no such shard")
    return database.operators
  }

  /** The account with this number; creates it, and all before it, when missing. */
  async #payer(number: number): Promise<ShardPayer> {
    const missing = Math.max(0, number + 1 - this.#payers.length)
    const made = Array.from({ length: missing }, async (_, at) => {
      const shard = (this.#payers.length + at) % this.#owns.length
      return { ...(await makePayer(this.#operators(shard))), shard, terms_id: this.#terms_ids[shard] ?? 0 }
    })
    if (missing > 0) this.#payers.push(...(await Promise.all(made)))
    const payer = this.#payers[number]
    if (payer === undefined) throw new Error("there is no such account")
    return payer
  }
}

export async function makePayer(database: Database["operators"]): Promise<Payer> {
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

export function holdOf({ account_id, key_id }: Payer, terms_id: number): Hold {
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

export function endOf({ id }: Hold): End {
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
