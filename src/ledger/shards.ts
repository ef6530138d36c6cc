import { join } from "node:path"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import type { Address } from "./database/address.ts"
import { type Database, openLedgerDatabase } from "./database/database.ts"

/** The name of the only shard, where the configuration lists none (D74). */
export const MAIN = "main"

export interface ShardAddress {
  readonly name: string
  /** True if accounts are created in it. */
  readonly open: boolean
  readonly address: Address
}

/** A shard whose tables are up to date. */
export interface ShardDatabase extends Pick<ShardAddress, "name" | "open"> {
  readonly database: Database
}

/** Opens each shard's database, up to date. Rejects with a sentence if one cannot be used (D74). */
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

/** Folder of a shard's spool. The one of `main` is where it is without a list of shards, so that a list can follow (D74). */
export function dataDirOf(data_dir: string, name: string): string {
  return name === MAIN ? data_dir : join(data_dir, "shards", name)
}

/** Waits for all. If one fails, closes those that were opened, and rejects with the first failure. */
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
