import { sql } from "drizzle-orm"
import type { Runner } from "../database/connection.ts"
import { arrayOf, names, statement } from "../database/statement.ts"
import { k } from "../schema/aliases.ts"
import { keys } from "../schema/tables.ts"

const STATEMENT_MS = 5_000

/** Writes when keys were used. Skips keys that another gateway is writing, because it writes the same time. */
const touch = statement(
  "last_used",
  sql`
WITH locked AS MATERIALIZED (
  SELECT ${k.id} FROM ${keys} ${k}
  WHERE ${k.id} = ANY ($1::uuid[])
  ORDER BY ${k.id} FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ${keys} ${k} SET ${names(keys.last_used_at)} = now() WHERE ${k.id} = ANY (ARRAY(SELECT id FROM locked))`,
)

export class LastUsed {
  #keys = new Set<string>()

  note(key_id: string): void {
    this.#keys.add(key_id)
  }

  async write(connection: Runner): Promise<void> {
    if (this.#keys.size === 0) return
    const keys = this.#keys
    this.#keys = new Set()
    try {
      await connection.run(touch, [arrayOf([...keys], (id) => id)], STATEMENT_MS, keys.size)
    } catch (error) {
      for (const key of keys) this.#keys.add(key)
      throw error
    }
  }
}
