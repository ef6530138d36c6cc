import { join } from "node:path"
import { inArray } from "drizzle-orm"
import type { Address } from "./database/address.ts"
import { type Database, openLedgerDatabase } from "./database/database.ts"
import type {
  CallLedger,
  End,
  Hold,
  HoldResult,
  Measure,
  Owner,
  Refusal,
  Standing,
  Terms,
} from "./entries.ts"
import type { Log } from "./events.ts"
import { Ledger, type LedgerOptions } from "./ledger.ts"
import { Owners } from "./queue/standings.ts"
import { gateways } from "./schema/tables.ts"

/** The name of the only shard, where the configuration lists none (D74). */
export const MAIN = "main"

/** A list with at least one shard. A shard's place in it is how owners and calls name it. */
export type OneOrMore<Item> = readonly [Item, ...Item[]]

/** Where a shard is (D74). */
export interface ShardAddress {
  readonly name: string
  /** Whether accounts are created in it. */
  readonly open: boolean
  readonly address: Address
}

/** A shard whose tables are up to date. */
export interface ShardDatabase extends Pick<ShardAddress, "name" | "open"> {
  readonly database: Database
}

/** A shard in use by this process. */
export interface Shard extends ShardDatabase {
  readonly ledger: Ledger
}

/**
 * Opens the database of each shard, and brings its tables up to date. Rejects with a sentence, and with nothing left open, if
 * one cannot be used: a start needs them all (D74).
 */
export async function openShards(addresses: readonly ShardAddress[]): Promise<OneOrMore<ShardDatabase>> {
  const is_one = addresses.length === 1
  const opened = await allOrNone(
    addresses.map(async ({ name, open, address }) => {
      const database = await openLedgerDatabase(address).catch((error: unknown) => {
        throw is_one ? error : inShard(name, error)
      })
      return { name, open, database }
    }),
    ({ database }) => database.close(),
  )
  return oneOrMore(opened)
}

function inShard(name: string, error: unknown): Error {
  return new Error(`shard ${name}: ${error instanceof Error ? error.message : String(error)}`, {
    cause: error,
  })
}

export type ShardsOptions = Omit<LedgerOptions, "database" | "shard" | "owners" | "checkpoints"> & {
  readonly databases: OneOrMore<ShardDatabase>
  /** What the running calls of the accounts of a shard would be charged if this process died now (D57). */
  checkpoints(shard: number): ReturnType<LedgerOptions["checkpoints"]>
}

/**
 * The ledger in several databases, as one gateway process uses it (D74). Which shard an account is in is asked of all of them
 * and remembered; everything else is asked of that shard alone.
 */
export class Shards implements CallLedger {
  readonly list: OneOrMore<Shard>
  readonly #owners: Owners

  /** Takes a lease in every shard; rejects, with nothing left open, if one cannot be reached. */
  static async open({ databases, ...options }: ShardsOptions): Promise<Shards> {
    const owners = new Owners()
    const is_one = databases.length === 1
    const opened = await allOrNone(
      databases.map(async (shard, place) => {
        const ledger = await Ledger.open({
          ...options,
          database: shard.database,
          data_dir: dataDirOf(options.data_dir, shard.name),
          shard: place,
          owners,
          log: is_one ? options.log : naming(shard.name, options.log),
          checkpoints: () => options.checkpoints(place),
        })
        return { ...shard, ledger }
      }),
      ({ ledger }) => ledger.stop(),
    )
    const shards = new Shards(oneOrMore(opened), owners)
    try {
      if (!is_one) await refuseSamePlace(opened)
    } catch (error) {
      await shards.stop()
      throw error
    }
    return shards
  }

  private constructor(list: OneOrMore<Shard>, owners: Owners) {
    this.list = list
    this.#owners = owners
  }

  /** For calls: where there is one shard its own ledger, so that nothing stands between. */
  get calls(): CallLedger {
    const [first, ...others] = this.list
    return others.length === 0 ? first.ledger : this
  }

  async standing(key_hash: string): Promise<Standing | null> {
    const known = this.#owners.get(key_hash)
    if (known !== null) {
      const standing = await this.#ledgerOf(known.shard).standing(key_hash)
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
    this.#owners.forget(key_hash)
    const standing = await this.#find(key_hash)
    return standing === null || standing.shard === shard ? null : standing
  }

  hold(hold: Hold, shard: number): Promise<HoldResult> {
    return this.#ledgerOf(shard).hold(hold)
  }

  end(end: End, shard: number): Promise<unknown> {
    return this.#ledgerOf(shard).end(end)
  }

  spooled(call_id: string, shard: number): Promise<void> {
    return this.#ledgerOf(shard).spooled(call_id)
  }

  measure(measure: Measure, shard: number): void {
    this.#ledgerOf(shard).measure(measure)
  }

  refused(refusal: Refusal, shard: number): void {
    this.#ledgerOf(shard).refused(refusal)
  }

  keepAnswer(call_id: string, body: string, keep_ms: number, shard: number): Promise<void> {
    return this.#ledgerOf(shard).keepAnswer(call_id, body, keep_ms)
  }

  keptAnswer(call_id: string, shard: number): Promise<string | null> {
    return this.#ledgerOf(shard).keptAnswer(call_id)
  }

  /** The numbers of terms in each shard (D56). Rejects if one shard does not register them. */
  terms(wanted: readonly Terms[]): Promise<readonly (readonly number[])[]> {
    return Promise.all(this.list.map(({ ledger }) => ledger.terms(wanted)))
  }

  /** Whether new calls of some account can be held. */
  writable(): boolean {
    return this.list.some(({ ledger }) => ledger.writable())
  }

  /** What waits for a statement, by its kind, and the ends in the spools, of all shards together. */
  depths(): ReturnType<Ledger["depths"]> {
    const sum = { hold: 0, end: 0, standing: 0, spool: 0 }
    for (const { ledger } of this.list) {
      const { hold, end, standing, spool } = ledger.depths()
      sum.hold += hold
      sum.end += end
      sum.standing += standing
      sum.spool += spool
    }
    return sum
  }

  /** Stops every shard's ledger, at the same time. */
  async stop(): Promise<void> {
    await Promise.all(this.list.map(({ ledger }) => ledger.stop()))
  }

  #find(key_hash: string): Promise<Standing | null> {
    return firstFound(this.list.map(({ ledger }) => ledger.standing(key_hash)))
  }

  #ledgerOf(place: number): Ledger {
    const shard = this.list[place]
    if (shard === undefined) throw new Error("there is no shard at this place")
    return shard.ledger
  }
}

/** Throws a sentence if the lease of one shard is in another: two URLs can lead to one database. */
async function refuseSamePlace(shards: readonly Shard[]): Promise<void> {
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

/** Where the spool of a shard is: that of `main` where it is without a list of shards, so that a list can follow (D74). */
export function dataDirOf(data_dir: string, name: string): string {
  return name === MAIN ? data_dir : join(data_dir, "shards", name)
}

function naming(shard: string, log: Log): Log {
  return {
    info: (fields, message) => log.info({ shard, ...fields }, message),
    warn: (fields, message) => log.warn({ shard, ...fields }, message),
    error: (fields, message) => log.error({ shard, ...fields }, message),
  }
}

/** The first answer that is not null; null once all are. Rejects when there is none, and some failed. */
export function firstFound<Answer>(asked: readonly Promise<Answer | null>[]): Promise<Answer | null> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer | null>()
  let failure: unknown = null
  let left = asked.length
  const ended = () => {
    left -= 1
    if (left > 0) return
    if (failure === null) resolve(null)
    else reject(failure)
  }
  for (const one of asked) {
    one.then(
      (answer) => {
        if (answer !== null) resolve(answer)
        ended()
      },
      (error: unknown) => {
        failure = error
        ended()
      },
    )
  }
  return promise
}

/** All of what is being opened; if one cannot be, what was opened is closed, and it rejects with the first failure. */
export async function allOrNone<Opened>(
  opening: readonly Promise<Opened>[],
  close: (opened: Opened) => Promise<void>,
): Promise<Opened[]> {
  const results = await Promise.allSettled(opening)
  const failed = results.find((result) => result.status === "rejected")
  if (failed === undefined) return Promise.all(opening)
  await Promise.all(results.map((result) => (result.status === "fulfilled" ? close(result.value) : null)))
  throw failed.reason
}

export function oneOrMore<Item>([first, ...others]: readonly Item[]): OneOrMore<Item> {
  if (first === undefined) throw new Error("there is no shard")
  return [first, ...others]
}
