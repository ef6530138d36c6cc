import type { Db } from "../database/db.ts"
import { seals } from "../schema/sums.ts"

/** Sums per account of the entries that an audit has read: balance and held amount. */
type SumsByAccount = ReadonlyMap<string, readonly [bigint, bigint]>

/** SHA-256 over the lines `month hash` of all seals and `account balance held` of the sums, in their order. */
export async function hashOfEntries(database: Db, sums: SumsByAccount): Promise<string> {
  const sealed = await database
    .select({ month: seals.month, hash: seals.hash })
    .from(seals)
    .orderBy(seals.month)
  const hasher = new Bun.CryptoHasher("sha256")
  for (const { month, hash } of sealed) hasher.update(`${month} ${hash}\n`)
  for (const id of [...sums.keys()].sort()) {
    const [balance_nano, held_nano] = sums.get(id) ?? [0n, 0n]
    hasher.update(`${id} ${balance_nano} ${held_nano}\n`)
  }
  return hasher.digest("hex")
}
