import { inArray } from "drizzle-orm"
import { recordOf } from "../kinds.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import { type DatabaseLedger, type DatabaseLedgerOptions, openDatabaseLedger } from "./database-ledger.ts"
import type { Owner, PriceTerms, Standing } from "./entries.ts"
import type { LedgerLog } from "./events.ts"
import { operatorLedger } from "./operators.ts"
import { Owners } from "./queue/standings.ts"
import { openClientReports } from "./reports/client.ts"
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

/** The ledger as one gateway process uses it: in one database, or in several shards (D74). No caller can tell which. */
export type Ledger = Awaited<ReturnType<typeof openLedger>>

/** Takes a lease in every database of the ledger. Rejects, with nothing left open, if one cannot be reached. */
export async function openLedger({ databases, ...options }: LedgerOptions) {
  const owners = new Owners()
  const is_one = databases.length === 1
  const opened = await allOrNone(
    databases.map(async ({ name, open, database }, shard) => {
      const ledger = await openDatabaseLedger({
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
  const ledger = ledgerOf(oneOrMore(opened), owners)
  try {
    if (!is_one) await refuseSamePlace(opened)
  } catch (error) {
    await ledger.stop()
    throw error
  }
  return ledger
}

/** It remembers which shard has an account, and asks that one alone. */
function ledgerOf(list: OneOrMore<LedgerShard>, owners: Owners) {
  const shard = (index: number): DatabaseLedger => {
    const found = list[index]
    if (found === undefined) throw new Error("there is no shard with this index")
    return found.ledger
  }
  const find = (key_hash: string) => firstFound(list.map(({ ledger }) => ledger.standing(key_hash)))
  return {
    shard,
    operators: operatorLedger(oneOrMore(list.map(({ ledger }) => ledger.operated))),
    /** For clients that read their own account (D47). */
    reports: openClientReports(list.map(({ database }) => database)),
    /** The sinks of events in each shard, as this process delivers to them (D96). */
    sinks: list.map(({ ledger }) => ledger.sinks),
    async standing(key_hash: string): Promise<Standing | null> {
      const known = owners.get(key_hash)
      if (known !== null) {
        const standing = await shard(known.shard).standing(key_hash)
        if (standing !== null) return standing
        owners.forget(key_hash)
      }
      return find(key_hash)
    },
    owner: (key_hash: string) => owners.get(key_hash),
    forget: (key_hash: string) => owners.forget(key_hash),
    async elsewhere(key_hash: string, { shard }: Owner): Promise<Owner | null> {
      if (list.length === 1) return null
      owners.forget(key_hash)
      const standing = await find(key_hash)
      return standing === null || standing.shard === shard ? null : standing
    },
    /** The ids of terms in each shard, by which holds and ends name them (D56). Rejects if one shard does not register them. */
    terms: (wanted: readonly PriceTerms[]) => Promise.all(list.map(({ ledger }) => ledger.terms(wanted))),
    /** True if new calls of some account can be held. */
    writable: () => list.some(({ ledger }) => ledger.writable()),
    /** Shards, and if they can take holds; empty where there is one database. */
    writableShards: () =>
      list.length === 1 ? [] : list.map(({ name, ledger }) => [name, ledger.writable()] as const),
    /** Numbers of items that wait for a statement, by kind, and of ends in the spool. */
    depths: () =>
      recordOf(["hold", "end", "standing", "spool"], (name) =>
        list.reduce((sum, { ledger }) => sum + ledger.depths()[name], 0),
      ),
    /** Writes what is pending, and closes timers and sockets. What takes over a second is in the spool. */
    async stop(): Promise<void> {
      await Promise.all(list.map(({ ledger }) => ledger.stop()))
    },
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
