import { eq, isNull, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { picoRecord, toolNames } from "../../kinds.ts"
import type { PriceTerms } from "../entries.ts"
import { terms } from "../schema/tables.ts"

/** Key of the advisory lock; the same in every gateway. */
const TERMS_LOCK = 7_061_981

/**
 * Returns the ids of these terms, in their order (D56): all of the configuration, or all of one customer price (D100). Terms that were never sold before get a row; rows are never changed.
 * Gateways that start together take turns, so that none makes a row twice.
 */
export async function registerTerms(
  database: PostgresJsDatabase,
  wanted: readonly PriceTerms[],
): Promise<readonly number[]> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT pg_advisory_xact_lock(${TERMS_LOCK})`)
    const { customer_price_id } = wanted[0] ?? {}
    const of_price =
      customer_price_id === undefined
        ? isNull(terms.customer_price_id)
        : eq(terms.customer_price_id, customer_price_id)
    const known = new Map(
      (await transaction.select().from(terms).where(of_price)).map(({ id, created_at: _, ...row }) => [
        nameOf(row),
        id,
      ]),
    )
    const numbers: number[] = []
    for (const one of wanted) {
      const row = rowOf(one)
      const name = nameOf(row)
      let id = known.get(name)
      if (id === undefined) {
        const [added] = await transaction.insert(terms).values(row).returning({ id: terms.id })
        if (added === undefined) throw new Error("terms were not added")
        id = added.id
        known.set(name, id)
      }
      numbers.push(id)
    }
    return numbers
  })
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

/** A text that is equal for equal terms only. */
function nameOf(row: Omit<typeof terms.$inferInsert, "id" | "created_at">): string {
  const entries = Object.entries(row).sort(([one], [other]) => (one < other ? -1 : 1))
  return JSON.stringify(entries.map(([name, value]) => [name, String(value)]))
}
