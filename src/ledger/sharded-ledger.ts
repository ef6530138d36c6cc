import { inArray } from "drizzle-orm"
import { recordOf } from "../kinds.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import { DatabaseLedger, type DatabaseLedgerOptions } from "./database-ledger.ts"
import type { Owner, PriceTerms, Standing } from "./entries.ts"
import type { LedgerLog } from "./events.ts"
import type { Ledger } from "./ledger.ts"
import { type OperatorLedger, operatorLedger } from "./operators.ts"
import { Owners } from "./queue/standings.ts"
import { type ClientReports, openClientReports } from "./reports/client.ts"
import { firstFound } from "./reports/merge.ts"
import { gateways } from "./schema/tables.ts"
import { allOrNone, dataDirOf, type ShardDatabase } from "./shards.ts"

type LedgerOptions = Omit<
  DatabaseLedgerOptions,
  "database" | "name" | "open" | "shard" | "owners" | "checkpoints"
> & {
  readonly databases: OneOrMore<ShardDatabase>
  /** Charges of the running calls of a shard's accounts if this process died now (D57). */
  checkpoints(shard: number): ReturnType<DatabaseLedgerOptions["checkpoints"]>
}

interface LedgerShard extends ShardDatabase {
  readonly ledger: DatabaseLedger
}

/** Takes a lease in every database of the ledger. Rejects, with nothing left open, if one cannot be reached. */
export async function openLedger({ databases, ...options }: LedgerOptions): Promise<Ledger> {
  const owners = new Owners()
  const is_one = databases.length === 1
  const opened = await allOrNone(
    databases.map(async ({ name, open, database }, shard) => {
      const ledger = await DatabaseLedger.open({
        ...options,
        name,
        open,
        database,
        data_dir: dataDirOf(options.data_dir, name),
        shard,
        owners,
        ...(is_one ? {} : { log: naming(name, options.log) }),
        checkpoints: () => options.checkpoints(shard),
      })
      return { name, open, database, ledger }
    }),
    ({ ledger }) => ledger.stop(),
  )
  const ledger = new ShardedLedger(oneOrMore(opened), owners)
  try {
    if (!is_one) await refuseSamePlace(opened)
  } catch (error) {
    await ledger.stop()
    throw error
  }
  return ledger
}

/** The ledger of one process (D74). It remembers which shard has an account, and asks that one alone. */
class ShardedLedger implements Ledger {
  readonly operators: OperatorLedger
  readonly reports: ClientReports
  readonly sinks: Ledger["sinks"]
  readonly #list: OneOrMore<LedgerShard>
  readonly #owners: Owners

  constructor(list: OneOrMore<LedgerShard>, owners: Owners) {
    this.operators = operatorLedger(oneOrMore(list.map(({ ledger }) => ledger.operated)))
    this.reports = openClientReports(list.map(({ database }) => database))
    this.sinks = list.map(({ ledger }) => ledger.sinks)
    this.#list = list
    this.#owners = owners
  }

  async standing(key_hash: string): Promise<Standing | null> {
    const known = this.#owners.get(key_hash)
    if (known !== null) {
      const standing = await this.shard(known.shard).standing(key_hash)
      if (standing !== null) return standing
      this.#owners.forget(key_hash)
    }
    return this.#find(key_hash)
  }

  owner(key_hash: string): Owner | null {
    return this.#owners.get(key_hash)
  }

  forget(key_hash: string): void {
    this.#owners.forget(key_hash)
  }

  async elsewhere(key_hash: string, { shard }: Owner): Promise<Owner | null> {
    if (this.#list.length === 1) return null
    this.#owners.forget(key_hash)
    const standing = await this.#find(key_hash)
    return standing === null || standing.shard === shard ? null : standing
  }

  shard(index: number): DatabaseLedger {
    const shard = this.#list[index]
    if (shard === undefined) throw new Error("there is no shard with this index")
    return shard.ledger
  }

  async terms(wanted: readonly PriceTerms[]): Promise<readonly (readonly number[])[]> {
    return Promise.all(this.#list.map(({ ledger }) => ledger.terms(wanted)))
  }

  writable(): boolean {
    return this.#list.some(({ ledger }) => ledger.writable())
  }

  writableShards(): readonly (readonly [name: string, writable: boolean])[] {
    return this.#list.length === 1 ? [] : this.#list.map(({ name, ledger }) => [name, ledger.writable()])
  }

  depths(): ReturnType<Ledger["depths"]> {
    return recordOf(["hold", "end", "standing", "spool"], (name) =>
      this.#list.reduce((sum, { ledger }) => sum + ledger.depths()[name], 0),
    )
  }

  async stop(): Promise<void> {
    await Promise.all(this.#list.map(({ ledger }) => ledger.stop()))
  }

  #find(key_hash: string): Promise<Standing | null> {
    return firstFound(this.#list.map(({ ledger }) => ledger.standing(key_hash)))
  }
}

/** Throws a sentence if the lease of one shard is in another: two URLs can lead to one database. */
async function refuseSamePlace(shards: readonly LedgerShard[]): Promise<void> {
  const ids = shards.map(({ ledger }) => ledger.gateway_id)
  for (const { name, database } of shards) {
    const found = await database.operators
      .select({ id: gateways.id })
      .from(gateways)
      .where(inArray(gateways.id, ids))
    const names = shards.filter(({ ledger }) => found.some(({ id }) => id === ledger.gateway_id))
    const other = names.find((shard) => shard.name !== name)
    if (other === undefined) continue
    throw new Error(
      `shards ${name} and ${other.name} are the same schema of the same database: each needs its own`,
    )
  }
}

function naming(shard: string, log: LedgerLog): LedgerLog {
  return {
    info: (fields, message) => log.info({ shard, ...fields }, message),
    warn: (fields, message) => log.warn({ shard, ...fields }, message),
    error: (fields, message) => log.error({ shard, ...fields }, message),
  }
}
