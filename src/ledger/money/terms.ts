import { eq, isNull, sql } from "drizzle-orm"
import { picoRecord, toolNames } from "../../kinds.ts"
import type { Db } from "../database/statement.ts"
import type { PriceTerms } from "../entries.ts"
import { terms } from "../schema/tables.ts"

/** Key of the advisory lock; the same in every gateway. */
const TERMS_LOCK = 7_061_981

/**
 * Returns the ids of these terms, in their order (D56): all of the configuration, or all of one customer price (D100).
 * New terms get a row; rows are never changed. Gateways take turns to add rows, so that none is added twice.
 */
export async function registerTerms(database: Db, wanted: readonly PriceTerms[]): Promise<readonly number[]> {
  const rows = wanted.map(rowOf).map((row) => ({ row, name: nameOf(row) }))
  const customer_price_id = wanted[0]?.customer_price_id ?? null
  const known = await knownTerms(database, customer_price_id)
  if (rows.some(({ name }) => !known.has(name)))
    await database.transaction(async (transaction) => {
      await transaction.execute(sql`SELECT pg_advisory_xact_lock(${TERMS_LOCK})`)
      for (const [name, id] of await knownTerms(transaction, customer_price_id)) known.set(name, id)
      for (const { row, name } of rows) {
        if (known.has(name)) continue
        const [added] = await transaction.insert(terms).values(row).returning({ id: terms.id })
        if (added !== undefined) known.set(name, added.id)
      }
    })
  return rows.map(({ name }) => {
    const id = known.get(name)
    if (id === undefined) throw new Error("terms were not added")
    return id
  })
}

/** The ids of the terms of a customer price, or of the configuration for null, by their names. */
async function knownTerms(database: Db, customer_price_id: string | null) {
  const of_price =
    customer_price_id === null
      ? isNull(terms.customer_price_id)
      : eq(terms.customer_price_id, customer_price_id)
  const rows = await database.select().from(terms).where(of_price)
  return new Map(rows.map(({ id, created_at: _, ...row }) => [nameOf(row), id]))
}

function rowOf({
  price,
  above_tokens = 0,
  operation = "chat",
  service_tier,
  customer_price_id,
  list_terms_id,
  ...rest
}: PriceTerms) {
  const { buckets = {}, tool_runs, ...plain } = price
  const tools = tool_runs === undefined ? null : toolNames(tool_runs)
  return {
    ...rest,
    ...plain,
    ...picoRecord((bucket) => buckets[bucket] ?? null),
    tool_runs: tools && [...tools],
    tool_run_pico: tools?.map((tool) => tool_runs?.[tool] ?? 0n) ?? null,
    above_tokens,
    operation,
    service_tier: service_tier ?? null,
    customer_price_id: customer_price_id ?? null,
    list_terms_id: list_terms_id ?? null,
  }
}

/** A text that identifies the terms. */
function nameOf(row: Omit<typeof terms.$inferInsert, "id" | "created_at">): string {
  const entries = Object.entries(row).sort(([one], [other]) => (one < other ? -1 : 1))
  return JSON.stringify(entries.map(([name, value]) => [name, String(value)]))
}
