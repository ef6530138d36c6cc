import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { DatabaseConnection } from "../database/connection.ts"
import { allOf, Batch, names, of, statement } from "../database/statement.ts"
import type { Checkpoint } from "../entries.ts"
import { checkpoints } from "../schema/tables.ts"
import { bucketsOf } from "./end-exact.ts"

const STATEMENT_MS = 2_000
const CHUNK = 500

const batch = new Batch<Checkpoint>(3, [
  [checkpoints.id, ({ id }) => id],
  [checkpoints.charge_nano, ({ charge_nano }) => charge_nano],
  [checkpoints.basis, ({ basis }) => basis],
  [checkpoints.prompt_tokens, ({ usage }) => usage?.prompt_tokens ?? null],
  [checkpoints.cached_tokens, ({ usage }) => usage?.cached_tokens ?? null],
  [checkpoints.completion_tokens, ({ usage }) => usage?.completion_tokens ?? null],
  [checkpoints.terms_id, ({ terms_id }) => terms_id],
  [checkpoints.buckets, ({ usage }) => bucketsOf(usage), "text"],
])

/** All but the id, and the buckets, which are read as text. */
const charge_columns = batch.columns.slice(1, -1)

const p = alias(checkpoints, "p")

/** Writes the changed checkpoints of running calls, and deletes those of calls that have ended. */
const write = statement(
  "checkpoint",
  sql`
WITH removed AS (
  DELETE FROM ${checkpoints} ${p} WHERE ${p.id} = ANY ($2::uuid[])
)
INSERT INTO ${checkpoints} (${names(checkpoints.id, ...charge_columns, checkpoints.buckets, checkpoints.gateway_id)})
SELECT ${allOf("x", checkpoints.id, ...charge_columns)}, ${of("x", checkpoints.buckets)}::int[], $1::uuid FROM ${batch.relation}
ON CONFLICT (id) DO UPDATE SET (${names(...charge_columns, checkpoints.buckets)}) = (${allOf("excluded", ...charge_columns, checkpoints.buckets)})`,
)

/** Deletes the checkpoints of a gateway whose calls have all ended. */
export const forgetCheckpoints = statement(
  "checkpoint",
  sql`DELETE FROM ${checkpoints} ${p} WHERE ${p.gateway_id} = $1::uuid`,
)

/**
 * Checkpoints: what each running call would be charged if its gateway died now (D57). Written when they change, deleted
 * once the end is in the ledger. `isOpen`: true for a call whose hold may be open in the ledger.
 */
export function checkpointsOn(
  connection: DatabaseConnection,
  gatewayId: () => string,
  isOpen: (id: string) => boolean,
) {
  /** The charge that was last written, for each call that has a row; null if the row may be lost. */
  let written = new Map<string, bigint | null>()
  return {
    /** Makes the next write include the checkpoint of every running call. */
    forgetWritten(): void {
      for (const id of written.keys()) written.set(id, null)
    },
    /** `running`: checkpoints of the running calls that have something to charge. */
    async write(running: readonly Checkpoint[]): Promise<void> {
      const next = new Map<string, bigint | null>(running.map(({ id, charge_nano }) => [id, charge_nano]))
      const changed = running.filter(({ id, charge_nano }) => written.get(id) !== charge_nano)
      const ended: string[] = []
      for (const [id, charge_nano] of written) {
        if (next.has(id)) continue
        // Its settlement is on the way. If that is lost with this process, the checkpoint is charged.
        if (isOpen(id)) next.set(id, charge_nano)
        else ended.push(id)
      }
      // Statements without rows are not sent: an idle gateway writes nothing.
      for (let at = 0; at < Math.max(changed.length, ended.length); at += CHUNK) {
        const rows = changed.slice(at, at + CHUNK)
        const values = [gatewayId(), `{${ended.slice(at, at + CHUNK).join(",")}}`, ...batch.values(rows)]
        await connection.run(write, values, STATEMENT_MS, rows.length)
      }
      written = next
    },
  }
}
