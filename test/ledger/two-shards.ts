import { afterAll, expect } from "bun:test"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import type { Db } from "../../src/ledger/database/statement.ts"
import { openTestDatabase, type TestDatabase, violations } from "./test-database.ts"

/** A shard for moves, operators and its gateway. */
export interface Shard {
  readonly name: string
  readonly open: true
  readonly database: Db
  readonly db: TestDatabase
  readonly connection: DatabaseConnection
  readonly gateway_id: string
}

/** The shards `a` and `b` of a test file. After its last test, their journals must add up. */
export async function twoShards(): Promise<readonly [a: Shard, b: Shard]> {
  const opened = async (name: string): Promise<Shard> => {
    const db = await openTestDatabase()
    const gateway_id = await db.gateway()
    return { name, open: true, database: db.database.operators, db, connection: db.connection(), gateway_id }
  }
  const shards = [await opened("a"), await opened("b")] as const
  afterAll(async () => {
    for (const { db, database } of shards) {
      expect((await audit(database, { settle_ms: 0 })).violations).toEqual([])
      expect(await violations(db.sql, { overdrawn: true })).toEqual([])
      await db.close()
    }
  })
  return shards
}
