import type { ShardAddress } from "../../src/ledger/shards.ts"
import { freshDatabase } from "./database.ts"
import type { TestGateway } from "./gateway.ts"

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

/** A new account with 100 USD in the shard: new ones are in either. */
export async function accountIn({ admin }: TestGateway, shard: string): Promise<string> {
  for (;;) {
    const made = await admin<{ id: string; shard?: string }>("POST", "/accounts", { name: "Acme" })
    if (made.shard !== shard) continue
    await admin("POST", `/accounts/${made.id}/credits`, { amount: "100" })
    return made.id
  }
}
