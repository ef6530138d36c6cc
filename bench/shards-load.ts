import { type Static, Type } from "@sinclair/typebox"
import { audit } from "../src/ledger/archive/audit.ts"
import type { Ledger } from "../src/ledger/ledger.ts"
import { openLedger } from "../src/ledger/sharded-ledger.ts"
import { openShards, type ShardDatabase } from "../src/ledger/shards.ts"
import {
  type AuditAnswer,
  endOf,
  holdOf,
  makePayer,
  type PairsAnswer,
  type Payer,
  TERMS,
} from "./ledger-load.ts"
import { OwnPostgres, quietLog } from "./own-postgres.ts"
import { cpuTimes, postgresPid, spent } from "./process-status.ts"

/** The questions to a process with a ledger in shards. */
export const ShardsQuestion = Type.Union([
  /** Start a Postgres for each shard, and make accounts, spread evenly over the shards. */
  Type.Object({ what: Type.Literal("open"), shards: Type.Integer(), accounts: Type.Integer() }),
  /** Hold and settle pairs as fast as they go, `in_flight` at a time, all accounts in turn. */
  Type.Object({ what: Type.Literal("pairs"), in_flight: Type.Integer(), duration_ms: Type.Number() }),
  /** Audit every shard; the answer is the sum. */
  Type.Object({ what: Type.Literal("audit") }),
])
export type ShardsQuestion = Static<typeof ShardsQuestion>

export const OpenAnswer = Type.Object({ shards: Type.Integer() })

/** An account, and what a call of it is held with in its shard. */
interface ShardPayer extends Payer {
  readonly shard: number
  readonly terms_id: number
}

/** The ledger without a gateway in one shard or several, each on a Postgres of its own with the gateway's settings. */
export class ShardsLoad {
  readonly #owns: OwnPostgres[] = []
  readonly #payers: ShardPayer[] = []
  #opening: Promise<object> = Promise.resolve({})
  #ledger: Ledger | null = null
  #databases: readonly ShardDatabase[] = []

  answer(question: ShardsQuestion): Promise<object> {
    switch (question.what) {
      case "open":
        this.#opening = this.#open(question.shards, question.accounts)
        return this.#opening
      case "pairs":
        return this.#pairs(question.in_flight, question.duration_ms)
      case "audit":
        return this.#audit()
    }
  }

  async end(): Promise<void> {
    await this.#opening.catch(() => null)
    await this.#ledger?.stop()
    await Promise.all(this.#databases.map(({ database }) => database.close()))
    await Promise.all(this.#owns.map((own) => own.stop()))
  }

  get #opened(): Ledger {
    if (this.#ledger === null) throw new Error("the shards are not open")
    return this.#ledger
  }

  async #open(count: number, accounts: number): Promise<Static<typeof OpenAnswer>> {
    for (let shard = 0; shard < count; shard++) {
      const own = new OwnPostgres()
      this.#owns.push(own)
      await own.start()
    }
    const databases = await openShards(
      this.#owns.map(({ address }, shard) => ({ name: `shard-${shard}`, open: true, address })),
    )
    const ledger = await openLedger({
      databases,
      data_dir: this.#owns[0]?.folder ?? "",
      lease: { renew_ms: 5_000, expire_ms: 20_000 },
      log: quietLog,
      checkpoints: () => [],
    })
    this.#ledger = ledger
    this.#databases = databases
    const terms = await ledger.terms([TERMS])
    const making = Array.from({ length: accounts }, async (_, at): Promise<ShardPayer> => {
      const shard = at % count
      const database = databases[shard]?.database
      const terms_id = terms[shard]?.[0]
      if (database === undefined || terms_id === undefined) throw new Error("there is no such shard")
      return { ...(await makePayer(database.operators)), shard, terms_id }
    })
    this.#payers.push(...(await Promise.all(making)))
    return { shards: count }
  }

  async #pairs(in_flight: number, duration_ms: number): Promise<Static<typeof PairsAnswer>> {
    const ledger = this.#opened
    const pids = this.#owns.map(({ folder }) => postgresPid(folder))
    const cpu = () => pids.map((postgres_pid) => cpuTimes({ pid: null, postgres_pid }))
    const before = cpu()
    const started_ms = performance.now()
    let begun = 0
    let pairs = 0
    const work = async () => {
      while (performance.now() < started_ms + duration_ms) {
        const payer = this.#payers[begun++ % this.#payers.length]
        if (payer === undefined) throw new Error("nobody pays")
        const hold = holdOf(payer, payer.terms_id)
        const { outcome } = await ledger.hold(hold, payer.shard)
        if (outcome !== "held") throw new Error(`a hold was refused: ${outcome}`)
        await ledger.end(endOf(hold), payer.shard)
        pairs += 1
      }
    }
    await Promise.all(Array.from({ length: in_flight }, work))
    const after = cpu()
    const used = before.flatMap((times, shard) => {
      const later = after[shard]
      return later === undefined ? [] : [spent(times, later)]
    })
    return {
      pairs,
      duration_ms: performance.now() - started_ms,
      cpu_ms: { process: used[0]?.load ?? 0, postgres: used.map(({ postgres }) => postgres) },
    }
  }

  async #audit(): Promise<Static<typeof AuditAnswer>> {
    const found = await Promise.all(this.#databases.map(({ database }) => audit(database.operators)))
    return {
      violations: found.reduce((sum, { violations }) => sum + violations.length, 0),
      open_holds: found.reduce((sum, { open_holds }) => sum + open_holds, 0),
    }
  }
}
