import type { ShardAddress } from "../../src/ledger/shards.ts"
import { freshDatabase } from "./database.ts"

/** The shards `a` and `b`, each a fresh database. New accounts are only in `a` unless `is_b_open`. */
export async function twoShards(is_b_open = true) {
  const databases = [await freshDatabase(), await freshDatabase()] as const
  const [{ address: a }, { address: b }] = databases
  const shards: readonly [ShardAddress, ShardAddress] = [
    { name: "a", open: true, address: a },
    { name: "b", open: is_b_open, address: b },
  ]
  return { shards, drop: () => Promise.all(databases.map((database) => database.drop())) }
}
